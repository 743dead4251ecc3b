package proxyprotocol

import (
	"encoding/binary"
	"net/netip"
)

// Version 2 is binary: a signature of 12 bytes, a byte of version and command, one of family and transport, the length of
// what follows in two bytes, then the addresses as the family has them, then TLVs.
//
//	\r\n\r\n\0\r\nQUIT\n  21  11  000c  c0000201 c6336401 dc04 01bb

const (
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	head2      = len(signature2) + 4

	commandLocal = 0x20
	commandProxy = 0x21

	inet, inet6, unix = 1, 2, 3 // families
	stream, datagram  = 1, 2    // transports
)

// lengths are those of the addresses, by family.
var lengths = [...]int{inet: 12, inet6: 36, unix: 216}

func parse2(b []byte) (h Header, length int, err error) {
	if len(b) > len(signature2) && b[12] != commandLocal && b[12] != commandProxy {
		return Header{}, 0, malformed("version and command are %#02x", b[12])
	}
	if len(b) < head2 {
		return Header{}, 0, ErrIncomplete
	}
	length = head2 + int(binary.BigEndian.Uint16(b[14:]))
	if length > MaxV2 {
		return Header{}, 0, malformed("it has %d bytes, and none may have more than %d", length, MaxV2)
	}
	if len(b) < length {
		return Header{}, 0, ErrIncomplete
	}
	if b[12] == commandLocal {
		return Header{}, length, nil // the connection is the load balancer's own; the rest means nothing
	}
	h, err = parseAddresses(b[13], b[head2:length])
	if err != nil {
		return Header{}, 0, err
	}
	return h, length, nil
}

// parseAddresses reads the addresses of a connection, and skips the TLVs behind.
func parseAddresses(kind byte, b []byte) (h Header, err error) {
	family, transport := int(kind>>4), kind&15
	if family > unix || transport > datagram {
		return Header{}, malformed("family and transport are %#02x", kind)
	}
	if len(b) < lengths[family] {
		return Header{}, malformed("its addresses have %d bytes, and those of family %d have %d", len(b), family, lengths[family])
	}
	var source, destination netip.Addr
	switch {
	case transport == 0:
		return Header{}, nil
	case family == inet:
		source, destination, b = netip.AddrFrom4([4]byte(b)), netip.AddrFrom4([4]byte(b[4:])), b[8:]
	case family == inet6:
		source, destination, b = netip.AddrFrom16([16]byte(b)).Unmap(), netip.AddrFrom16([16]byte(b[16:])).Unmap(), b[32:]
	default: // a socket of the load balancer's machine, or nothing
		return Header{}, nil
	}
	return Header{
		Source:      netip.AddrPortFrom(source, binary.BigEndian.Uint16(b)),
		Destination: netip.AddrPortFrom(destination, binary.BigEndian.Uint16(b[2:])),
		Datagram:    transport == datagram,
	}, nil
}

// AppendV2 appends the header in version 2.
func (h Header) AppendV2(b []byte) []byte {
	b = append(b, signature2...)
	if !h.known() {
		return append(b, commandLocal, 0, 0, 0)
	}
	transport := byte(stream)
	if h.Datagram {
		transport = datagram
	}
	source, destination := h.Source.Addr().Unmap(), h.Destination.Addr().Unmap()
	if source.Is4() && destination.Is4() {
		b = append(b, commandProxy, inet<<4|transport, 0, byte(lengths[inet]))
		b = append(b, source.AsSlice()...)
		b = append(b, destination.AsSlice()...)
	} else {
		from, to := source.As16(), destination.As16()
		b = append(b, commandProxy, inet6<<4|transport, 0, byte(lengths[inet6]))
		b = append(append(b, from[:]...), to[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, h.Source.Port())
	return binary.BigEndian.AppendUint16(b, h.Destination.Port())
}
