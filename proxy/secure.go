package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
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
			MinVersion:     tls.VersionTLS12,
			CipherSuites:   suites,
			NextProtos:     []string{"h2", "http/1.1"},
			GetCertificate: s.GetCertificate,
		},
	}
}

func (s *secure) serve(l net.Listener) error {
	go s.two.Serve(s.queue) // until Shutdown or Close
	return http1.Accept(l, func(c net.Conn) {
		s.front.life.open.Add(1)
		go s.shake(c)
	})
}

// shake makes the handshake and hands the connection on.
func (s *secure) shake(plain net.Conn) {
	defer s.front.life.open.Add(-1)
	plain.RemoteAddr() // which reads a PROXY header, in its own time
	c := tls.Server(plain, s.config)
	plain.SetDeadline(time.Now().Add(headTimeout))
	if err := c.Handshake(); err != nil {
		s.refuse(plain, err)
		s.front.gone(plain)
		return
	}
	plain.SetDeadline(time.Time{})
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		s.one.Go(c)
		return
	}
	if !s.queue.put(c) {
		s.front.gone(plain)
	}
}

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
