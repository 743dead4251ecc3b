package upstream

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sallyport/proxy"
)

func TestConnectionFieldIsAsTheRouteSays(t *testing.T) {
	for _, c := range []struct {
		options      Options
		line, field  string
		connections  int64
		chunkedFound bool
	}{
		{Options{}, " HTTP/1.1\r\n", "", 1, true},
		{Options{Connection: "keep-alive"}, " HTTP/1.1\r\n", "keep-alive", 1, true},
		{Options{Connection: "close"}, " HTTP/1.1\r\n", "close", 2, true},
		{Options{HTTP10: true}, " HTTP/1.0\r\n", "close", 2, false},
	} {
		heads := make(chan string, 2)
		var connections atomic.Int64
		f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
			connections.Add(1)
			for {
				head := s.head()
				if head == "" {
					return
				}
				heads <- head
				if strings.Contains(head, "chunked") {
					s.head() // the chunks, up to the empty line behind the last
				} else {
					io.ReadFull(s.in, make([]byte, 4))
				}
				s.send(ok2)
			}
		})), c.options))
		for range 2 {
			r := f.request(t, "POST", "/", io.MultiReader(strings.NewReader("body")))
			r.Header.Set("TE", "trailers")
			if got := f.do(t, r); got.text != "ok" {
				t.Fatalf("%+v: status %d, %q", c.options, got.StatusCode, got.text)
			}
			head := <-heads
			r, err := http.ReadRequest(bufioReader(head))
			if err != nil {
				t.Fatal(err)
			}
			line := head[:strings.Index(head, "\n")+1]
			if !strings.HasSuffix(line, c.line) || strings.Contains(head, "chunked") != c.chunkedFound || strings.Contains(head, "Te: ") != c.chunkedFound {
				t.Errorf("%+v: the endpoint got %q", c.options, head)
			}
			if field := rawField(head, "Connection"); field != c.field {
				t.Errorf("%+v: Connection %q, want %q", c.options, field, c.field)
			}
			if !c.chunkedFound && r.ContentLength != 4 {
				t.Errorf("%+v: length %d, want 4", c.options, r.ContentLength)
			}
		}
		if n := connections.Load(); n != c.connections {
			t.Errorf("%+v: %d connections for two requests, want %d", c.options, n, c.connections)
		}
	}
}

func TestUpgradeOverridesTheConnectionField(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Connection: "close"}, "Upgrade"}, {Options{Connection: "keep-alive"}, "Upgrade"}, {Options{HTTP10: true}, "close"},
	} {
		options, want := c.options, c.want
		heads := make(chan string, 1)
		f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
			heads <- s.head()
			s.send(ok2)
		})), options))
		f.raw(t, handshake)
		head := <-heads
		if got := rawField(head, "Connection"); got != want || (rawField(head, "Upgrade") != "") != (want == "Upgrade") {
			t.Errorf("%+v: the endpoint got %q, want Connection: %s", options, head, want)
		}
	}
}

func rawField(head, name string) string {
	for line := range strings.SplitSeq(head, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return value
		}
	}
	return ""
}

func TestBodyTooLongToCountIs411(t *testing.T) {
	for size, status := range map[int]int{maxHTTP10: 200, maxHTTP10 + 1: 411} {
		f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
			r := s.request()
			if b, _ := io.ReadAll(r.Body); len(b) == size {
				s.send(ok2)
			}
		})), Options{HTTP10: true}))
		got, e := f.do(t, f.request(t, "POST", "/", io.MultiReader(bytes.NewReader(make([]byte, size))))), f.exchange(t)
		if got.StatusCode != status || (e.Reason == proxy.BadRequest) != (status == 411) {
			t.Errorf("%d bytes: status %d, reason %q; want %d", size, got.StatusCode, e.Reason, status)
		}
	}
}

// TestHTTP10EndpointIsNotAskedForPermission: it knows nothing of 100, but the client waits for it.
func TestHTTP10EndpointIsNotAskedForPermission(t *testing.T) {
	for name, size := range map[string]int{"small": 4, "large": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
				r := s.request()
				if b, _ := io.ReadAll(r.Body); len(b) == size && r.Header.Get("Expect") == "" {
					s.send(ok2)
				}
			})), Options{HTTP10: true}))
			r := f.request(t, "POST", "/", bytes.NewReader(make([]byte, size)))
			r.Header.Set("Expect", "100-continue")
			f.client.Transport.(*http.Transport).ExpectContinueTimeout = 1 << 40 // never
			if got := f.do(t, r); got.text != "ok" {
				t.Errorf("status %d, %q; want ok", got.StatusCode, got.text)
			}
		})
	}
}

func TestFeatureDecidesWhatTheEndpointIsTold(t *testing.T) {
	heads := make(chan string, 1)
	last := New(poolOf(t, endpoint(t, func(s *session) {
		heads <- s.head()
		s.send(ok2)
	})), quick)
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := proxy.From(r)
		e.UpstreamTarget, e.UpstreamHost = "/other?x=%zz", "u.test"
		last.ServeHTTP(w, r)
	}))
	f.get(t, "/path")
	if head := <-heads; !strings.HasPrefix(head, "GET /other?x=%zz HTTP/1.1\r\nHost: u.test\r\n") {
		t.Errorf("the endpoint got %q", head)
	}
}
