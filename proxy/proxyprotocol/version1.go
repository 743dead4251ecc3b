package proxyprotocol

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
)

// Version 1 is a line of text:
//
//	PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n
//	PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n
//	PROXY UNKNOWN ...\r\n

const signature1 = "PROXY "

func parse1(b []byte) (h Header, length int, err error) {
	end := bytes.IndexByte(b[:min(len(b), MaxV1)], '\n')
	if end < 0 {
		if len(b) >= MaxV1 {
			return Header{}, 0, malformed("a line of more than %d bytes", MaxV1)
		}
		return Header{}, 0, ErrIncomplete
	}
	line, ok := strings.CutSuffix(string(b[:end]), "\r")
	if !ok || strings.IndexByte(line, '\r') >= 0 {
		return Header{}, 0, malformed("%q does not end in CR LF", line)
	}
	if h, ok = parseLine(line[len(signature1):]); !ok {
		return Header{}, 0, malformed("%q: expected TCP4 or TCP6, two addresses and two ports", line)
	}
	return h, end + 1, nil
}

func parseLine(line string) (h Header, ok bool) {
	if line == "UNKNOWN" || strings.HasPrefix(line, "UNKNOWN ") {
		return Header{}, true // whatever stands behind it
	}
	words := strings.Split(line, " ")
	if len(words) != 5 {
		return Header{}, false
	}
	source, ok := addressOf(words[0], words[1])
	destination, too := addressOf(words[0], words[2])
	from, three := portOf(words[3])
	to, four := portOf(words[4])
	if !ok || !too || !three || !four {
		return Header{}, false
	}
	return Header{Source: netip.AddrPortFrom(source, from), Destination: netip.AddrPortFrom(destination, to)}, true
}

// addressOf reads an address of a family. A zone is none: it may hold any text, which would stand in log lines.
func addressOf(family, word string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(word)
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, false
	}
	switch family {
	case "TCP4":
		return address, address.Is4()
	case "TCP6":
		return address.Unmap(), address.Is6()
	}
	return netip.Addr{}, false
}

// portOf reads a port in its one form: no sign, no leading zeros.
func portOf(word string) (uint16, bool) {
	port, err := strconv.ParseUint(word, 10, 16)
	return uint16(port), err == nil && strconv.FormatUint(port, 10) == word
}

// AppendV1 appends the header in version 1.
func (h Header) AppendV1(b []byte) []byte {
	if !h.known() || h.Datagram {
		return append(b, "PROXY UNKNOWN\r\n"...)
	}
	source, destination := h.Source.Addr().Unmap(), h.Destination.Addr().Unmap()
	b = append(b, "PROXY TCP4 "...)
	if !source.Is4() || !destination.Is4() {
		b[len(b)-2] = '6'
		source, destination = netip.AddrFrom16(source.As16()), netip.AddrFrom16(destination.As16())
	}
	b = append(source.AppendTo(b), ' ')
	b = append(destination.AppendTo(b), ' ')
	b = append(strconv.AppendUint(b, uint64(h.Source.Port()), 10), ' ')
	b = strconv.AppendUint(b, uint64(h.Destination.Port()), 10)
	return append(b, "\r\n"...)
}

// known reports whether the header says anything.
func (h Header) known() bool { return h.Source.IsValid() && h.Destination.IsValid() }
