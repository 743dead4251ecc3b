package upstream

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"sallyport/proxy"
)

// pages take the place of answers with a status of 400 or more.
type pages struct {
	asked  chan int
	header chan http.Header // of the answer when they are asked to serve
}

func (p *pages) Takes(status int, endpoints bool) bool { return status >= 400 }

func (p *pages) Serve(w http.ResponseWriter, r *http.Request, status int) {
	p.asked <- status
	p.header <- w.Header().Clone()
	if proxy.From(r).ErrorPages != nil {
		panic("the pages would replace themselves")
	}
	w.WriteHeader(299)
	io.WriteString(w, "page")
}

// paged is a front whose exchanges have pages.
func paged(t *testing.T, version int, last http.Handler) (*frontdoor, *pages) {
	p := &pages{make(chan int, 9), make(chan http.Header, 9)}
	return front(t, version, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.From(r).ErrorPages = p
		last.ServeHTTP(w, r)
	})), p
}

func TestPagesReplaceAnswersOfEndpoints(t *testing.T) {
	const fields = "Content-Type: text/x\r\nSet-Cookie: a=b\r\nX-Lost: 1\r\n"
	for name, c := range map[string]struct {
		answer string
		reused bool
	}{
		"small":       {"HTTP/1.1 404 X\r\n" + fields + "Content-Length: 4\r\n\r\nlost", true},
		"chunked":     {"HTTP/1.1 500 X\r\n" + fields + "Transfer-Encoding: chunked\r\n\r\n4\r\nlost\r\n0\r\n\r\n", true},
		"large":       {"HTTP/1.1 503 X\r\n" + fields + "Content-Length: 1000000\r\n\r\nlost", false},
		"until close": {"HTTP/1.1 404 X\r\n" + fields + "\r\nlost", false},
		"stalled":     {"HTTP/1.1 404 X\r\n" + fields + "Content-Length: 5\r\n\r\nlost", false},
	} {
		t.Run(name, func(t *testing.T) {
			bothVersions(t, func(t *testing.T, version int) {
				f, p := paged(t, version, New(poolOf(t, endpoint(t, answers(c.answer))), quick))
				for i := range 2 {
					got, e := f.get(t, "/"), f.exchange(t)
					if got.StatusCode != 299 || got.text != "page" || got.Header.Get("X-Lost") != "" || got.Header.Get("Set-Cookie") != "" {
						t.Errorf("status %d, %q, header %v; want the page alone", got.StatusCode, got.text, got.Header)
					}
					if status := <-p.asked; status != e.Attempts[0].Status || e.Reason != "" {
						t.Errorf("the page is for %d, reason %q; want the endpoint's %d", status, e.Reason, e.Attempts[0].Status)
					}
					if header := <-p.header; len(header) != 0 {
						t.Errorf("the header holds %v already", header)
					}
					if e.Attempts[0].Reused != (c.reused && i > 0) {
						t.Errorf("request %d: reused %v, want %v", i, e.Attempts[0].Reused, c.reused)
					}
				}
			})
		})
	}
}

func TestPagesReplaceAnswersOfTheProxy(t *testing.T) {
	f, p := paged(t, 1, New(poolOf(t, refused(t)), quick))
	got, e := f.get(t, "/"), f.exchange(t)
	if status := <-p.asked; got.text != "page" || status != 502 || e.Reason != proxy.ConnectRefused {
		t.Errorf("%q for %d, reason %q; want the page for 502, connect_refused", got.text, status, e.Reason)
	}
}

func TestPagesLeaveOtherAnswersAlone(t *testing.T) {
	f, p := paged(t, 1, New(poolOf(t, endpoint(t, answers(ok2))), quick))
	if got := f.get(t, "/"); got.text != "ok" || len(p.asked) != 0 {
		t.Errorf("%q, asked %d times; want ok and never", got.text, len(p.asked))
	}
}

func TestPagesComeAfterTheLastTry(t *testing.T) {
	f, p := paged(t, 1, New(poolOf(t, endpoint(t, answers(answer5xx(503)))), retrying(RetryOn503, 0)))
	got, e := f.get(t, "/"), f.exchange(t)
	if got.text != "page" || len(e.Attempts) != 3 || len(p.asked) != 1 {
		t.Errorf("%q after %d attempts, asked %d times; want the page once, after 3", got.text, len(e.Attempts), len(p.asked))
	}
}

// TestPageForAnUploadThatWasCutShort: the client has not sent all of its body when the endpoint answers.
func TestPageForAnUploadThatWasCutShort(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		f, _ := paged(t, version, New(poolOf(t, endpoint(t, stall("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n"))), Options{}))
		in, out := io.Pipe()
		defer out.Close()
		go io.WriteString(out, strings.Repeat("x", 100))
		if got := f.do(t, f.request(t, "POST", "/", in)); got.text != "page" || got.Close != (version == 1) {
			t.Errorf("status %d, %q, close %v; want the page, and the end of an HTTP/1 connection", got.StatusCode, got.text, got.Close)
		}
	})
}

// samePages are served by the endpoints whose answers they replace.
type samePages struct{ transport *Transport }

func (samePages) Takes(status int, _ bool) bool { return status == 404 }

func (p samePages) Serve(w http.ResponseWriter, r *http.Request, _ int) {
	proxy.From(r).UpstreamTarget = "/page"
	p.transport.ServeHTTP(w, r)
}

func TestPageComesFromTheEndpointThatGaveTheAnswer(t *testing.T) {
	last := New(poolOf(t, endpoint(t, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			if r.URL.Path == "/page" {
				s.send(ok2)
			} else {
				s.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			}
		}
	})), quick)
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.From(r).ErrorPages = samePages{last}
		last.ServeHTTP(w, r)
	}))
	if got, e := f.get(t, "/"), f.exchange(t); got.text != "ok" || len(e.Attempts) != 2 {
		t.Errorf("status %d, %q, reason %q, attempts %+v; want the page", got.StatusCode, got.text, e.Reason, e.Attempts)
	}
}
