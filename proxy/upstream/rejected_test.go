package upstream

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// TestRequestThatCannotHaveArrivedIsSentAgain has an endpoint close an idle connection in the moment in which a request is
// on its way: nobody can have acted on it, so a POST with its body goes over another connection.
func TestRequestThatCannotHaveArrivedIsSentAgain(t *testing.T) {
	var seen atomic.Int64
	closed := make(chan struct{})
	pool := poolOf(t, endpoint(t, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			body, _ := io.ReadAll(r.Body)
			seen.Add(1)
			s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + string(body))
			if s.number == 1 {
				s.Close()
				close(closed)
				return
			}
		}
	}))
	f := front(t, 1, New(pool, quick))
	f.do(t, f.request(t, "POST", "/", strings.NewReader("1st.")))
	f.exchange(t)
	<-closed
	idle := pool.members()[0].idle
	if len(idle) != 1 {
		t.Fatalf("%d connections are idle, want one", len(idle))
	}
	c := idle[0]
	c.asking.try = func(fd uintptr) bool { // as if it had looked just before
		a := &c.asking
		if a.at != stepLook {
			return c.tryAsking(fd)
		}
		n, _ := http1.WriteSocket(fd, a.out)
		a.out, a.at = a.out[n:], stepAwait
		return false
	}
	got, e := f.do(t, f.request(t, "POST", "/", strings.NewReader("2nd."))), f.exchange(t)
	if got.StatusCode != 200 || got.text != "2nd." || seen.Load() != 2 {
		t.Errorf("status %d, %q, seen %d; want 200 with the body, seen once each", got.StatusCode, got.text, seen.Load())
	}
	if len(e.Attempts) != 2 || !e.Attempts[0].Reused || e.Attempts[0].Reason != proxy.UpstreamReset || e.Attempts[1].Reused {
		t.Errorf("attempts %+v; want one that was reset and a new connection", e.Attempts)
	}
}

// TestRequestThatMayHaveArrivedIsNotSentAgain: the kernel of the endpoint took the bytes, though no program read them.
func TestRequestThatMayHaveArrivedIsNotSentAgain(t *testing.T) {
	second := make(chan struct{})
	pool := poolOf(t, endpoint(t, func(s *session) {
		r := s.request()
		io.Copy(io.Discard, r.Body)
		s.send(ok2)
		<-second // is in the socket's buffer
	}))
	last := New(pool, quick)
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/second" {
			time.AfterFunc(quick.ReadTimeout/4, func() { close(second) })
		}
		last.ServeHTTP(w, r)
	}))
	f.do(t, f.request(t, "POST", "/", strings.NewReader("body")))
	f.exchange(t)
	got, e := f.do(t, f.request(t, "POST", "/second", strings.NewReader("body"))), f.exchange(t)
	if got.StatusCode != 502 || e.Reason != proxy.UpstreamReset || len(e.Attempts) != 1 {
		t.Errorf("status %d, reason %q, %d attempts; want 502, upstream_reset, one", got.StatusCode, e.Reason, len(e.Attempts))
	}
}

// TestRequestThatWasActedOnIsNotSentAgain: the endpoint acts on a request, and breaks the connection off before its kernel,
// which has seen answers go out and puts acknowledgements off, has told ours that the request came.
func TestRequestThatWasActedOnIsNotSentAgain(t *testing.T) {
	server, _ := identity(t)
	for name, protocol := range map[string]Protocol{"HTTP": HTTP, "HTTPS": HTTPS} {
		t.Run(name, func(t *testing.T) {
			var acted atomic.Int64
			script := func(s *session) {
				for r := s.request(); r != nil; r = s.request() {
					io.Copy(io.Discard, r.Body)
					if r.URL.Path != "/act" {
						s.send(ok2)
						continue
					}
					acted.Add(1)
					if secured, ok := s.Conn.(*tls.Conn); ok {
						s.Conn = secured.NetConn()
					}
					s.reset()
					return
				}
			}
			at := endpoint(t, script)
			if protocol == HTTPS {
				at = secured(t, server, script)
			}
			options := quick
			options.Protocol = protocol
			f := front(t, 1, New(poolOf(t, at), options))
			for range 20 { // which makes the kernel put acknowledgements off
				f.do(t, f.request(t, "POST", "/", strings.NewReader("body")))
				f.exchange(t)
			}
			got, e := f.do(t, f.request(t, "POST", "/act", strings.NewReader("body"))), f.exchange(t)
			if got.StatusCode != 502 || e.Reason != proxy.UpstreamReset || acted.Load() != 1 {
				t.Errorf("status %d, reason %q, acted %d times; want 502, upstream_reset, once", got.StatusCode, e.Reason, acted.Load())
			}
		})
	}
}
