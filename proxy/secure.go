package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"sallyport/proxy/http1"
)

// A secure serves a listener over TLS: it shakes hands, then hands the connection to the server of the protocol that was
// agreed on.
type secure struct {
	front  *Server
	config *tls.Config
	one    *http1.Server
	two    *http.Server
	queue  *queue // connections of two
}

func (s *Server) newSecure(d *door, addr net.Addr) *secure {
	return &secure{
		front: s, one: s.newHTTP1(d), two: s.newHTTP2(d), queue: newQueue(addr),
		config: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				config, met, err := s.Handshake(hello)
				hello.Conn.(*greeting).met = met
				return config, err
			},
		},
	}
}

// Protocols are those that a connection over TLS may speak, for [tls.Config].NextProtos.
func Protocols() []string { return []string{"h2", "http/1.1"} }

// A greeting is a connection on which hands are shaken, or were.
type greeting struct {
	net.Conn
	met any // what the handshake has met: see [Server].Admits
}

// NetConn is the connection beneath.
func (g *greeting) NetConn() net.Conn { return g.Conn }

// admits asks whether a request may be for a host, by what the handshake of its connection has met.
func (s *Server) admits(r *http.Request, host string) bool {
	if s.Admits == nil {
		return true
	}
	c, ok := r.Context().Value(http1.NetConnKey{}).(*tls.Conn)
	if !ok {
		return false
	}
	g, ok := c.NetConn().(*greeting)
	return ok && s.Admits(g.met, host)
}

func (s *secure) serve(l net.Listener) error {
	go s.two.Serve(s.queue) // until Shutdown or Close
	return http1.Accept(l, func(c net.Conn) {
		s.front.life.open.Add(1)
		go s.shake(c)
	})
}

// shake makes the handshake and hands the connection on.
func (s *secure) shake(accepted net.Conn) {
	defer s.front.life.open.Add(-1)
	defer func() {
		if fault := recover(); fault != nil { // of ours, which costs this connection and no other
			s.front.log().Error("panic while shaking hands", "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
			accepted.Close()
			s.front.gone(accepted)
		}
	}()
	plain := accepted
	plain.RemoteAddr() // which reads a PROXY header, in its own time
	plain.SetDeadline(time.Now().Add(headTimeout))
	if p := s.front.passthrough.Load(); p != nil {
		if plain = s.front.divert(p, plain); plain == nil {
			return
		}
	}
	c := tls.Server(&greeting{Conn: plain}, s.config)
	if err := c.Handshake(); err != nil {
		s.refuse(plain, err)
		s.front.gone(accepted)
		return
	}
	plain.SetDeadline(time.Time{})
	switch c.ConnectionState().NegotiatedProtocol {
	case "h2":
		if !s.queue.put(s.front.watch(c)) {
			s.front.gone(accepted)
		}
	case authorityProtocol:
		c.Close()
		s.front.gone(accepted)
	default:
		s.one.Go(c)
	}
}

// authorityProtocol is agreed on where the handshake was all there is to say (RFC 8737).
const authorityProtocol = "acme-tls/1"

// refuse ends a connection whose handshake has failed. A client that speaks HTTP in the clear is told.
func (s *secure) refuse(plain net.Conn, err error) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && http1.LooksLikeHTTP(record.RecordHeader[:]) {
		io.WriteString(record.Conn, notHere)
	}
	s.front.log().Debug("no handshake", "client", plain.RemoteAddr(), "error", err)
	plain.Close()
}

// notHere is for clients that speak HTTP in the clear to a port for HTTPS.
const notHere = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" +
	"This port is for HTTPS, and the request came in the clear.\n"

func (s *secure) Shutdown(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { s.two.Shutdown(ctx) })
	err := s.one.Shutdown(ctx)
	both.Wait()
	return err
}

// SetPatience is about HTTP/1: that of HTTP/2 stands when its server begins.
func (s *secure) SetPatience(p http1.Patience) { s.one.SetPatience(p) }

func (s *secure) Close() error {
	s.two.Close()
	return s.one.Close()
}

// A queue is a listener of connections that somebody else has accepted.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// put waits until the connection is taken; or closes it, if none is any more.
func (q *queue) put(c net.Conn) (taken bool) {
	select {
	case q.conns <- c:
		return true
	case <-q.closed:
		c.Close()
		return false
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

func (q *queue) Addr() net.Addr { return q.addr }
