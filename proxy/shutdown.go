package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy/http1"
)

// How a process leaves without losing a request, in this order:
//
//  1. Drain: every answer closes its connection (HTTP/1: Connection: close; HTTP/2: GOAWAY), while new connections are
//     still taken. Load balancers that have not heard yet lose nothing.
//  2. Shutdown: the listeners close. A client that has a connection open and knows nothing of Drain has a last moment to
//     use it, and is told. Then idle connections close; requests in flight and tunnels go on.
//  3. When its context ends, what is left is cut and counted.

// life is what goes on, and what Shutdown must end.
type life struct {
	requests atomic.Int64 // being answered; a tunnel is none
	open     atomic.Int64 // connections that are no tunnels, and listeners, which may bring another

	mu        sync.Mutex // guards all below
	ended     bool       // Shutdown was called: no server may begin
	servers   []engine
	listeners []net.Listener
	tunnels   map[net.Conn]struct{}
	quiet     chan struct{} // closed when the last tunnel has ended; nil: nobody waits
}

// An engine is a server on the wire.
type engine interface {
	Shutdown(context.Context) error // waits for the requests in flight; the listeners are closed
	Close() error
	SetPatience(http1.Patience)
}

// Drain makes every answer from now on close its connection, so that clients look for another one while connections
// are still taken.
func (s *Server) Drain() { s.draining.Store(true) }

const (
	// lastRequest is the time that clients have to use connections that were open, and idle, when the listeners closed.
	lastRequest = time.Second
	// lastWord is the time that handlers have to return once their connections have been cut.
	lastWord = time.Second
)

// Shutdown closes the listeners, then waits for the requests in flight and for the tunnels (WebSockets) until ctx ends,
// then cuts what is left and says in the error how much that was. Nil: nothing was cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	servers := s.life.end()
	await(ctx, lastRequest, func() bool { return s.life.open.Load() == 0 })
	var waiting sync.WaitGroup
	for _, server := range servers {
		waiting.Go(func() { server.Shutdown(ctx) }) // its error is that ctx has ended
	}
	waiting.Wait()
	requests := s.life.requests.Load()
	for _, server := range servers {
		server.Close()
	}
	tunnels := s.life.endTunnels(ctx)
	if requests > 0 || tunnels > 0 {
		// Handlers notice that their connections have been cut; what they have to say then shall be said.
		await(context.Background(), lastWord, func() bool { return s.life.requests.Load() == 0 && s.life.openTunnels() == 0 })
		return fmt.Errorf("cut %d requests and %d tunnels: %w", requests, tunnels, context.Cause(ctx))
	}
	return nil
}

// await returns when done reports true, after a while, or when ctx ends.
func await(ctx context.Context, while time.Duration, done func() bool) {
	late := time.NewTimer(while)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// begin has a server and its listener ended by Shutdown; false when that was called already. stop is its counterpart.
func (l *life) begin(server engine, listener net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.servers = append(l.servers, server)
		l.listeners = append(l.listeners, listener)
		l.open.Add(1)
	}
	return !l.ended
}

// setPatience tells the servers how long clients may take.
func (l *life) setPatience(p http1.Patience) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, server := range l.servers {
		server.SetPatience(p)
	}
}

// stop is called when a server takes no more connections from its listener.
func (l *life) stop() { l.open.Add(-1) }

// count is told of every connection that begins or ends ([http.Server.ConnState]). One that becomes a tunnel is gone when
// the tunnel has ended.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.life.open.Add(1)
	case http.StateHijacked, http.StateClosed: // one of them, once
		s.life.open.Add(-1)
		if state == http.StateClosed {
			s.gone(c)
		}
	}
}

// end closes the listeners.
func (l *life) end() []engine {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, listener := range l.listeners {
		listener.Close()
	}
	l.listeners = nil
	return l.servers
}

func (l *life) openTunnels() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tunnels)
}

// hijack makes a tunnel of a request's connection. The lock is held meanwhile: between being a request and being a tunnel
// Shutdown would see neither.
func (l *life) hijack(h http.Hijacker) (net.Conn, *bufio.ReadWriter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	connection, buffered, err := h.Hijack()
	if err != nil {
		return nil, nil, err
	}
	l.requests.Add(-1)
	if l.tunnels == nil {
		l.tunnels = make(map[net.Conn]struct{})
	}
	l.tunnels[connection] = struct{}{}
	return connection, buffered, nil
}

// leave is called when the handler of a tunnel has returned.
func (l *life) leave(tunnel net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tunnels, tunnel)
	if len(l.tunnels) == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// endTunnels waits for the tunnels until ctx ends, cuts the others and returns their number.
func (l *life) endTunnels(ctx context.Context) int {
	select {
	case <-l.untilQuiet():
		return 0
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for tunnel := range l.tunnels {
		tunnel.Close()
	}
	return len(l.tunnels)
}

// untilQuiet is closed when there are no tunnels any more.
func (l *life) untilQuiet() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quiet == nil {
		l.quiet = make(chan struct{})
	}
	quiet := l.quiet
	if len(l.tunnels) == 0 {
		close(quiet)
		l.quiet = nil
	}
	return quiet
}
