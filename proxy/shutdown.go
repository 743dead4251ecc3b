package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// How a process leaves without losing a request, in this order:
//
//  1. Drain: every answer closes its connection (HTTP/1: Connection: close; HTTP/2: GOAWAY), while new connections are
//     still taken. Load balancers that have not heard yet lose nothing.
//  2. Shutdown: the listeners close; requests in flight and tunnels go on.
//  3. When its context ends, what is left is cut and counted.

// life is what goes on, and what Shutdown must end.
type life struct {
	requests atomic.Int64 // being answered; a tunnel is none

	mu      sync.Mutex // guards all below
	ended   bool       // Shutdown was called: no server may begin
	servers []*http.Server
	tunnels map[net.Conn]struct{}
	quiet   chan struct{} // closed when the last tunnel has ended; nil: nobody waits
}

// Drain makes every answer from now on close its connection, so that clients look for another one while connections
// are still taken.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown closes the listeners, then waits for the requests in flight and for the tunnels (WebSockets) until ctx ends,
// then cuts what is left and says in the error how much that was. Nil: nothing was cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	var waiting sync.WaitGroup
	servers := s.life.end()
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
		return fmt.Errorf("cut %d requests and %d tunnels: %w", requests, tunnels, context.Cause(ctx))
	}
	return nil
}

// begin has a server ended by Shutdown; false when that was called already.
func (l *life) begin(server *http.Server) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.servers = append(l.servers, server)
	}
	return !l.ended
}

func (l *life) end() []*http.Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.servers
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
