package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// This file is the seam to the server on the wire: net/http's, for HTTP/1.1 and HTTP/2. Nothing else constructs one.

// Limits on what one connection may cost, by reference: the habits of peers, and what a flood would otherwise do.
const (
	headTimeout   = 10 * time.Second // to send a request's head, and to shake hands
	idleTimeout   = 75 * time.Second // between two requests, as nginx
	maxHead       = 64 << 10         // bytes of a head
	maxFields     = 100              // of a head
	maxStreams    = 100              // of an HTTP/2 connection
	maxFrame      = 16 << 10
	stallTimeout  = 30 * time.Second // without a byte written to an HTTP/2 connection
	pingAfter     = 30 * time.Second // of silence on an HTTP/2 connection
	pingPatience  = 15 * time.Second
	finishTimeout = 15 * time.Second // for the last bytes of an answer, beside the idle timeout
)

// suites are what TLS 1.2 may use: forward secrecy and authenticated encryption only. TLS 1.3 has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// life is what Shutdown must end.
type life struct {
	mu      sync.Mutex // guards all below
	servers []*http.Server
	tunnels map[net.Conn]struct{}
	quiet   chan struct{} // closed when the last tunnel has ended; nil: nobody waits
}

// Serve serves HTTP/1.1 until the listener is closed or Shutdown is called, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	server := s.newHTTP(&door{server: s, scheme: "http", port: portOf(l.Addr())})
	server.Protocols.SetHTTP1(true)
	return ended(server.Serve(l))
}

// ServeTLS serves HTTP/1.1 and HTTP/2 over TLS 1.2 and 1.3, as Serve does.
func (s *Server) ServeTLS(l net.Listener) error {
	server := s.newHTTP(&door{server: s, scheme: "https", port: "443"})
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.TLSConfig = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   suites,
		GetCertificate: s.GetCertificate,
	}
	return ended(server.ServeTLS(l, "", ""))
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) newHTTP(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:                      handler,
		Protocols:                    new(http.Protocols),
		ReadHeaderTimeout:            headTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHead,
		DisableGeneralOptionsHandler: true,
		// What clients do wrong on the wire is for those who look for it.
		ErrorLog: slog.NewLogLogger(s.log().Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			MaxReadFrameSize:     maxFrame,
			WriteByteTimeout:     stallTimeout,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingPatience,
		},
	}
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.life.servers = append(s.life.servers, server)
	return server
}

// Drain makes every answer from now on close its connection, so that clients look for another one while connections
// are still taken.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown closes the listeners, then waits for the requests in flight and for the tunnels (WebSockets) until ctx ends,
// then cuts what is left and says in the error how much that was.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.life.mu.Lock()
	servers := s.life.servers
	s.life.mu.Unlock()
	var waiting sync.WaitGroup
	var late = make(chan error, len(servers))
	for _, server := range servers {
		waiting.Go(func() { late <- server.Shutdown(ctx) })
	}
	waiting.Wait()
	close(late)
	cut := false
	for err := range late {
		cut = cut || err != nil
	}
	for _, server := range servers {
		server.Close()
	}
	tunnels := s.endTunnels(ctx)
	if cut || tunnels > 0 {
		return fmt.Errorf("cut requests in flight: %t, and %d tunnels: %w", cut, tunnels, context.Cause(ctx))
	}
	return nil
}

// endTunnels waits for the tunnels until ctx ends, cuts the others and returns their number.
func (s *Server) endTunnels(ctx context.Context) int {
	l := &s.life
	l.mu.Lock()
	quiet := make(chan struct{})
	if len(l.tunnels) == 0 {
		close(quiet)
	} else {
		l.quiet = quiet
	}
	l.mu.Unlock()
	select {
	case <-quiet:
		return 0
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for connection := range l.tunnels {
		connection.Close()
	}
	return len(l.tunnels)
}

func (l *life) enter(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tunnels == nil {
		l.tunnels = make(map[net.Conn]struct{})
	}
	l.tunnels[c] = struct{}{}
}

func (l *life) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tunnels, c)
	if len(l.tunnels) == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// reportPanic logs a fault of ours with its stack, and no value that a client sent.
func (s *Server) reportPanic(fault any, e *Exchange) {
	source := ""
	if e.Route != nil {
		source = e.Route.Source
	}
	s.log().Error("panic while serving a request", "fault", fmt.Sprint(fault), "route", source, "request", e.ID, "stack", string(debug.Stack()))
}

func portOf(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return strconv.Itoa(tcp.Port)
	}
	return "80"
}

func localPort(r *http.Request) string {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return portOf(addr)
}
