package proxy

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"sallyport/proxy/clienthello"
)

// A host may have its TLS connections passed on as they are: the endpoint has the certificate, and nobody here sees what
// is said (reference A8). Which host a connection is for stands in its first message, which is read before TLS begins
// (proxy/clienthello) and handed on with the rest. While no host asks for it, nothing is read that TLS does not read itself.

// Passthrough are the hosts whose TLS connections are passed on. It must not change once it was given to a Server.
type Passthrough struct {
	// ByHost has hosts in the form of NormalHost, or wildcards such as "*.example.org". A nil Passage means that the TLS of
	// the host ends here, and not that it is passed on as that of the wildcard above it.
	ByHost map[string]Passage
}

// A Passage takes connections to where they are passed on.
type Passage interface {
	// Take passes a connection on, in a goroutine of its own. Nobody else uses the connection from now on.
	Take(Passed)
}

// Passed is a connection that is passed on.
type Passed struct {
	Conn     *net.TCPConn
	From, To netip.AddrPort // who the client is and what it connected to, by the PROXY header where there is one
	Early    []byte         // what the client has said so far
	Host     string         // that it asks for
	Ended    func()         // to be called once, when the connection has ended: until then it is one that a client has open
}

// SetPassthrough puts other hosts in place, for connections that begin from now on. Nil: none.
func (s *Server) SetPassthrough(p *Passthrough) {
	if p != nil && len(p.ByHost) == 0 {
		p = nil
	}
	s.passthrough.Store(p)
}

// passage finds where the connections for a host go; nil: nowhere, their TLS ends here.
func (p *Passthrough) passage(host string) Passage {
	if passage, listed := p.ByHost[host]; listed {
		return passage
	}
	if dot := strings.IndexByte(host, '.'); dot > 0 {
		return p.ByHost["*"+host[dot:]]
	}
	return nil
}

// divert takes a connection whose host is passed on away. What it returns is for TLS to go on with; nil: nothing is, and the
// connection is not counted any more, or not when it has ended.
func (s *Server) divert(p *Passthrough, plain net.Conn) net.Conn {
	name, early, err := s.hellos.Read(plain)
	if err != nil && !errors.Is(err, clienthello.ErrNotTLS) {
		s.log().Debug("no handshake", "client", plain.RemoteAddr(), "error", err)
		plain.Close()
		s.gone(plain)
		return nil
	}
	if host, ok := NormalHost(name); ok {
		if passage := p.passage(host); passage != nil {
			passed, ok := passedOf(plain, early)
			if !ok { // no listener of ours makes such
				plain.Close()
				s.gone(plain)
				return nil
			}
			passed.Host, passed.Ended = host, func() { s.gone(plain) }
			passed.Conn.SetDeadline(time.Time{})
			passage.Take(passed)
			return nil
		}
	}
	return &begun{Conn: plain, early: early}
}

// passedOf is a connection of a listener with what was read of it so far.
func passedOf(c net.Conn, early []byte) (p Passed, ok bool) {
	p.Early = early
	p.From, p.To = addrPortOf(c.RemoteAddr()), addrPortOf(c.LocalAddr())
	if a, is := c.(*announced); is {
		p.Early = append(p.Early, a.rest...)
		a.rest = nil
		c = a.Conn
	}
	p.Conn, ok = c.(*net.TCPConn)
	return p, ok
}

func addrPortOf(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// begun is a connection of which the beginning was read, and is read again.
type begun struct {
	net.Conn
	early []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.early)
	if c.early = c.early[n:]; len(c.early) == 0 {
		c.early = nil // the connection may stay for long
	}
	return n, nil
}

// NetConn is the connection beneath all that is wrapped around it.
func (c *begun) NetConn() net.Conn {
	if wrapped, ok := c.Conn.(interface{ NetConn() net.Conn }); ok {
		return wrapped.NetConn()
	}
	return c.Conn
}

// CloseWrite ends one direction of a tunnel.
func (c *begun) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
