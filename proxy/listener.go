package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy/proxyprotocol"
)

// Load balancers that pass connections on as they are have one way to say whose they are: the PROXY header before the first
// byte (reference A11). Where it is wanted, a peer that is not trusted, or that sends none, is cut off: without it nobody
// knows who the client is, and access lists would be asked about the load balancer.

// A listener takes connections as the Clients in place want them. It passes them on as they are where no PROXY header is
// wanted.
type listener struct {
	net.Listener
	server *Server
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.server.crowd.enter(l.server.MaxConnections) {
			l.server.tooMany(connection, overall)
			continue
		}
		b := l.server.believed()
		if !b.ProxyProtocol {
			if !l.server.crowd.enterFrom(connection.RemoteAddr(), l.server.MaxConnectionsPerAddress) {
				l.server.crowd.open.Add(-1)
				l.server.tooMany(connection, perAddress)
				continue
			}
			return connection, nil
		}
		peer, ok := connection.RemoteAddr().(*net.TCPAddr)
		if !ok || !b.announce.hold(peer.AddrPort().Addr()) {
			l.server.crowd.open.Add(-1)
			l.server.refusals.add(l.server.log(), noHeader, connection.RemoteAddr(), errUntrusted)
			connection.Close()
			continue
		}
		return &announced{Conn: connection, server: l.server, patience: b.proxyTimeout()}, nil
	}
}

var errUntrusted = errors.New("the peer is not trusted to send a PROXY header")

// announced is a connection whose PROXY header is read by whoever first reads from it or asks for its addresses. The
// servers on the wire do so on the connection's own goroutine, and does it before it sets a deadline: a client that is slow to send its
// header keeps nobody else waiting.
type announced struct {
	net.Conn
	server   *Server
	patience time.Duration

	once          sync.Once // guards what follows
	err           error     // why there was no header that counts
	rest          []byte    // what was read behind it, and not yet from here
	remote, local net.Addr
	counted       bool // for its client
}

// greet reads the header.
func (c *announced) greet() {
	c.remote, c.local = c.Conn.RemoteAddr(), c.Conn.LocalAddr()
	c.Conn.SetReadDeadline(time.Now().Add(c.patience))
	header, rest, err := proxyprotocol.Read(c.Conn)
	if err != nil {
		c.err = err
		if err != io.EOF && !errors.Is(err, net.ErrClosed) { // a health check that only connects, and the end of the process
			c.server.refusals.add(c.server.log(), noHeader, c.remote, err)
		}
		c.Conn.Close()
		return
	}
	c.Conn.SetReadDeadline(time.Time{})
	c.rest = rest
	if header.Source.IsValid() && !header.Datagram {
		c.remote, c.local = tcpAddr(header.Source), tcpAddr(header.Destination)
	}
	if c.counted = c.server.crowd.enterFrom(c.remote, c.server.MaxConnectionsPerAddress); !c.counted {
		c.err = errTooMany[perAddress]
		c.server.crowded.add(c.server.log(), oneTooMany, c.remote, c.err)
		reset(c.Conn)
	}
}

func tcpAddr(a netip.AddrPort) net.Addr { return net.TCPAddrFromAddrPort(a) }

// RemoteAddr is the client's.
func (c *announced) RemoteAddr() net.Addr {
	c.once.Do(c.greet)
	return c.remote
}

// LocalAddr is what the client connected to.
func (c *announced) LocalAddr() net.Addr {
	c.once.Do(c.greet)
	return c.local
}

func (c *announced) Read(b []byte) (int, error) {
	c.once.Do(c.greet)
	if c.err != nil {
		return 0, io.EOF // to which there is no answer
	}
	if len(c.rest) > 0 {
		n := copy(b, c.rest)
		if c.rest = c.rest[n:]; len(c.rest) == 0 {
			c.rest = nil
		}
		return n, nil
	}
	return c.Conn.Read(b)
}

// NetConn is the connection beneath.
func (c *announced) NetConn() net.Conn { return c.Conn }

// CloseWrite ends one direction of a tunnel.
func (c *announced) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// refusals are connections that were cut off, for want of a PROXY header or because there were too many. A load balancer that
// sends none loses every connection, which its operator must see, and a scanner that finds the port must not fill the log:
// so one in a while is told, with the number of those that were not.
type refusals struct {
	told   atomic.Int64 // when, in Unix time; 0: never
	untold atomic.Int64
}

// quiet is the time between two lines about refusals.
const quiet = 10 * time.Second

// What is told of refusals.
const (
	noHeader   = "closed a connection for want of a PROXY header (use-proxy-protocol)"
	oneTooMany = "closed a connection, one too many"
)

func (f *refusals) add(log *slog.Logger, what string, peer net.Addr, err error) {
	if others, due := f.due(); due {
		log.Warn(what, "peer", peer.String(), "err", err, "others", others)
	}
}

// due reports whether one more is to be told, and how many were not since the last.
func (f *refusals) due() (others int64, due bool) {
	now, told := time.Now().Unix(), f.told.Load()
	if now-told < int64(quiet/time.Second) || !f.told.CompareAndSwap(told, now) {
		f.untold.Add(1)
		return 0, false
	}
	return f.untold.Swap(0), true
}
