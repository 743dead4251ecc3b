package http1

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Server serves HTTP/1 on connections, with one goroutine for each. Set its fields before the first call of a method and
// leave them alone after; only Handler is needed.
//
// A handler gets an [http.Request] and an [http.ResponseWriter] that are good until it returns and belong to the connection
// after that: nothing may keep them, nor the maps and slices in them. The strings in them are good for ever. The context of
// the request is the connection's: it ends when the client leaves or the connection ends, not when the handler returns.
//
// The ResponseWriter flushes, hands its connection over ([http.Hijacker]), takes interim answers and trailers as net/http's
// does, and never guesses a Content-Type. A body may be read while the answer is written.
type Server struct {
	Handler http.Handler

	// Limit is what a head may cost. Zero: 64 KiB and 100 fields.
	Limit Limit

	// ConnState is told when a connection begins (StateNew) and when it ends (StateClosed) or is handed over
	// (StateHijacked). Nil: nobody is.
	ConnState func(net.Conn, http.ConnState)
	// ConnContext makes the context that a connection's requests have of the one that they would have. Nil: they have that.
	ConnContext func(ctx context.Context, c net.Conn) context.Context
	// Refuse answers what is no request, or was not sent in time: err says what is wrong, status how it is to be answered.
	// The request has neither method nor target. The connection ends after it. Nil: with a line of text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
	// Panicked is told what a handler panicked with, but for [http.ErrAbortHandler]. Nil: nobody is.
	Panicked func(fault any)

	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	watching bool               // guarded by mu: the watch runs
	closed   bool               // guarded by mu
	resting  map[int]*conn      // guarded by mu; connections at rest by their descriptor
	dorm     *dorm              // guarded by mu; where they are; nil: nowhere yet
	quiet    chan struct{}      // guarded by mu; closed when the last connection ended; nil: nobody waits

	patience atomic.Pointer[Patience] // nil: the zero one
	draining atomic.Bool
	clock    atomic.Int64 // of the watch: milliseconds since begin
	date     atomic.Pointer[string]
}

// Patience is how long a client may take, and how long it may stay. Zero means what is usual.
type Patience struct {
	Head time.Duration // for a whole head, from its first byte, and until the first byte of a connection; usually 10 s
	Idle time.Duration // between two requests; usually 75 s
	Gap  time.Duration // between two signs of life: reads of a body, writes that the client takes; usually 60 s

	// BodyRate is the bytes a second, on average, with which a body of a known length must come once it has taken ten
	// seconds; usually 64. Negative: however slowly. A chunked body may be a stream, which may be quiet.
	BodyRate int
	// Requests is how many requests a connection may bring. Zero: any number.
	Requests int
}

// SetPatience makes p what holds from now on, for connections that are open too.
func (s *Server) SetPatience(p Patience) { s.patience.Store(&p) }

var usualPatience Patience

func (s *Server) patient() *Patience {
	if p := s.patience.Load(); p != nil {
		return p
	}
	return &usualPatience
}

// ErrServerClosed is what Serve returns after Close or Shutdown.
var ErrServerClosed = http.ErrServerClosed

// Serve serves the connections of a listener until that fails or the server is closed.
func (s *Server) Serve(l net.Listener) error {
	err := Accept(l, s.Go)
	if s.isClosed() {
		return ErrServerClosed
	}
	return err
}

// Accept gives every connection of a listener to take, until the listener fails. That there are no descriptors left is no
// failure: they come back.
func Accept(l net.Listener, take func(net.Conn)) error {
	var delay time.Duration
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			delay = 0
			take(c)
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			time.Sleep(delay)
		default:
			return err
		}
	}
}

// LooksLikeHTTP reports whether the first bytes of a connection are those of a request in the clear.
func LooksLikeHTTP(first []byte) bool {
	method, target, _ := bytes.Cut(first, []byte(" "))
	return len(method) > 0 && method[0] >= 'A' && method[0] <= 'Z' && all(method, tokenByte) && all(target, targetByte)
}

// Go serves a connection in a goroutine of its own, in which it is asked for its addresses too: one behind a PROXY header
// has to read that first. Of TLS the handshake was made.
func (s *Server) Go(nc net.Conn) { go s.ServeConn(nc) }

// ServeConn serves a connection until it ends.
func (s *Server) ServeConn(nc net.Conn) {
	if c := s.newConn(nc); c != nil {
		c.serve()
	}
}

// newConn takes a connection in, or closes it: nil.
func (s *Server) newConn(nc net.Conn) *conn {
	c := &conn{server: s, net: nc}
	c.init()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		nc.Close()
		return nil
	}
	if s.conns == nil {
		s.conns = make(map[*conn]struct{})
	}
	s.conns[c] = struct{}{}
	if !s.watching {
		s.watching = true
		s.tick(time.Now())
		go s.watch()
	}
	s.mu.Unlock()
	c.enter(phaseNew)
	if s.ConnState != nil {
		s.ConnState(nc, http.StateNew)
	}
	c.identify()
	return c
}

// forget is called when a connection has ended or belongs to somebody else.
func (s *Server) forget(c *conn, state http.ConnState) {
	s.mu.Lock()
	delete(s.conns, c)
	if len(s.conns) == 0 && s.quiet != nil {
		close(s.quiet)
		s.quiet = nil
	}
	s.mu.Unlock()
	if s.ConnState != nil {
		s.ConnState(c.net, state)
	}
}

// Drain makes every answer from now on the last of its connection.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown closes idle connections, then waits for the others to have been answered, until ctx ends. Listeners are for the
// caller to close, before.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.closed = true
	if s.quiet == nil {
		s.quiet = make(chan struct{})
	}
	quiet := s.quiet
	if len(s.conns) == 0 {
		close(quiet)
		s.quiet = nil
	}
	for c := range s.conns {
		c.closeIdle()
	}
	s.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes every connection. Handlers notice by their contexts, and by reads and writes that fail.
func (s *Server) Close() error {
	s.Drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		c.cut()
	}
	return nil
}

// ending reports whether connections end once they are idle.
func (s *Server) ending() bool { return s.draining.Load() && s.isClosed() }

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) headTimeout() time.Duration { return usual(s.patient().Head, 10*time.Second) }
func (s *Server) idleTimeout() time.Duration { return usual(s.patient().Idle, 75*time.Second) }
func (s *Server) gapTimeout() time.Duration  { return usual(s.patient().Gap, 60*time.Second) }

func (s *Server) bodyRate() int64 {
	if rate := s.patient().BodyRate; rate != 0 {
		return int64(rate)
	}
	return 64
}

func (s *Server) limit() Limit {
	l := s.Limit
	if l.Bytes == 0 {
		l.Bytes = 64 << 10
	}
	if l.Fields == 0 {
		l.Fields = 100
	}
	return l
}

func usual(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// errLate is what reads and writes of a connection return that was given up.
var errLate error = lateError{}

type lateError struct{}

func (lateError) Error() string        { return "http1: the client was too slow" }
func (lateError) Timeout() bool        { return true }
func (lateError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
