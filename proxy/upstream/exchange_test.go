package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
)

func TestNoEndpointsIs503(t *testing.T) {
	f := front(t, 1, New(poolOf(t), quick))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 503 || e.Reason != proxy.NoEndpoints || len(e.Attempts) != 0 {
		t.Errorf("status %d, reason %q, %d attempts; want 503, no_endpoints, none", got.StatusCode, e.Reason, len(e.Attempts))
	}
}

func TestQueryBytesAreUnchanged(t *testing.T) {
	heads := make(chan string, 1)
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		heads <- s.head()
		s.send(ok2)
	})), quick))
	const target = "/a%2fb/?b=2&a=%zz;c=d&&e"
	c, in := f.raw(t, "GET "+target+" HTTP/1.1\r\nHost: A.test:81\r\n\r\n")
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if head := <-heads; !strings.HasPrefix(head, "GET "+target+" HTTP/1.1\r\nHost: A.test:81\r\n") {
		t.Errorf("the endpoint got %q", head)
	}
}

func TestFieldsOfAConnectionEndHere(t *testing.T) {
	heads := make(chan string, 1)
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		heads <- s.head()
		s.send("HTTP/1.1 200 OK\r\nConnection: X-Own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\n" +
			"Upgrade: h2c\r\nServer: secret\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok")
	})), quick))
	r := f.request(t, "GET", "/", nil)
	for _, name := range []string{"Keep-Alive", "Proxy-Connection", "Upgrade", "HTTP2-Settings", "Proxy-Authorization"} {
		r.Header.Set(name, "x")
	}
	r.Header.Set("TE", "gzip;q=0.5, trailers")
	r.Header.Set("X-Kept", "1")
	got := f.do(t, r)
	head := strings.ToLower(<-heads)
	for _, name := range []string{"\nkeep-alive:", "\nproxy-connection:", "\nupgrade:", "\nhttp2-settings:", "\nproxy-authorization:", "\nconnection:", "gzip;q"} {
		if strings.Contains(head, name) {
			t.Errorf("the endpoint got %q in %q", name, head)
		}
	}
	for _, line := range []string{"\nte: trailers\r\n", "\nx-kept: 1\r\n"} {
		if !strings.Contains(head, line) {
			t.Errorf("the endpoint did not get %q in %q", line, head)
		}
	}
	for _, name := range []string{"X-Own", "Keep-Alive", "Proxy-Authenticate", "Upgrade", "Server", "Connection"} {
		if values, ok := got.Header[name]; ok {
			t.Errorf("the client got %s: %q", name, values)
		}
	}
	if date := got.Header["Date"]; len(date) != 1 || date[0] != "Mon, 02 Jan 2006 15:04:05 GMT" {
		t.Errorf("Date %q, want the endpoint's", date)
	}
	if cookies := got.Header["Set-Cookie"]; !slices.Equal(cookies, []string{"a=1", "b=2"}) {
		t.Errorf("Set-Cookie %q, want both, in order", cookies)
	}
}

func TestNoContentTypeIsInvented(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		f := front(t, version, New(poolOf(t, endpoint(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n<script>"))), quick))
		if got := f.get(t, "/"); got.Header["Content-Type"] != nil || got.text != "<script>" {
			t.Errorf("Content-Type %q, body %q; want none and the script", got.Header["Content-Type"], got.text)
		}
	})
}

func TestCompressionIsLeftAlone(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		if r := s.request(); r.Header.Get("Accept-Encoding") != "" {
			s.send("HTTP/1.1 500 invented Accept-Encoding\r\nContent-Length: 0\r\n\r\n")
			return
		}
		s.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip")
	})), quick))
	if got := f.get(t, "/"); got.StatusCode != 200 || got.text != "not gzip" || got.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("status %d, %q, Content-Encoding %q; want the bytes as sent", got.StatusCode, got.text, got.Header.Get("Content-Encoding"))
	}
}

func TestPiecesReachTheClientAtOnce(t *testing.T) {
	framings := map[string]func(string) string{
		"\r\n":                               func(s string) string { return s },
		"Transfer-Encoding: chunked\r\n\r\n": func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) },
		"Content-Length: 1000\r\n\r\n":       func(s string) string { return s },
	}
	for framing, piece := range framings {
		bothVersions(t, func(t *testing.T, version int) {
			next := make(chan string)
			f := front(t, version, New(poolOf(t, endpoint(t, func(s *session) {
				s.head()
				s.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + framing)
				for text := range next {
					s.send(piece(text))
				}
			})), Options{}))
			res, err := f.client.Do(f.request(t, "GET", "/", nil)) // the head comes before any piece
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i := range 3 {
				want := fmt.Sprintf("data: %d\n\n", i)
				next <- want
				got := make([]byte, len(want))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
					t.Fatalf("got %q, %v; want %q", got, err, want)
				}
			}
			close(next)
		})
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		sent := make(chan http.Header, 1)
		f := front(t, version, New(poolOf(t, endpoint(t, func(s *session) {
			r := s.request()
			io.Copy(io.Discard, r.Body)
			sent <- r.Trailer
			s.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Told, Set-Cookie\r\n\r\n2\r\nok\r\n0\r\n" +
				"X-Told: 1\r\nX-Untold: 2\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\n")
		})), quick))
		r := f.request(t, "POST", "/", io.MultiReader(strings.NewReader("body")))
		r.Trailer = http.Header{"X-Sum": {"7"}, "Authorization": nil}
		got := f.do(t, r)
		if trailer := <-sent; trailer.Get("X-Sum") != "7" || len(trailer) != 1 {
			t.Errorf("the endpoint got the trailer %v, want X-Sum alone", trailer)
		}
		if got.text != "ok" || got.Trailer.Get("X-Told") != "1" || got.Trailer.Get("X-Untold") != "2" || len(got.Trailer) != 2 {
			t.Errorf("the client got %q with the trailer %v, want X-Told and X-Untold", got.text, got.Trailer)
		}
		for _, name := range []string{"Set-Cookie", "X-Told"} {
			if got.Header.Get(name) != "" {
				t.Errorf("%s of the trailer became a header field", name)
			}
		}
	})
}

func TestEarlyHintsCarryOnlyLink(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		last := New(poolOf(t, endpoint(t, once("HTTP/1.1 103 X\r\nLink: </a>\r\nSet-Cookie: a=b\r\nConnection: x\r\n\r\n"+ok2))), quick)
		f := front(t, version, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Feature", "1")
			last.ServeHTTP(w, r)
		}))
		var hints []textproto.MIMEHeader
		r := f.request(t, "GET", "/", nil)
		r = r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, h)
				return nil
			},
		}))
		got := f.do(t, r)
		if len(hints) != 1 || len(hints[0]) != 1 || hints[0].Get("Link") != "</a>" {
			t.Errorf("hints %v, want Link alone", hints)
		}
		if got.Header.Get("X-Feature") != "1" || got.Header.Get("Link") != "" || got.text != "ok" {
			t.Errorf("final header %v, want X-Feature and no Link", got.Header)
		}
	})
}

// B10
func TestNoInterimAnswerForHTTP10(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, once("HTTP/1.1 103 X\r\nLink: </a>\r\n\r\n"+ok2))), quick))
	_, in := f.raw(t, "GET / HTTP/1.0\r\nHost: a\r\n\r\n")
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("the first line is %q, %v; want the final answer", line, err)
	}
}

// B20
func TestUnaskedAnswerReachesNobody(t *testing.T) {
	connections := make(chan int, 3)
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		connections <- s.number
		s.head()
		s.send(ok2 + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		s.hang()
	})), quick))
	for range 2 {
		if got := f.get(t, "/"); got.text != "ok" {
			t.Errorf("got %q, want ok", got.text)
		}
	}
	if len(connections) != 2 {
		t.Errorf("%d connections, want 2: the first is not good for another request", len(connections))
	}
}

func TestIdleConnectionThatSpokeIsNotReused(t *testing.T) {
	speak, spoke := make(chan bool), make(chan bool)
	addr := endpoint(t, func(s *session) {
		s.head()
		s.send(ok2)
		if s.number == 1 {
			<-speak
			s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			spoke <- true
		}
		s.hang()
	})
	pool := poolOf(t, addr)
	f := front(t, 1, New(pool, quick))
	f.get(t, "/")
	f.exchange(t)
	speak <- true
	<-spoke
	awaitUnquiet(t, pool.members()[0])
	if got, e := f.get(t, "/"), f.exchange(t); got.text != "ok" || e.Attempts[0].Reused {
		t.Errorf("got %q, reused %v; want ok over a new connection", got.text, e.Attempts[0].Reused)
	}
}

// awaitUnquiet waits until what the endpoint did has reached the idle connection.
func awaitUnquiet(t *testing.T, e *Endpoint) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.idle) != 1 {
		t.Fatalf("%d idle connections, want 1", len(e.idle))
	}
	deadline := time.Now().Add(5 * time.Second)
	for e.idle[0].quiet() {
		if time.Now().After(deadline) {
			t.Fatal("the connection is quiet after 5 s")
		}
	}
}

func TestConnectionsAreReused(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, answers(ok2))), quick))
	for i := range 5 {
		body := io.Reader(nil)
		if i > 2 {
			body = io.MultiReader(strings.NewReader("streamed")) // a connection is as good after an upload
		}
		f.do(t, f.request(t, "POST", "/", body))
		e := f.exchange(t)
		if a := e.Attempts[0]; a.Reused != (i > 0) || (a.Connect == 0) != a.Reused || a.Header <= 0 || a.Received != 2 {
			t.Errorf("request %d: attempt %+v", i, a)
		}
	}
}

func TestExpiredDeadlineDoesNotSpoilIdleConnection(t *testing.T) {
	pool := poolOf(t, endpoint(t, answers(ok2)))
	f := front(t, 1, New(pool, Options{ReadTimeout: 20 * time.Millisecond, SendTimeout: 20 * time.Millisecond}))
	f.get(t, "/")
	f.exchange(t)
	<-time.After(60 * time.Millisecond)
	if got, e := f.get(t, "/"), f.exchange(t); got.text != "ok" || !e.Attempts[0].Reused {
		t.Errorf("got %q, reused %v; want ok over the same connection", got.text, e.Attempts[0].Reused)
	}
}

func TestClientThatLeavesCancelsTheEndpoint(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		asked, gone := make(chan bool, 1), make(chan error, 1)
		f := front(t, version, New(poolOf(t, endpoint(t, func(s *session) {
			s.head()
			asked <- true
			_, err := s.in.ReadByte() // ends when the proxy hangs up
			gone <- err
		})), Options{}))
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-asked
			cancel()
		}()
		if res, err := f.client.Do(f.request(t, "GET", "/", nil).WithContext(ctx)); err == nil {
			res.Body.Close()
			t.Fatal("a cancelled request was answered")
		}
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			t.Fatal("the endpoint's connection is open after 5 s")
		}
		if e := f.exchange(t); e.Reason != proxy.ClientClosed || e.Attempts[0].Reason != proxy.ClientClosed {
			t.Errorf("reason %q, attempt %q; want client_closed", e.Reason, e.Attempts[0].Reason)
		}
	})
}

func TestTargetThatWouldSplitTheRequestIsRefused(t *testing.T) {
	asked := make(chan bool, 1)
	last := New(poolOf(t, endpoint(t, func(s *session) {
		if s.head() != "" {
			asked <- true
		}
	})), quick)
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.From(r).Target = "/ HTTP/1.1\r\nHost: evil\r\n\r\nGET /"
		last.ServeHTTP(w, r)
	}))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 400 || e.Reason != proxy.BadRequest || len(asked) != 0 {
		t.Errorf("status %d, reason %q; want 400, bad_request and nothing sent", got.StatusCode, e.Reason)
	}
}

func TestLengthOfNothingIsSaidWhereItIsExpected(t *testing.T) {
	for method, want := range map[string]bool{"POST": true, "PUT": true, "GET": false, "DELETE": false} {
		heads := make(chan string, 1)
		f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
			heads <- s.head()
			s.send(ok2)
		})), quick))
		f.do(t, f.request(t, method, "/", nil))
		if head := <-heads; strings.Contains(head, "Content-Length: 0\r\n") != want {
			t.Errorf("%s: Content-Length: 0 wanted %v, head %q", method, want, head)
		}
	}
}
