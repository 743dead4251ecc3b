package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"sallyport/proxy/proxyprotocol"
	"sallyport/proxy/upstream"
)

// maxConnections is how many connections a port has at a time.
const maxConnections = 16384

// A tcpListener takes the connections of a port.
type tcpListener struct {
	server  *Server
	socket  *net.TCPListener
	serving atomic.Pointer[served]
	open    atomic.Int64 // connections
}

func (l *tcpListener) become(s *served) { l.serving.Store(s) }
func (l *tcpListener) drain()           { l.socket.Close() }
func (l *tcpListener) close()           { l.socket.Close() }
func (l *tcpListener) busy() bool       { return false } // connections go on without their listener

// accept is the goroutine of the listener.
func (l *tcpListener) accept() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		connection, err := l.socket.AcceptTCP()
		switch {
		case err == nil:
			l.begin(connection)
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptor left, or a client that left first
			l.server.refuse(&l.serving.Load().Service, netip.AddrPort{}, "the connection could not be accepted", err)
			pause.Reset(10 * time.Millisecond)
			<-pause.C
		}
	}
}

// begin serves a connection, if there is room for it.
func (l *tcpListener) begin(client *net.TCPConn) {
	s, now := l.server, l.serving.Load()
	if l.open.Add(1) > maxConnections || !s.files.take(filesOfConnection) {
		l.open.Add(-1)
		abort(client)
		s.refuse(&now.Service, addrPort(client.RemoteAddr()), "there are too many connections", nil)
		return
	}
	s.counts.connections.Add(1)
	s.counts.open.Add(1)
	s.running.Go(func() {
		defer func() {
			s.counts.open.Add(-1)
			s.files.give(filesOfConnection)
			l.open.Add(-1)
		}()
		c := connection{server: s, served: now, client: client, from: addrPort(client.RemoteAddr()), to: addrPort(client.LocalAddr())}
		c.serve()
	})
}

// A connection is one client's.
type connection struct {
	server *Server
	*served
	client *net.TCPConn

	from, to netip.AddrPort // who the client is, and what it connected to: by the PROXY header, where there is one
	early    []byte         // what was read of the connection already, but for that
	host     string         // that the client asks for; empty: nobody knows
}

// serve is the goroutine of the connection.
func (c *connection) serve() {
	defer c.client.Close()
	defer context.AfterFunc(c.server.cutting, func() { abort(c.client) })()
	begun := time.Now()
	if c.Expect && !c.readHeader() {
		return
	}
	leg, err := c.dial()
	if err != nil {
		c.turnAway()
		c.server.refuse(&c.Service, c.from, "no endpoint can be reached", err)
		return
	}
	defer leg.Close()
	endpoint := leg.Conn.(*net.TCPConn)
	defer context.AfterFunc(c.server.cutting, func() { abort(endpoint) })()
	j := joined{counts: &c.server.counts, idle: c.Options.Idle}
	if j.idle == 0 {
		j.idle = idleTCP
	}
	if err = c.greet(endpoint); err == nil {
		err = j.run(c.client, endpoint)
	}
	c.server.log().Debug("a connection has ended", "port", c.Port.String(), "service", c.Name, "host", c.host, "client", c.from.String(), "endpoint", leg.Endpoint().String(),
		"sent", j.up.Load(), "received", j.down.Load(), "took", time.Since(begun).String(), "err", err)
}

// turnAway ends a connection that leads nowhere.
func (c *connection) turnAway() {
	if c.host == "" {
		abort(c.client)
		return
	}
	c.server.counts.unpassed.Add(1)
	c.client.SetWriteDeadline(time.Now().Add(time.Second))
	c.client.Write(tlsInternalError)
	c.client.Close()
}

func (c *connection) dial() (*upstream.Leg, error) {
	if c.stream == nil {
		return nil, upstream.ErrNoEndpoint
	}
	return c.stream.Dial(c.server.cutting, "tcp", c.from.Addr())
}

// readHeader reads what a load balancer says of the connection. False: it is over.
func (c *connection) readHeader() bool {
	trust := c.server.trust.Load()
	if !trust.believes(c.from.Addr()) {
		abort(c.client)
		c.server.refuse(&c.Service, c.from, "the peer is not trusted to send a PROXY header", nil)
		return false
	}
	c.client.SetReadDeadline(time.Now().Add(trust.patience()))
	header, rest, err := proxyprotocol.Read(c.client)
	if err != nil {
		if err != io.EOF { // a health check that only connects
			abort(c.client)
			c.server.refuse(&c.Service, c.from, "there is no PROXY header", err)
		}
		return false
	}
	c.client.SetReadDeadline(time.Time{})
	c.early = rest
	if header.Source.IsValid() && !header.Datagram {
		c.from, c.to = unmapped(header.Source), unmapped(header.Destination)
	}
	return true
}

// greet sends what comes before the connection is passed on as it is.
func (c *connection) greet(endpoint *net.TCPConn) error {
	first := c.early
	if c.Send {
		first = append(proxyprotocol.Header{Source: c.from, Destination: c.to}.AppendV1(nil), first...)
	}
	if len(first) == 0 {
		return nil
	}
	endpoint.SetWriteDeadline(time.Now().Add(5 * time.Second))
	n, err := endpoint.Write(first)
	c.server.counts.sent.Add(int64(n))
	return err
}

// abort closes a connection so that the other end takes it for an accident, not for the end of what was to be said.
func abort(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return unmapped(tcp.AddrPort())
	}
	return netip.AddrPort{}
}

// unmapped gives an IPv4 address its own form.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
