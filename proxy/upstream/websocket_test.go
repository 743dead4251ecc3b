package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/router"
)

// A talk is what is said over a WebSocket, byte by byte. None of it is any business of a proxy.
type talk struct {
	name  string
	early []byte // sent by the client with the handshake
	first []byte // sent by the endpoint with the 101
	turns []turn

	endpointEnds bool   // its direction first, else the client does
	last         []byte // what the other says then, before it ends its own
}

// A turn is what both say at once; either may say nothing. Each has heard the other before the next turn.
type turn struct{ client, endpoint []byte }

const (
	opContinue = iota
	opText
	opBinary
	opClose = iota + 5
	opPing
	opPong
	final  = 0x80
	masked = 0x80
)

// frame is a frame of RFC 6455 section 5.2; the mask is 0 for none.
func frame(op byte, mask uint32, payload []byte) []byte {
	b := []byte{op, 0}
	switch n := len(payload); {
	case n < 126:
		b[1] = byte(n)
	case n < 1<<16:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if mask == 0 {
		return append(b, payload...)
	}
	b[1] |= masked
	key := binary.BigEndian.AppendUint32(nil, mask)
	b = append(b, key...)
	for i, c := range payload {
		b = append(b, c^key[i%4])
	}
	return b
}

func closing(code uint16, reason string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, code), reason...)
}

// payload is n bytes that do not repeat soon.
func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * (i>>8 + 7))
	}
	return b
}

func talks() (all []talk) {
	const mask = 0x37fa213d
	add := func(name string, turns ...turn) *talk {
		all = append(all, talk{name: name, turns: turns})
		return &all[len(all)-1]
	}
	for _, n := range []int{0, 1, 125, 126, 127, 4096, 65535, 65536, 1 << 20} {
		for _, op := range []byte{opText, opBinary} {
			add(fmt.Sprintf("%d bytes of %d there and back", n, op),
				turn{client: frame(final|op, mask, payload(n))}, turn{endpoint: frame(final|op, 0, payload(n))})
		}
	}
	for _, n := range []int{2, 3, 17} {
		var one, between []byte
		for i := range n {
			op, fin := byte(opContinue), byte(0)
			if i == 0 {
				op = opText
			}
			if i == n-1 {
				fin = final
			}
			one = append(one, frame(fin|op, mask, payload(i*100))...)
			between = append(append(between, frame(fin|op, 0, payload(i*100))...), frame(final|opPing, 0, payload(i))...)
		}
		add(fmt.Sprintf("%d fragments", n), turn{client: one})
		add(fmt.Sprintf("%d fragments with pings between", n), turn{endpoint: between}, turn{client: frame(final|opPong, mask, nil)})
	}
	for _, n := range []int{0, 5, 125} {
		add(fmt.Sprintf("ping of the client, %d", n), turn{client: frame(final|opPing, mask, payload(n))}, turn{endpoint: frame(final|opPong, 0, payload(n))})
		add(fmt.Sprintf("ping of the endpoint, %d", n), turn{endpoint: frame(final|opPing, 0, payload(n))}, turn{client: frame(final|opPong, mask, payload(n))})
	}
	for i, code := range []uint16{0, 999, 1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 3000, 4000, 4999, 65535} {
		close := closing(code, strings.Repeat("r", min(123, i*7)))
		if i%2 == 0 {
			add(fmt.Sprintf("the client closes with %d", code), turn{client: frame(final|opClose, mask, close)}, turn{endpoint: frame(final|opClose, 0, close)})
		} else {
			add(fmt.Sprintf("the endpoint closes with %d", code), turn{endpoint: frame(final|opClose, 0, close)}, turn{client: frame(final|opClose, mask, close)}).endpointEnds = true
		}
	}
	add("a close without a code", turn{client: frame(final|opClose, mask, nil)}, turn{endpoint: frame(final|opClose, 0, nil)})
	for _, n := range []int{1, 100, 3000, 20000, 100000} {
		add(fmt.Sprintf("%d early bytes", n), turn{endpoint: []byte("heard")}).early = frame(final|opBinary, mask, payload(n))
	}
	for _, n := range []int{1, 5000} {
		t := add(fmt.Sprintf("%d bytes with the 101", n), turn{client: []byte("heard")})
		t.first = frame(final|opBinary, 0, payload(n))
		t.endpointEnds = true
	}
	both := add("both early", turn{client: []byte("a"), endpoint: []byte("b")})
	both.early, both.first = frame(final|opText, mask, payload(10)), frame(final|opText, 0, payload(10))
	for _, n := range []int{1, 70000} {
		add(fmt.Sprintf("%d bytes behind the client's end", n)).last = frame(final|opBinary, 0, payload(n))
		t := add(fmt.Sprintf("%d bytes behind the endpoint's end", n))
		t.endpointEnds, t.last = true, frame(final|opBinary, mask, payload(n))
	}
	for _, n := range []int{1000, 1 << 18} {
		add(fmt.Sprintf("%d bytes both ways at once", n), turn{frame(final|opBinary, mask, payload(n)), frame(final|opBinary, 0, payload(n))}, turn{[]byte("x"), []byte("y")})
	}
	add("a client that does not mask", turn{client: frame(final|opText, 0, payload(50))})
	add("an endpoint that masks", turn{endpoint: frame(final|opText, mask, payload(50))})
	add("reserved bits and opcodes", turn{client: frame(0x7b, mask, payload(50)), endpoint: frame(0xff, 0, payload(50))})
	add("half a frame, then the end", turn{client: frame(final|opText, mask, payload(50))[:20]})
	add("no frames at all", turn{client: []byte("GET / HTTP/1.1\r\nHost: evil\r\n\r\n"), endpoint: []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")})
	return all
}

// A heard is all that one side got to hear.
type heard struct {
	bytes []byte
	err   error // nil: and then a clean end
}

// hold takes one side's part in the turns and in what comes after.
func (k *talk) hold(c net.Conn, in io.Reader, ours, theirs func(turn) []byte, before int, ends bool) (h heard) {
	say := func(b []byte) <-chan error {
		said := make(chan error, 1)
		go func() {
			_, err := c.Write(b)
			said <- err
		}()
		return said
	}
	hear := func(n int) {
		b := make([]byte, n)
		if h.err == nil {
			n, h.err = io.ReadFull(in, b)
			h.bytes = append(h.bytes, b[:n]...)
		}
	}
	hear(before)
	for _, t := range k.turns {
		said := say(ours(t))
		hear(len(theirs(t)))
		if err := <-said; h.err == nil {
			h.err = err
		}
	}
	rest := func() {
		b, err := io.ReadAll(in)
		h.bytes = append(h.bytes, b...)
		if h.err == nil {
			h.err = err
		}
	}
	if ends {
		c.(halfCloser).CloseWrite()
		rest()
		return h
	}
	rest()
	c.Write(k.last)
	c.(halfCloser).CloseWrite()
	return h
}

func ofClient(t turn) []byte   { return t.client }
func ofEndpoint(t turn) []byte { return t.endpoint }

// TestWebSocketsAreByteIdenticalThroughTheProxy has every talk directly with an endpoint, and through the front in the clear and
// over TLS. Both sides must hear the same bytes and the same end.
func TestWebSocketsAreByteIdenticalThroughTheProxy(t *testing.T) {
	all := talks()
	if len(all) < 60 {
		t.Fatalf("%d talks, want 60", len(all))
	}
	results := make(chan heard, 1)
	address := endpoint(t, func(s *session) {
		var n int
		if _, err := fmt.Sscanf(s.head(), "GET /ws/%d ", &n); err != nil {
			results <- heard{err: err}
			return
		}
		s.SetDeadline(time.Now().Add(20 * time.Second))
		k := &all[n]
		s.send(accepted + string(k.first))
		results <- k.hold(s.Conn, s.in, ofEndpoint, ofClient, len(k.early), k.endpointEnds)
	})
	plain, secure := wholeFront(t, New(poolOf(t, address), Options{}))
	ways := []struct {
		name string
		dial func() (net.Conn, error)
	}{
		{"directly", func() (net.Conn, error) { return net.Dial("tcp", address.String()) }},
		{"in the clear", func() (net.Conn, error) { return net.Dial("tcp", plain) }},
		{"over TLS", func() (net.Conn, error) {
			return tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true, ServerName: "example.com"})
		}},
	}
	for n := range all {
		k := &all[n]
		var want [2]heard
		for i, way := range ways {
			c, err := way.dial()
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(20 * time.Second))
			request := strings.Replace(handshake, "/ws", fmt.Sprintf("/ws/%d", n), 1) + string(k.early)
			written := make(chan struct{})
			go func() { io.WriteString(c, request); close(written) }()
			in := bufio.NewReader(c)
			answer, err := http.ReadResponse(in, nil)
			<-written
			if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s, %s: %v, %v; want 101", k.name, way.name, answer, err)
			}
			got := [2]heard{k.hold(c, in, ofClient, ofEndpoint, len(k.first), !k.endpointEnds), <-results}
			c.Close()
			if i == 0 {
				want = got
			}
			for side, who := range []string{"client", "endpoint"} {
				if g, w := got[side], want[side]; g.err != nil || !bytes.Equal(g.bytes, w.bytes) {
					t.Errorf("%s, %s: the %s heard %d bytes, %v; without a proxy %d bytes, %v", k.name, way.name, who, len(g.bytes), g.err, len(w.bytes), w.err)
				}
			}
		}
	}
	t.Logf("%d talks", len(all))
}

// wholeFront is a front as the product has it, over HTTP and HTTPS.
func wholeFront(t *testing.T, handler http.Handler) (plain, secure string) {
	config, _ := identity(t)
	s := &proxy.Server{
		Log:       slog.New(slog.DiscardHandler),
		Handshake: func(*tls.ClientHelloInfo) (*tls.Config, any, error) { return config, nil, nil },
	}
	info := &proxy.RouteInfo{Namespace: "default", Ingress: "web", Service: "app", Port: "80", Path: "/"}
	s.SetTable(router.New([]router.Route{{Match: router.Match{Path: "/"}, Source: "default/web", Handler: proxy.Identify(info, handler)}}, nil))
	var addresses [2]string
	done := make(chan error, 2)
	for i, serve := range []func(net.Listener) error{s.Serve, s.ServeTLS} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		go func() { done <- serve(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return addresses[0], addresses[1]
}
