package stream

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// A port that is opened on every address answers a datagram from the address that it was sent to, and not from the one that
// the kernel would choose: the client would not know the answer for one.

// controlSize has room for what the kernel says of a datagram.
const controlSize = 128

// askForSources has the kernel say which address each datagram was sent to. A socket for IPv6 that takes IPv4 too says so in
// the form of IPv6.
func askForSources(c *net.UDPConn) bool {
	six := ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst, true)
	four := ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true)
	return six == nil || four == nil
}

// sourceIn is the address that a datagram was sent to; zero: the kernel does not say.
func sourceIn(control []byte) netip.Addr {
	var six ipv6.ControlMessage
	if six.Parse(control) == nil && six.Dst != nil {
		a, _ := netip.AddrFromSlice(six.Dst)
		return a.Unmap()
	}
	var four ipv4.ControlMessage
	if four.Parse(control) == nil && four.Dst != nil {
		a, _ := netip.AddrFromSlice(four.Dst)
		return a.Unmap()
	}
	return netip.Addr{}
}

// sourceFor is what has a datagram sent from an address; nil: from any.
func sourceFor(a netip.Addr) []byte {
	switch {
	case a.Is4():
		return (&ipv4.ControlMessage{Src: a.AsSlice()}).Marshal()
	case a.Is6():
		return (&ipv6.ControlMessage{Src: a.AsSlice()}).Marshal()
	}
	return nil
}
