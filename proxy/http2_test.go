package proxy

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const flagEndHeaders = 0x4

// A wire is a connection of HTTP/2 whose every frame the test writes itself, since no client library sends what is
// wrong.
type wire struct {
	t testing.TB
	*tls.Conn
}

func dialHTTP2(t testing.TB, addr string) wire {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: "a.test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	w := wire{t, c}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	w.send(frameSettings, 0, 0, nil)
	return w
}

func (w wire) send(kind, flags byte, stream uint32, payload []byte) {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	head = binary.BigEndian.AppendUint32(head, stream)
	if _, err := w.Write(append(head, payload...)); err != nil {
		w.t.Fatal(err)
	}
}

// request sends a request without a body on a stream; its fields are names and values in turn.
func (w wire) request(stream uint32, fields ...string) { w.head(stream, flagEndStream, fields...) }

// head begins a stream; the flags say whether that is all.
func (w wire) head(stream uint32, flags byte, fields ...string) {
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		block = append(block, 0) // a literal that is not indexed (RFC 7541 section 6.2.2)
		block = appendLiteral(appendLiteral(block, fields[i]), fields[i+1])
	}
	w.send(frameHeaders, flagEndHeaders|flags, stream, block)
}

// get sends a request that nobody has anything against.
func (w wire) get(stream uint32) {
	w.request(stream, ":method", "GET", ":scheme", "https", ":authority", "a.test", ":path", "/")
}

func appendLiteral(b []byte, s string) []byte {
	n := len(s)
	if n < 127 {
		return append(append(b, byte(n)), s...)
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(append(b, byte(n)), s...)
}

// frame reads one frame.
func (w wire) frame() (kind byte, payload []byte, err error) {
	head := make([]byte, 9)
	if _, err := io.ReadFull(w, head); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(w, payload)
	return head[3], payload, err
}

// outcome is the status of the first answer on the connection, or RST, or GOAWAY.
func (w wire) outcome() string {
	for {
		kind, payload, err := w.frame()
		switch {
		case err != nil:
			return err.Error()
		case kind == frameHeaders:
			return status(payload)
		case kind == frameReset:
			return "RST"
		case kind == frameGoAway:
			return "GOAWAY"
		}
	}
}

// last reads until an answer and a GOAWAY have come, in either order, and returns the status of the one and the error code
// of the other.
func (w wire) last() (answer, code string) {
	for answer == "" || code == "" {
		kind, payload, err := w.frame()
		switch {
		case err != nil:
			w.t.Fatalf("%v before an answer (%q) and a GOAWAY (%q)", err, answer, code)
		case kind == frameGoAway:
			code = fmt.Sprint(binary.BigEndian.Uint32(payload[4:]))
		case kind == frameHeaders:
			answer = status(payload)
		}
	}
	return answer, code
}

// status reads the first field of an answer's block, which is :status: a field of the static table (RFC 7541 appendix A),
// or a literal under the name of one, whose digits may be in the code of appendix B.
func status(block []byte) string {
	if i := int(block[0]) - 0x88; i >= 0 && i < 7 {
		return []string{"200", "204", "206", "304", "400", "404", "500"}[i]
	}
	value := block[2 : 2+block[1]&0x7f]
	if block[1]&0x80 == 0 {
		return string(value)
	}
	bits, digits := "", ""
	for _, b := range value {
		bits += fmt.Sprintf("%08b", b)
	}
	for len(digits) < 3 {
		for i, code := range strings.Fields("00000 00001 00010 011001 011010 011011 011100 011101 011110 011111") {
			if rest, ok := strings.CutPrefix(bits, code); ok {
				digits, bits = digits+fmt.Sprint(i), rest
				break
			}
		}
	}
	return digits
}

// TestStreamsThatHaveNoSingleReadingAreRefused sends one request a connection, and sees what comes back and whether a
// handler saw the request.
func TestStreamsThatHaveNoSingleReadingAreRefused(t *testing.T) {
	var handled atomic.Int32
	_, secure := front(t, new(Server), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handled.Add(1) }))
	for _, c := range []struct{ want, method, path, authority, more string }{
		{"200", "GET", "/x", "a.test", ""},
		{"200", "GET", "/x", "", "host: b.test"}, // RFC 9113 section 8.3.1
		{"200", "GET", "/x", "a.test", "host: a.test"},
		{"200", "POST", "/x", "a.test", "content-length: 0"},
		{"200", "GET", "/x", "a.test", "te: trailers"},
		{"200", "GET", "/x?a=1;b=%zz&c=../..//", "a.test", ""},
		{"200", "OPTIONS", "*", "a.test", ""},
		{"400", "GET", "*", "a.test", ""},
		{"400", "GET", "/x y", "a.test", ""},
		{"400", "GET", "/x?a b HTTP/1.1", "a.test", ""},
		{"RST", "GET", "", "a.test", ""},
		{"400", "GET", "x:admin", "a.test", ""},
		{"400", "GET", "https://a.test/x", "a.test", ""},
		{"400", "GET", "/a%00b", "a.test", ""},
		{"RST", "GET", "/a%zz", "a.test", ""},
		{"400", "GET", "/a#b", "a.test", ""},
		{"400", "GET", "/pub/..;/admin", "a.test", ""},
		{"414", "GET", "/" + strings.Repeat("a", 9000), "a.test", ""},
		{"400", "GET", "/x", "", ""},
		{"400", "GET", "/x", "a.test/ b\"<>", ""},
		{"400", "GET", "/x", "a.test:x", ""},
		{"RST", "GET", "/x", "u@a.test", ""},
		{"400", "GET", "/x", "a.test", "host: b.test"},
		{"400", "GET / HTTP/1.1", "/x", "a.test", ""},
		{"501", "get", "/x", "a.test", ""},
		{"405", "TRACE", "/x", "a.test", ""},
		{"RST", "CONNECT", "/x", "a.test", ""},
		{"400", "GET", "/x", "a.test", "connection: keep-alive"},
		{"400", "GET", "/x", "a.test", "upgrade: websocket"},
		{"400", "POST", "/x", "a.test", "transfer-encoding: chunked"},
		{"400", "GET", "/x", "a.test", "te: gzip"},
		{"RST", "GET", "/x", "a.test", "X-A: b"},
		{"RST", "GET", "/x", "a.test", "x-a: b\rz"},
		{"RST", "GET", "/x", "a.test", ":path: /y"},
		{"400", "POST", "/x", "a.test", "content-length: 5"},
		{"400", "POST", "/x", "a.test", "content-length: +0"},
		{"400", "POST", "/x", "a.test", "content-length: 0\ncontent-length: 0"},
		{"400", "POST", "/x", "a.test", "content-length: 5\ncontent-length: 0"},
		{"431", "GET", "/x", "a.test", strings.Repeat("x: y\n", 101)},
	} {
		fields := []string{":method", c.method, ":scheme", "https", ":path", c.path}
		if c.authority != "" {
			fields = append(fields, ":authority", c.authority)
		}
		for _, field := range strings.FieldsFunc(c.more, func(c rune) bool { return c == '\n' }) {
			colon := strings.LastIndex(field, ": ")
			fields = append(fields, field[:colon], field[colon+2:])
		}
		w := dialHTTP2(t, secure)
		handled.Store(0)
		w.request(1, fields...)
		got := w.outcome()
		want := int32(0)
		if c.want == "200" && c.path != "*" {
			want = 1
		}
		if n := handled.Load(); got != c.want || n != want {
			t.Errorf("%.40q %.40q at %q with %.40q: %s, handled %d times; want %s, %d times", c.method, c.path, c.authority, c.more, got, n, c.want, want)
		}
	}
}

func TestStreamsMayNotHaveBytesOutsideTheGrammarInTheirPath(t *testing.T) {
	_, secure := front(t, new(Server), ok)
	for _, b := range []byte("\"<>\\^`{|}\x7f\x80\xe9\xff") {
		w := dialHTTP2(t, secure)
		w.request(1, ":method", "GET", ":scheme", "https", ":authority", "a.test", ":path", "/x"+string([]byte{b}))
		if got := w.outcome(); got != "400" && got != "RST" {
			t.Errorf("a path with %q: %s, want 400 or RST", b, got)
		}
	}
}

func TestDrainSendsGOAWAY(t *testing.T) {
	s := new(Server)
	_, secure := front(t, s, ok)
	w := dialHTTP2(t, secure)
	w.get(1)
	if got := w.outcome(); got != "200" {
		t.Fatalf("before Drain: %s", got)
	}
	s.Drain()
	w.get(3)
	if status, code := w.last(); status != "200" || code != "0" {
		t.Errorf("after Drain: status %s, GOAWAY with error %s; want 200 and no error", status, code)
	}
}

func TestRefusalLeavesOtherStreamsAlone(t *testing.T) {
	_, secure := front(t, new(Server), ok)
	w := dialHTTP2(t, secure)
	w.request(1, ":method", "GET", ":scheme", "https", ":authority", "a.test", ":path", "/a|b")
	if got := w.outcome(); got != "400" {
		t.Fatalf("the bad request: %s", got)
	}
	w.request(3, ":method", "GET", ":scheme", "https", ":authority", "a.test", ":path", "/x")
	if got := w.outcome(); got != "200" {
		t.Errorf("the request after a bad one on the same connection: %s, want 200", got)
	}
}
