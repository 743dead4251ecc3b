package upstream

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is one exchange from both of its ends.
type seen struct {
	Method, Target, Host, Body, Answer string
	Header, Trailer, Final, Last       http.Header
	Status                             int
}

// through sends a request through last and notes what both ends saw.
func through(t *testing.T, version int, requests <-chan seen, last http.Handler, method, body string) seen {
	f := front(t, version, last)
	var reader io.Reader
	if body != "" {
		reader = io.MultiReader(strings.NewReader(body))
	}
	r := f.request(t, method, "/a%2Fb//c?x=%20;y&z", reader)
	r.Host = "A.test:8080"
	r.Header = http.Header{"User-Agent": {"test"}, "Accept-Encoding": {"br"}, "X-Many": {"1", "2"}, "Te": {"trailers"},
		"Keep-Alive": {"x"}, "Cookie": {"a=b; c=d"}}
	got := f.do(t, r)
	if got.err != nil {
		t.Fatal(got.err)
	}
	s := <-requests
	s.Status, s.Final, s.Last, s.Answer = got.StatusCode, got.Header, got.Trailer, got.text
	return s
}

func TestOrdinaryExchangesAreAsWithReverseProxy(t *testing.T) {
	const fields = "Content-Type: text/plain\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nVary: x\r\nEtag: \"1\"\r\n"
	for name, answer := range map[string]string{
		"length":     "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: 2\r\n\r\nok",
		"chunked":    "HTTP/1.1 404 Not Found\r\n" + fields + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"trailer":    "HTTP/1.1 200 OK\r\n" + fields + "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n",
		"redirect":   "HTTP/1.1 302 Found\r\n" + fields + "Location: /x\r\nContent-Length: 0\r\n\r\n",
		"no content": "HTTP/1.1 204 No Content\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nX-A: b\r\n\r\n",
		"cached":     "HTTP/1.1 304 Not Modified\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nEtag: \"1\"\r\n\r\n",
	} {
		for _, body := range []string{"", strings.Repeat("body", 5000)} {
			t.Run(name, func(t *testing.T) {
				bothVersions(t, func(t *testing.T, version int) {
					requests := make(chan seen, 1)
					addr := endpoint(t, func(s *session) {
						for r := s.request(); r != nil; r = s.request() {
							b, _ := io.ReadAll(r.Body)
							requests <- seen{Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, Body: string(b), Trailer: r.Trailer}
							s.send(answer)
						}
					})
					method := "GET"
					if body != "" {
						method = "POST"
					}
					ours := through(t, version, requests, New(poolOf(t, addr), quick), method, body)
					theirs := through(t, version, requests, reverseProxy(t, addr), method, body)
					if name == "chunked" {
						// A short answer that came whole is not flushed, and net/http says its length instead.
						delete(ours.Final, "Content-Length")
					}
					if diff := cmp.Diff(theirs, ours); diff != "" {
						t.Errorf("httputil.ReverseProxy (-) and ours (+) differ:\n%s", diff)
					}
				})
			})
		}
	}
}

func reverseProxy(t *testing.T, addr netip.AddrPort) http.Handler {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addr.String()})
		r.Out.Host = r.In.Host
		r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = r.In.URL.Path, r.In.URL.RawPath, r.In.URL.RawQuery
	}}
}
