package proxy

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sallyport/proxy/http1"
)

// This file is the seam to the servers on the wire: our own for HTTP/1, net/http's for HTTP/2. Nothing else constructs one.

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

// Serve serves HTTP/1.1 until the listener is closed or Shutdown is called, which makes it return nil. After Shutdown it
// closes the listener at once.
func (s *Server) Serve(l net.Listener) error {
	server := s.newHTTP1(newDoor(s, "http", portOf(l.Addr())))
	l = &listener{l, s}
	if !s.life.begin(server, l) {
		return ended(l.Close())
	}
	defer s.life.stop()
	return ended(server.Serve(l))
}

// ServeTLS serves HTTP/1.1 and HTTP/2 over TLS 1.2 and 1.3, as Serve does.
func (s *Server) ServeTLS(l net.Listener) error {
	server := s.newSecure(newDoor(s, "https", portOf(l.Addr())), l.Addr())
	l = &listener{l, s}
	if !s.life.begin(server, l) {
		return ended(l.Close())
	}
	defer s.life.stop()
	return ended(server.serve(l))
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) newHTTP1(d *door) *http1.Server {
	server := &http1.Server{
		Handler:     d,
		ConnState:   s.count,
		ConnContext: withSeat,
		Limit:       http1.Limit{Bytes: maxHead, Fields: maxFields},
		Refuse:      d.refuse,
	}
	server.SetPatience(s.patience())
	return server
}

// patience is how long clients of HTTP/1 may take.
func (s *Server) patience() http1.Patience {
	p := s.believed().Patience
	if p.Gap == 0 {
		p.Gap = s.BodyTimeout
	}
	return p
}

func (s *Server) newHTTP2(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:                      unveiled{handler},
		ConnState:                    s.count,
		ConnContext:                  withWatched,
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
	server.Protocols.SetUnencryptedHTTP2(true) // since a watched connection decrypts (flood.go)
	return server
}

func portOf(addr net.Addr) int {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 80
}
