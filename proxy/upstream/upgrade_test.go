package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sallyport/proxy"
)

// handshake is a WebSocket request with the key of RFC 6455's own example, to which accepted is the answer.
const (
	handshake = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade, X-Own\r\nX-Own: 1\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Kept: 1\r\n\r\n"
)

func TestWebSocketPasses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		for {
			kind, b, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			ws.Write(r.Context(), kind, bytes.ToUpper(b))
		}
	}))
	defer server.Close()
	f := front(t, 1, New(poolOf(t, netip.MustParseAddrPort(server.Listener.Addr().String())), Options{}))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, f.URL, &websocket.DialOptions{Subprotocols: []string{"chat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if ws.Subprotocol() != "chat" {
		t.Errorf("subprotocol %q, want chat", ws.Subprotocol())
	}
	for _, word := range []string{"a", strings.Repeat("b", 20000)} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(word)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := ws.Read(ctx); err != nil || string(b) != strings.ToUpper(word) {
			t.Fatalf("got %d bytes, %v; want the word in capitals", len(b), err)
		}
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("close: %v", err)
	}
	if e := f.exchange(t); e.Status != 101 || e.Reason != "" || e.Sent < 20000 || e.Attempts[0].Status != 101 {
		t.Errorf("exchange: status %d, reason %q, sent %d, %+v", e.Status, e.Reason, e.Sent, e.Attempts)
	}
}

func TestEarlyBytesAndHalfClosesPassATunnel(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		head := s.head()
		if !strings.Contains(head, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n") {
			return
		}
		s.send(accepted + "hello ")  // with the head of the answer
		got, _ := io.ReadAll(s.in)   // up to the client's half-close
		s.send("got " + string(got)) // which leaves this direction open
	})), Options{}))
	c, in := f.raw(t, handshake+"early ") // before the 101
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("answer %v, %v; want 101", res, err)
	}
	if res.Header.Get("X-Own") != "" || res.Header.Get("X-Kept") != "1" || res.Header.Get("Connection") != "Upgrade" {
		t.Errorf("header of the 101: %v", res.Header)
	}
	io.WriteString(c, "late")
	c.CloseWrite()
	if got, err := io.ReadAll(in); err != nil || string(got) != "hello got early late" {
		t.Errorf("the client got %q, %v", got, err)
	}
	if e := f.exchange(t); e.Reason != "" || e.Sent != int64(len("hello got early late")) {
		t.Errorf("reason %q, sent %d", e.Reason, e.Sent)
	}
}

func TestOnlyAWebSocketHandshakeIsAnUpgrade(t *testing.T) {
	for name, request := range map[string]string{
		"h2c":           strings.Replace(handshake, "WebSocket\r\n", "h2c\r\n", 1),
		"list":          strings.Replace(handshake, "WebSocket\r\n", "websocket, h2c\r\n", 1),
		"two fields":    strings.Replace(handshake, "Upgrade: WebSocket\r\n", "Upgrade: websocket\r\nUpgrade: websocket\r\n", 1),
		"HTTP/1.0":      strings.Replace(handshake, "HTTP/1.1", "HTTP/1.0", 1),
		"POST":          strings.Replace(handshake, "GET", "POST", 1),
		"with a body":   strings.Replace(handshake, "\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx", 1),
		"no key":        strings.Replace(handshake, "Sec-WebSocket-Key", "X-Key", 1),
		"not nominated": strings.Replace(handshake, "keep-alive, Upgrade", "keep-alive", 1),
	} {
		t.Run(name, func(t *testing.T) {
			heads := make(chan string, 1)
			f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
				heads <- s.head()
				s.send(ok2)
			})), quick))
			_, in := f.raw(t, request)
			if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 200 {
				t.Errorf("answer %v, %v; want 200", res, err)
			}
			if head := <-heads; strings.Contains(head, "Upgrade") {
				t.Errorf("the endpoint got %q", head)
			}
		})
	}
}

func TestAnswerThatDoesNotMatchTheHandshakeIs502(t *testing.T) {
	for name, answer := range map[string]string{
		"other protocol": strings.Replace(accepted, "websocket", "foo", 1),
		"no Upgrade":     strings.Replace(accepted, "Upgrade: websocket\r\n", "", 1),
		"no Connection":  strings.Replace(accepted, "Connection: upgrade, X-Own\r\n", "", 1),
		"other key":      strings.Replace(accepted, "s3pP", "s3pQ", 1),
	} {
		t.Run(name, func(t *testing.T) {
			hungUp := make(chan bool, 1)
			f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
				s.head()
				s.send(answer)
				io.Copy(io.Discard, s.in)
				hungUp <- true
			})), quick))
			_, in := f.raw(t, handshake)
			res, err := http.ReadResponse(in, nil)
			if e := f.exchange(t); err != nil || res.StatusCode != 502 || e.Reason != proxy.UpstreamInvalid {
				t.Errorf("answer %v, %v, reason %q; want 502, upstream_invalid", res, err, e.Reason)
			}
			select {
			case <-hungUp:
			case <-time.After(5 * time.Second):
				t.Error("the endpoint's connection is open after 5 s")
			}
		})
	}
}

func TestRefusedUpgradeIsAnOrdinaryAnswer(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, answers("HTTP/1.1 426 X\r\nContent-Length: 2\r\n\r\nno"))), quick))
	_, in := f.raw(t, handshake+"GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
	for range 2 { // what follows the request is the next request, and no tunnel
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 426 {
			t.Fatalf("answer %v, %v; want 426", res, err)
		}
		io.Copy(io.Discard, res.Body)
	}
}

func TestSilentTunnelEnds(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, stall(accepted))), Options{TunnelTimeout: 50 * time.Millisecond}))
	_, in := f.raw(t, handshake)
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("read: %v, want the end", err)
	}
	if e := f.exchange(t); e.Reason != proxy.ReadTimeout {
		t.Errorf("reason %q, want read_timeout", e.Reason)
	}
}
