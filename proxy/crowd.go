package proxy

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A crowd counts the connections that clients have open, from the moment they are taken: before a handshake, between two
// requests and as tunnels too. One too many is reset at once, so that it costs nothing more, here or with the client. Without
// a limit, whoever opens connections fast enough takes the descriptors that endpoints need.
type crowd struct {
	open    atomic.Int64
	refused [2]atomic.Uint64 // by excess

	mu   sync.Mutex
	from map[netip.Prefix]int // guarded by mu; connections of a client, only where those are limited
}

// excess is what a connection was refused for.
type excess int

const (
	overall excess = iota
	perAddress
)

var errTooMany = [...]error{
	overall:    errors.New("there are as many connections as --max-connections allows"),
	perAddress: errors.New("the client has as many connections as --max-connections-per-address allows"),
}

// enter counts a connection, unless there are most.
func (c *crowd) enter(most int) bool {
	if n := c.open.Add(1); most > 0 && n > int64(most) {
		c.open.Add(-1)
		c.refused[overall].Add(1)
		return false
	}
	return true
}

// enterFrom counts it for its client, unless that has most.
func (c *crowd) enterFrom(client net.Addr, most int) bool {
	if most <= 0 {
		return true
	}
	key := clientOf(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from[key] >= most {
		c.refused[perAddress].Add(1)
		return false
	}
	if c.from == nil {
		c.from = make(map[netip.Prefix]int)
	}
	c.from[key]++
	return true
}

// leave forgets a connection that has ended.
func (c *crowd) leave(connection net.Conn, most int) {
	c.open.Add(-1)
	if most <= 0 {
		return
	}
	if a := announcedBeneath(connection); a != nil && !a.counted {
		return
	}
	key := clientOf(connection.RemoteAddr())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from[key]--; c.from[key] <= 0 {
		delete(c.from, key)
	}
}

// announcedBeneath is the connection with a PROXY header that another one is made of; nil: there is none.
func announcedBeneath(c net.Conn) *announced {
	for {
		switch is := c.(type) {
		case *announced:
			return is
		case *begun:
			c = is.Conn
			continue
		case *watched:
			c = is.Conn
			continue
		}
		within, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = within.NetConn()
	}
}

// clientOf is whom the connections from an address are counted for: the address, or of IPv6 the /64 network, which is the
// least that a customer of a network is given.
func clientOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := tcp.AddrPort().Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	client, _ := ip.Prefix(bits)
	return client
}

// reset closes a connection in a way that leaves nothing of it behind.
func reset(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	connection.Close()
}

// Connections are the connections of clients.
type Connections struct {
	Open              int    // now, tunnels among them
	Refused           uint64 // ever, for MaxConnections
	RefusedPerAddress uint64 // ever, for MaxConnectionsPerAddress
}

// Connections says how many connections clients have, and have been refused.
func (s *Server) Connections() Connections {
	c := &s.crowd
	return Connections{int(c.open.Load()), c.refused[overall].Load(), c.refused[perAddress].Load()}
}

// gone is called when a connection of a client has ended.
func (s *Server) gone(connection net.Conn) { s.crowd.leave(connection, s.MaxConnectionsPerAddress) }

func (s *Server) tooMany(connection net.Conn, e excess) {
	s.crowded.add(s.log(), oneTooMany, connection.RemoteAddr(), errTooMany[e])
	reset(connection)
}
