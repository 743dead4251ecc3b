// Package clienthello reads which host a TLS client asks for, before anybody has answered it.
//
//	name, read, err := reader.Read(connection)
//	switch {
//	case err == nil:                       // name is the server name as it was sent; empty: there is none
//	case errors.Is(err, clienthello.ErrNotTLS): // for crypto/tls to refuse, in its own words
//	default:                               // for nobody
//	}
//
// Everything that was read comes back, so that whoever takes the connection next finds it as the client began it: the
// endpoint to which it is passed on, or crypto/tls.
//
// # Why it is read by hand
//
// crypto/tls tells the name too, but only once it holds the connection, and it gives back nothing of what it has read. Two
// readers of one message are how policies are walked past: one of them sees a name where the other sees none. So this one
// believes nothing that crypto/tls would not. It puts a hello together however it was cut into records and segments; what it
// cannot read, crypto/tls cannot either, and a fuzz test holds the two against each other. Where the two could part (a hello
// of more than [MaxHello] bytes, a warning before it) the connection has no future with either.
//
// # Bounds
//
// A client may open any number of connections and leave each hello half said. What is kept of one is some hundred bytes
// and no more than four times what it has sent, of which [MaxRead] are taken at most; what is longer than a usual hello comes out of [MaxLong], for all of a Reader's
// connections together. How long a client may take is for the caller to say, with a deadline.
//
// # What it does not do
//
// It checks no name and knows no hosts. The name it returns is the outer one where a client uses Encrypted Client Hello:
// nobody here could read the other.
package clienthello

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

const (
	// MaxHello is the length of the longest hello that is read. With a post-quantum key share it is some 1,800 bytes, with a
	// large session ticket a few thousand.
	MaxHello = 16 << 10
	// MaxRead bounds what is read of a connection: a hello, the heads of the records it is cut into, and what follows in the
	// same segment.
	MaxRead = 24 << 10
	// MaxLong bounds what the connections of one Reader hold together beyond their first 4 KiB.
	MaxLong = 64 << 20

	first = 512     // bytes that there is room for at first
	usual = 4 << 10 // bytes that each connection may have
)

var (
	// ErrNotTLS says that a connection does not begin with a hello that crypto/tls would read.
	ErrNotTLS = errors.New("the connection does not begin with a TLS ClientHello")
	// ErrTooLong is for a hello that may be one, and is longer than any that is read.
	ErrTooLong = fmt.Errorf("the ClientHello is longer than %d bytes, or cut into too many records", MaxHello)
	// ErrCrowded is for a long hello while too many others are long.
	ErrCrowded = errors.New("there are too many long ClientHellos at a time")
	// ErrAlert is for a connection that begins with an alert.
	ErrAlert = errors.New("there is an alert before or within the ClientHello")
)

// A Reader reads hellos. The zero Reader is ready, for any number of connections at a time.
type Reader struct {
	long atomic.Int64 // bytes beyond the usual that connections hold now
}

// Read reads until a hello is complete and returns the name in it. Read is all that was read, whatever the error is; it
// belongs to the caller. Other errors than those above are the connection's.
func (r *Reader) Read(from io.Reader) (name string, read []byte, err error) {
	h := hello{raw: make([]byte, 0, first)}
	held := int64(0) // of long
	defer func() { r.long.Add(-held) }()
	for {
		if len(h.raw) == cap(h.raw) {
			if cap(h.raw) >= MaxRead {
				return "", h.raw, ErrTooLong
			}
			room := min(2*cap(h.raw), MaxRead)
			if more := int64(max(0, room-usual)) - held; more > 0 {
				held += more
				if r.long.Add(more) > MaxLong {
					return "", h.raw, ErrCrowded
				}
			}
			h.raw = append(make([]byte, 0, room), h.raw...)
		}
		n, readErr := from.Read(h.raw[len(h.raw):cap(h.raw)])
		h.raw = h.raw[:len(h.raw)+n]
		done, err := h.gather()
		switch {
		case err != nil:
			return "", h.raw, err
		case done:
			name, ok := serverName(h.message)
			if !ok {
				return "", h.raw, ErrNotTLS
			}
			return name, h.raw, nil
		case readErr != nil:
			return "", h.raw, readErr
		}
	}
}

// Values of RFC 8446.
const (
	recordAlert     = 21
	recordHandshake = 22
	recordHead      = 5        // bytes before the payload of a record
	maxPayload      = 16 << 10 // of a record in the clear
	noTLS           = 0x10     // major versions from here on are none of TLS
	messageHead     = 4        // bytes before the body of a handshake message
	messageHello    = 1        // type of a ClientHello
	maxMessage      = 256 << 8 // of what crypto/tls reads
	extensionName   = 0        // server_name
	hostName        = 0        // the one type of name in it
	randomLength    = 2 + 32   // version and random of a hello
)

// A hello is what was read of one, and what was put together of its records.
type hello struct {
	raw     []byte
	next    int    // where in raw the next record begins
	message []byte // payloads of the records before
}

// gather takes the records that are complete, and reports whether the message is. What it refuses, crypto/tls refuses at
// the same byte or before.
func (h *hello) gather() (done bool, err error) {
	for {
		rest := h.raw[h.next:]
		if len(rest) > 0 && rest[0] != recordHandshake {
			if rest[0] == recordAlert {
				return false, ErrAlert
			}
			return false, ErrNotTLS
		}
		if len(rest) > 1 && rest[1] >= noTLS {
			return false, ErrNotTLS
		}
		if len(rest) < recordHead {
			return false, nil
		}
		length := int(rest[3])<<8 | int(rest[4])
		if length == 0 || length > maxPayload {
			return false, ErrNotTLS
		}
		if len(rest) < recordHead+length {
			return false, nil
		}
		payload := rest[recordHead : recordHead+length : recordHead+length]
		if h.next == 0 {
			h.message = payload // most hellos are one record; of another, append makes a copy
		} else {
			h.message = append(h.message, payload...)
		}
		h.next += recordHead + length
		if len(h.message) < messageHead {
			continue
		}
		body := int(h.message[1])<<16 | int(h.message[2])<<8 | int(h.message[3])
		switch {
		case h.message[0] != messageHello, body > maxMessage:
			return false, ErrNotTLS
		case messageHead+body > MaxHello:
			return false, ErrTooLong
		case len(h.message) >= messageHead+body:
			h.message = h.message[:messageHead+body]
			return true, nil
		}
	}
}

// serverName is the name in a hello; empty: there is none. Not ok: crypto/tls would not take the hello for one.
func serverName(message []byte) (name string, ok bool) {
	b := text(message[messageHead:])
	_, ok = b.take(randomLength)
	_, sessionOK := b.vector(1)
	suites, suitesOK := b.vector(2)
	_, compressionsOK := b.vector(1)
	if !ok || !sessionOK || !suitesOK || len(suites)%2 != 0 || !compressionsOK {
		return "", false
	}
	if len(b) == 0 {
		return "", true // without extensions, as in old versions
	}
	extensions, ok := b.vector(2)
	if !ok || len(b) > 0 {
		return "", false
	}
	seen := make(map[int]struct{})
	for len(extensions) > 0 {
		kind, kindOK := extensions.number(2)
		data, dataOK := extensions.vector(2)
		if _, twice := seen[kind]; !kindOK || !dataOK || twice {
			return "", false
		}
		seen[kind] = struct{}{}
		if kind == extensionName {
			if name, ok = nameIn(data); !ok {
				return "", false
			}
		}
	}
	return name, true
}

// nameIn is the name in the extension (RFC 6066 section 3).
func nameIn(data text) (name string, ok bool) {
	list, ok := data.vector(2)
	if !ok || len(list) == 0 || len(data) > 0 {
		return "", false
	}
	for len(list) > 0 {
		kind, kindOK := list.number(1)
		one, oneOK := list.vector(2)
		switch {
		case !kindOK || !oneOK || len(one) == 0:
			return "", false
		case kind != hostName:
		case name != "":
			return "", false
		default:
			name = string(one)
		}
	}
	return name, true
}

// A text is bytes that are read from the front.
type text []byte

// take takes n bytes.
func (t *text) take(n int) (text, bool) {
	if len(*t) < n {
		return nil, false
	}
	taken := (*t)[:n]
	*t = (*t)[n:]
	return taken, true
}

// number takes a number of some bytes.
func (t *text) number(bytes int) (n int, ok bool) {
	digits, ok := t.take(bytes)
	for _, digit := range digits {
		n = n<<8 | int(digit)
	}
	return n, ok
}

// vector takes what has its length before it, in some bytes.
func (t *text) vector(bytes int) (text, bool) {
	n, ok := t.number(bytes)
	if !ok {
		return nil, false
	}
	return t.take(n)
}
