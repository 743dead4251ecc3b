package upstream

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sallyport/proxy"
)

func TestRefusedConnectionMovesOnToTheNextEndpoint(t *testing.T) {
	good := endpoint(t, answers(ok2))
	f := front(t, 1, New(poolOf(t, refused(t), refused(t), good), quick))
	got := f.do(t, f.request(t, "POST", "/", io.MultiReader(strings.NewReader("streamed"))))
	e := f.exchange(t)
	if got.StatusCode != 200 || len(e.Attempts) != 3 || e.Attempts[0].Reason != proxy.ConnectRefused ||
		e.Attempts[1].Reason != proxy.ConnectRefused || e.Attempts[2].Endpoint != good || e.Reason != "" {
		t.Errorf("status %d, reason %q, attempts %+v; want 200 from the third", got.StatusCode, e.Reason, e.Attempts)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	var addrs []netip.AddrPort
	for range maxRefusals + 10 {
		addrs = append(addrs, refused(t))
	}
	f := front(t, 1, New(poolOf(t, addrs...), quick))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 502 || e.Reason != proxy.ConnectRefused || len(e.Attempts) != maxRefusals+3 {
		t.Errorf("status %d, reason %q, %d attempts; want 502, connect_refused, %d", got.StatusCode, e.Reason, len(e.Attempts), maxRefusals+3)
	}
}

func TestSlowFailuresToConnectAreTriedThreeTimesAtMost(t *testing.T) {
	options := quick
	options.ConnectTimeout = 50 * time.Millisecond
	f := front(t, 1, New(poolOf(t, full(t), full(t), full(t), full(t)), options))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 504 || e.Reason != proxy.ConnectTimeout || len(e.Attempts) != 3 {
		t.Errorf("status %d, reason %q, %d attempts; want 504, connect_timeout, 3", got.StatusCode, e.Reason, len(e.Attempts))
	}
}

// TestEndpointThatRefusedIsPassedOver asks more often than there are turns: only the first request meets the endpoint that
// refuses.
func TestEndpointThatRefusedIsPassedOver(t *testing.T) {
	f := front(t, 1, New(poolOf(t, refused(t), endpoint(t, answers(ok2)), endpoint(t, answers(ok2))), quick))
	for i := range 9 {
		f.get(t, "/")
		if n := len(f.exchange(t).Attempts); n != 1 && i > 0 || n != 2 && i == 0 {
			t.Errorf("request %d took %d attempts, want 2 for the first and 1 from then on", i, n)
		}
	}
}

// TestEndpointThatIsSetAsideIsBetterThanNone lets the only endpoint refuse, then listen: it is asked again at once.
func TestEndpointThatIsSetAsideIsBetterThanNone(t *testing.T) {
	addr := refused(t)
	f := front(t, 1, New(poolOf(t, addr), quick))
	if got := f.get(t, "/"); got.StatusCode != 502 {
		t.Fatalf("status %d, want 502", got.StatusCode)
	}
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})}
	go server.Serve(l)
	defer server.Close()
	if got := f.get(t, "/"); got.StatusCode != 200 {
		t.Errorf("status %d, want 200", got.StatusCode)
	}
}

func TestEndpointIsConnectedToOnceARequest(t *testing.T) {
	f := front(t, 1, New(poolOf(t, refused(t)), quick))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 502 || len(e.Attempts) != 1 {
		t.Errorf("status %d, %d attempts; want 502 after the only endpoint", got.StatusCode, len(e.Attempts))
	}
}

// full listens with a queue that holds no more connections: further ones hang as at a host that drops packets.
func full(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*syscall.SockaddrInet4).Port))
	for range 100 {
		c, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue takes more than 100 connections")
	return addr
}

func TestEndpointThatTakesNoConnectionIs504(t *testing.T) {
	f := front(t, 1, New(poolOf(t, full(t)), quick))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 504 || e.Reason != proxy.ConnectTimeout {
		t.Errorf("status %d, reason %q; want 504, connect_timeout", got.StatusCode, e.Reason)
	}
}

// dying answers the first request of its first connection and reads the second before it ends that connection, so that
// the proxy cannot have known. It counts the requests it has seen.
func dying(t *testing.T, seen *atomic.Int64) netip.AddrPort {
	return endpoint(t, func(s *session) {
		for n := 1; ; n++ {
			r := s.request()
			if r == nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			seen.Add(1)
			if s.number == 1 && n == 2 {
				return
			}
			s.send(ok2)
		}
	})
}

// B32
func TestOnlyRequestsThatNginxCallsIdempotentAreRepeated(t *testing.T) {
	for _, c := range []struct {
		method, body string
		repeated     bool
	}{
		{"GET", "", true},
		{"HEAD", "", true},
		{"OPTIONS", "", true},
		{"GET", "body", true},
		{"PUT", "", true},
		{"PUT", "body", true},
		{"DELETE", "", true},
		{"POST", "", false},
		{"POST", "body", false},
		{"PATCH", "body", false},
		{"LOCK", "", false},
	} {
		t.Run(c.method+" "+c.body, func(t *testing.T) {
			var seen atomic.Int64
			f := front(t, 1, New(poolOf(t, dying(t, &seen)), quick))
			f.do(t, f.request(t, "POST", "/", nil))
			f.exchange(t)
			r := f.request(t, c.method, "/", strings.NewReader(c.body))
			r.Header.Set("Idempotency-Key", "x")
			got, e := f.do(t, r), f.exchange(t)
			if c.repeated {
				if got.StatusCode != 200 || seen.Load() != 3 || len(e.Attempts) != 2 || e.Attempts[1].Reused {
					t.Errorf("status %d, seen %d, attempts %+v; want 200 over a new connection", got.StatusCode, seen.Load(), e.Attempts)
				}
				return
			}
			if got.StatusCode != 502 || e.Reason != proxy.UpstreamReset || seen.Load() != 2 || len(e.Attempts) != 1 {
				t.Errorf("status %d, reason %q, seen %d, %d attempts; want 502, upstream_reset, seen once", got.StatusCode, e.Reason, seen.Load(), len(e.Attempts))
			}
		})
	}
}

func TestRetryStopsAfterFirstByte(t *testing.T) {
	var seen atomic.Int64
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		for s.request() != nil {
			if seen.Add(1) == 2 {
				s.send("HTTP")
				return
			}
			s.send(ok2)
		}
	})), quick))
	f.get(t, "/")
	f.exchange(t)
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 502 || e.Reason != proxy.UpstreamReset || seen.Load() != 2 {
		t.Errorf("status %d, reason %q, seen %d; want 502, upstream_reset, seen once", got.StatusCode, e.Reason, seen.Load())
	}
}

// TestConnectionThatWasClosedDoesNotCountAsATry: after it the endpoint is asked three times over new ones.
func TestConnectionThatWasClosedDoesNotCountAsATry(t *testing.T) {
	var seen atomic.Int64
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		for s.request() != nil {
			if seen.Add(1) > 1 {
				return
			}
			s.send(ok2)
		}
	})), quick))
	f.get(t, "/")
	f.exchange(t)
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 502 || seen.Load() != 5 || len(e.Attempts) != 4 {
		t.Errorf("status %d, seen %d, %d attempts; want 502 after four", got.StatusCode, seen.Load(), len(e.Attempts))
	}
}

// TestConnectionThatIsResetUnderAHarmlessRequestMovesOn has an endpoint take a new connection and reset it with the request
// read: a program that ends does so to connections that it never looked at.
func TestConnectionThatIsResetUnderAHarmlessRequestMovesOn(t *testing.T) {
	for _, c := range []struct {
		method, body string
		status       int
	}{
		{"GET", "", 200}, {"HEAD", "", 200}, {"PUT", "body", 200}, {"POST", "", 502}, {"PATCH", "body", 502},
	} {
		t.Run(c.method, func(t *testing.T) {
			resetting := endpoint(t, func(s *session) {
				s.head()
				s.reset()
			})
			f := front(t, 1, New(poolOf(t, resetting, endpoint(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))), quick))
			got, e := f.do(t, f.request(t, c.method, "/", strings.NewReader(c.body))), f.exchange(t)
			if got.StatusCode != c.status || e.Attempts[0].Reason != proxy.UpstreamReset || (len(e.Attempts) == 2) != (c.status == 200) {
				t.Errorf("status %d, attempts %+v; want %d", got.StatusCode, e.Attempts, c.status)
			}
		})
	}
}
