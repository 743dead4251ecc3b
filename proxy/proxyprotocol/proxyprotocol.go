// Package proxyprotocol reads and writes what a load balancer says of a connection before its first byte: the PROXY
// protocol, versions 1 and 2 (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt).
//
//	header, rest, err := proxyprotocol.Read(connection)
//	...
//	connection.Write(header.AppendV2(nil))
//
// The reader is strict: whoever sends the header is a program that has it right, and who has not is refused. A header is
// never longer than [MaxV1] or [MaxV2] bytes; what comes behind it is handed over as it was read. The writer writes what
// the reader reads.
//
// # What it does not do
//
// It does not decide whose header is believed, sets no deadline, and understands none of the further values (TLVs) that
// version 2 may hold: they are skipped.
package proxyprotocol

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// A Header is what was said of a connection. The zero Header says nothing: the load balancer speaks for itself, as in a
// health check (LOCAL), or does not know (UNKNOWN), or the client came by something that has no IP address.
type Header struct {
	Source      netip.AddrPort // the client
	Destination netip.AddrPort // what it connected to
	// Datagram says that the client speaks UDP. Version 1 cannot say so.
	Datagram bool
}

const (
	// MaxV1 is the length of the longest header of version 1, its end included.
	MaxV1 = 107
	// MaxV2 is where we give up on a header of version 2. Addresses take 36 bytes behind the first 16; the rest of the 64
	// KiB that the format has room for would be TLVs, of which load balancers send some hundred bytes.
	MaxV2 = 4 << 10

	usual = 512 // bytes that most headers fit in
)

var (
	// ErrIncomplete is the error of [Parse] for the beginning of a header.
	ErrIncomplete = errors.New("the PROXY header is incomplete")
	// ErrNone says that a connection does not begin with a PROXY header at all.
	ErrNone = errors.New("the connection does not begin with a PROXY header")
)

// Read reads a header. Rest is what was read with it of what comes behind. The error is io.EOF where the connection
// ended without a byte, and io.ErrUnexpectedEOF where it ended within the header.
func Read(r io.Reader) (h Header, rest []byte, err error) {
	b := make([]byte, 0, usual)
	for {
		n, readErr := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		h, length, err := Parse(b)
		if err == nil {
			return h, b[length:], nil
		}
		if err != ErrIncomplete {
			return Header{}, nil, err
		}
		switch {
		case readErr == io.EOF && len(b) > 0:
			return Header{}, nil, io.ErrUnexpectedEOF
		case readErr != nil:
			return Header{}, nil, readErr
		case len(b) == cap(b):
			b = append(make([]byte, 0, MaxV2), b...)
		}
	}
}

// Parse reads the header that b begins with, and says how long it is. The error is [ErrIncomplete] as long as more bytes
// could make one.
func Parse(b []byte) (h Header, length int, err error) {
	switch {
	case begins(b, signature1):
		return parse1(b)
	case begins(b, signature2):
		return parse2(b)
	}
	return Header{}, 0, ErrNone
}

// begins reports whether b begins with a signature, or with as much of it as there is.
func begins(b []byte, signature string) bool {
	n := min(len(b), len(signature))
	return string(b[:n]) == signature[:n]
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("malformed PROXY header: "+format, args...)
}
