package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// TestContinueIsSaidOnceAndBeforeWhatFollows has an endpoint send 100 and 103 in one breath: both go to the client whole, in
// that order, whoever reads the body meanwhile.
func TestContinueIsSaidOnceAndBeforeWhatFollows(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			s.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
			io.Copy(io.Discard, r.Body)
			s.send(ok2)
		}
	})), Options{}))
	const want = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"
	for range 100 {
		_, in := f.raw(t, "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
		got, err := io.ReadAll(in)
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Fatalf("the client got %q, %v; want it to begin with %q", got, err, want)
		}
		f.exchange(t)
	}
}

// An endpoint that knows nothing of Expect gets the body after a while, and the client its 100.
func TestContinueIsSaidWhenTheEndpointSaysNothing(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.head()
		if body, _ := io.ReadAll(io.LimitReader(s.in, 5)); string(body) == "hello" {
			s.send(ok2)
		}
	})), quick))
	c, in := f.raw(t, "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
	if line, err := in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("the client got %q, %v; want 100", line, err)
	}
	io.WriteString(c, "hello")
	if got, err := io.ReadAll(in); !strings.HasPrefix(string(got), "\r\nHTTP/1.1 200 OK\r\n") {
		t.Errorf("then it got %q, %v; want 200", got, err)
	}
}

// The endpoint refuses without having asked for the body, and takes its time with the page: it is not the time for an
// endpoint to say 100 that counts then.
func TestRefusalOfABodyMayTakeItsTime(t *testing.T) {
	options := quick
	options.ContinueTimeout, options.ReadTimeout = 50*time.Millisecond, 10*time.Second
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.head()
		s.send("HTTP/1.1 401 No\r\nContent-Length: 10\r\n\r\nhello")
		<-time.After(4 * options.ContinueTimeout)
		s.send("world")
	})), options))
	_, in := f.raw(t, "POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); res.StatusCode != 401 || string(body) != "helloworld" || err != nil {
		t.Errorf("%s with %q, %v; want 401 with the whole page", res.Status, body, err)
	}
}

// TestTrailersThatWereNotAnnouncedStay: what may not stand in a header for an endpoint may not come behind a body either.
func TestTrailersThatWereNotAnnouncedStay(t *testing.T) {
	got := make(chan http.Header, 1)
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		r := s.request()
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer
		s.send(ok2)
	})), Options{}))
	const forged = "Ssl-Client-Verify: SUCCESS\r\nX-Auth-Request-User: admin\r\nX-Scheme: https\r\nX-Real-Ip: 192.0.2.1\r\n" +
		"X_Real_IP: 192.0.2.1\r\nX.Real.IP: 192.0.2.1\r\nX-Request-Id: mine\r\nX-Original-Url: /admin\r\nX-Named: 1\r\nProxy: x\r\n"
	var names []string
	for line := range strings.SplitSeq(strings.TrimSpace(forged), "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	for what, announced := range map[string]string{
		"announced":     "X-Sum, " + strings.Join(names, ", "),
		"not announced": "X-Sum",
	} {
		f.raw(t, "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close, X-Named\r\nTransfer-Encoding: chunked\r\nTrailer: "+announced+
			"\r\n\r\n3\r\none\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n"+forged+"\r\n")
		trailer := <-got
		if trailer.Get("X-Sum") != "1" || len(trailer) != 1 {
			t.Errorf("%s: the endpoint got the trailer %v, want X-Sum alone", what, trailer)
		}
		f.exchange(t)
	}
}

func TestTrickledHeadIs504(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.head()
		s.send("HTTP/1.1 200 OK\r\n")
		for {
			select {
			case <-time.After(quick.ReadTimeout / 4):
				if _, err := io.WriteString(s.Conn, "X-More: 1\r\n"); err != nil {
					return
				}
			case <-s.done:
				return
			}
		}
	})), quick))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 504 || e.Reason != proxy.HeaderTimeout {
		t.Errorf("status %d, reason %q; want 504, header_timeout", got.StatusCode, e.Reason)
	}
}

func TestInterimAnswersWithoutEndAre502(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.head()
		for {
			if _, err := io.WriteString(s.Conn, "HTTP/1.1 102 Processing\r\n\r\n"); err != nil {
				return
			}
		}
	})), Options{}))
	_, in := f.raw(t, "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n") // which is not told of them
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := f.exchange(t); res.StatusCode != 502 || e.Reason != proxy.UpstreamInvalid {
		t.Errorf("status %d, reason %q; want 502, upstream_invalid", res.StatusCode, e.Reason)
	}
}

func TestRequestWithoutAHostHasTheEndpointsAddress(t *testing.T) {
	heads := make(chan string, 1)
	addr := endpoint(t, func(s *session) {
		heads <- s.head()
		s.send(ok2)
	})
	f := front(t, 1, New(poolOf(t, addr), Options{}))
	f.raw(t, "GET / HTTP/1.0\r\n\r\n")
	if head := <-heads; !strings.HasPrefix(head, fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\n", addr)) {
		t.Errorf("the endpoint got %q, want its address as the host", head)
	}
}

// A Service without endpoints must not have a body read for it: an endpoint that appears right after would get the request
// without.
func TestBodyIsNotReadForAServiceWithoutEndpoints(t *testing.T) {
	pool := poolOf(t)
	late := endpoint(t, answers(ok2))
	last := New(pool, Options{})
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			pool.Set(append(pool.Endpoints(), late))
			return 0, io.EOF
		}))
		last.ServeHTTP(w, r)
	}))
	got, e := f.do(t, f.request(t, "POST", "/", strings.NewReader("hello"))), f.exchange(t)
	if got.StatusCode != 503 || e.Reason != proxy.NoEndpoints || pool.Len() != 0 {
		t.Errorf("status %d, reason %q, %d endpoints; want 503, no_endpoints, and the body unread", got.StatusCode, e.Reason, pool.Len())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestTunnelWithoutLimitStays sets a limit for answers that a tunnel outlives, and none for tunnels.
func TestTunnelWithoutLimitStays(t *testing.T) {
	options := quick
	options.TunnelTimeout = -1
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.head()
		<-time.After(quick.ReadTimeout / 4) // so that the deadline for an answer has been set
		s.send(accepted)
		<-time.After(2 * quick.ReadTimeout)
		s.send("hello")
	})), options))
	_, in := f.raw(t, handshake)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(in).ReadString('o'); res.StatusCode != 101 || got != "hello" {
		t.Errorf("%s, then %q, %v; want 101, then hello", res.Status, got, err)
	}
}

func TestEightInterimAnswersAreRelayed(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, answers(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 9)+ok2))), Options{}))
	_, in := f.raw(t, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(in)
	if n := strings.Count(string(all), "HTTP/1.1 102 "); n != http1.MaxInterim || !strings.Contains(string(all), "HTTP/1.1 502 ") {
		t.Errorf("%d interim answers, %v; want %d and then 502:\n%s", n, err, http1.MaxInterim, all)
	}
}
