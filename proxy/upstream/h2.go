package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// HTTP/2 on the wire is net/http's, one connection at a time: which connection a request goes over, how it is made, how long
// waiting for it is fine and when it ends is decided here. Nothing of net/http's own pool is used, nor its dialer.

// h2client makes HTTP/2 of a connection that is there already, in the clear or not. It sends no pings: gRPC servers take
// them for abuse (too_many_pings) and close the connection. A dead peer is noticed by TCP, or by a request in vain.
var h2client = &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return ctx.Value(h2conn{}).(net.Conn), nil
	},
	Protocols:              h2only(),
	DisableCompression:     true,
	IdleConnTimeout:        idleLife,
	MaxResponseHeaderBytes: http1.MaxHead,
}

// h2conn is the key under which the context of a dial holds the connection.
type h2conn struct{}

func h2only() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true) // TLS, if any, is below what net/http sees
	return p
}

// muxes are the HTTP/2 connections to an endpoint. The zero value has none.
type muxes struct {
	mu      sync.Mutex
	list    []*mux        // guarded by mu; the oldest first, so that the younger ones can become idle and end
	gate    chan struct{} // guarded by mu; who holds its one place may connect; nil: nobody has wanted to
	failure *fault        // guarded by mu; why the last connection could not be made
	failed  time.Time     // guarded by mu; when
	vain    line          // guarded by mu; that it was to be of
	retired bool          // guarded by mu; the endpoint left its pool, nothing is kept any more
}

// A mux is an HTTP/2 connection, which many requests share.
type mux struct {
	*http.ClientConn
	line  line
	made  time.Time
	users int  // guarded by muxes.mu
	bad   bool // guarded by muxes.mu; takes no more requests, and ends with its last user
}

// take returns a connection of a line with room for a request, the place for which is reserved, or nil. If made is not
// zero, the connection is younger.
func (m *muxes) take(l line, made time.Time) *mux {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(c *mux) bool { return c.Err() != nil })
	for _, c := range m.list {
		if c.line == l && !c.bad && c.made.After(made) && c.Reserve() == nil {
			c.users++
			return c
		}
	}
	return nil
}

// leave is called when a request is done with a connection. Bad says that the connection is of no use for others.
func (m *muxes) leave(c *mux, bad bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.users--
	c.bad = c.bad || bad
	m.endLocked(c)
}

// endLocked closes a connection that has no more users and must get none.
func (m *muxes) endLocked(c *mux) {
	if c.users == 0 && (c.bad || m.retired) {
		c.Close()
		m.list = slices.DeleteFunc(m.list, func(other *mux) bool { return other == c })
	}
}

// retire closes the connections that nobody uses, and has the others closed by their last user.
func (m *muxes) retire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retired = true
	for _, c := range slices.Clone(m.list) {
		m.endLocked(c)
	}
}

// spoil has no connection take another request.
func (m *muxes) spoil() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range slices.Clone(m.list) {
		c.bad = true
		m.endLocked(c)
	}
}

func (m *muxes) gateway() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate == nil {
		m.gate = make(chan struct{}, 1)
	}
	return m.gate
}

// open returns a connection for x, with the place for one request on it reserved. Requests that need a new one wait for the
// one who makes it, to share it, and its failure too: many that came at once cost an endpoint one connection.
func (e *Endpoint) open(x *trip, a *proxy.Attempt, fresh bool) (*mux, *fault) {
	m := &e.muxes
	ctx := x.r.Context()
	begun := time.Now()
	var made time.Time
	if fresh {
		made = begun
	}
	if c := m.take(x.line, made); c != nil {
		a.Reused = true
		return c, nil
	}
	defer func() { a.Connect = time.Since(begun) }()
	var late <-chan time.Time
	limit := x.connectTimeout(e)
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	gate := m.gateway()
	select {
	case gate <- struct{}{}:
		defer func() { <-gate }()
	case <-ctx.Done():
		return nil, left(ctx.Err())
	case <-late:
		return nil, connectFault(ctx, context.DeadlineExceeded)
	}
	if c := m.take(x.line, made); c != nil {
		return c, nil
	}
	if f := m.failedSince(begun, x.line); f != nil {
		return nil, f
	}
	c, err := e.connectH2(ctx, x.line, begun, limit)
	if err != nil {
		f := connectFault(ctx, err)
		if !f.client() {
			m.noteFailure(f, x.line)
		}
		return nil, f
	}
	x.t.pool.care.connects.note(time.Since(begun))
	m.mu.Lock()
	defer m.mu.Unlock()
	c.users++
	m.addLocked(c)
	return c, nil
}

// addLocked keeps a connection. Of too many one that nobody uses makes room: clients may have any number of names to ask for
// below a wildcard, each of which is a line of its own.
func (m *muxes) addLocked(c *mux) {
	if len(m.list) >= maxMixed {
		if unused := slices.IndexFunc(m.list, func(other *mux) bool { return other.users == 0 }); unused >= 0 {
			m.list[unused].Close()
			m.list = slices.Delete(m.list, unused, unused+1)
		}
	}
	m.list = append(m.list, c)
}

// failedSince is why there was no connection for a line since then. What failed in the handshake of another line says nothing.
func (m *muxes) failedSince(t time.Time, l line) *fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.failed.After(t) || m.vain != l && errors.As(m.failure.err, new(handshakeError)) {
		return nil
	}
	return m.failure
}

func (m *muxes) noteFailure(f *fault, l line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure, m.failed, m.vain = f, time.Now(), l
}

// connectH2 makes a connection and reserves the place for one request on it.
func (e *Endpoint) connectH2(ctx context.Context, l line, begun time.Time, timeout time.Duration) (*mux, error) {
	c, err := dial(ctx, e.addr, timeout)
	if err != nil {
		return nil, err
	}
	if l.secure() {
		if err := c.secure(ctx, l, "h2", begun, timeout); err != nil {
			return nil, err
		}
	}
	// A server that knows nothing of ALPN may know HTTP/2 all the same; one that does has agreed to it.
	cc, err := h2client.NewClientConn(context.WithValue(ctx, h2conn{}, c.stream()), "http", e.addr.String())
	if err == nil {
		err = cc.Reserve()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return &mux{ClientConn: cc, line: l, made: time.Now()}, nil
}

// streamError is what net/http lets errors.As make of the error of one stream.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream error" }

// ofStream reports whether an error is that of one stream: the connection is as good as before.
func ofStream(err error) bool {
	var s streamError
	return errors.As(err, &s)
}

const refusedStream = 7 // RFC 9113 section 7

// neverActedOn reports whether an error of a request says that the endpoint did not act on it (RFC 9113 section 8.7): the
// stream was refused, or is one that the endpoint, going away, will not look at. Net/http has no name for the latter.
func neverActedOn(err error) bool {
	var s streamError
	return errors.As(err, &s) && s.Code == refusedStream || strings.Contains(err.Error(), "graceful shutdown GOAWAY")
}

// h2Fault classifies an error of a request or of the body of its answer that nobody here caused.
func h2Fault(err error) *fault {
	var s streamError
	var op *net.OpError
	switch {
	case errors.As(err, &s), errors.As(err, &op), isReset(err), neverActedOn(err),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNABORTED),
		strings.Contains(err.Error(), "client conn"), strings.Contains(err.Error(), "GOAWAY"):
		return &fault{http.StatusBadGateway, proxy.UpstreamReset, err}
	}
	return &fault{http.StatusBadGateway, proxy.UpstreamInvalid, err}
}
