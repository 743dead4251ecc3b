package upstream

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// BenchmarkForward is one small GET over kept connections, through a real server to a raw endpoint, all on loopback; the
// client is as raw as the endpoint, so that what is measured is the proxy and net/http's server in front of it.
func BenchmarkForward(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		benchmark(b, func(addr string, pool *Pool) http.Handler { return New(pool, Options{}) })
	})
	b.Run("httputil", func(b *testing.B) {
		benchmark(b, func(addr string, _ *Pool) http.Handler {
			target := &url.URL{Scheme: "http", Host: addr}
			transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
			b.Cleanup(transport.CloseIdleConnections)
			return &httputil.ReverseProxy{
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
				Transport: transport,
			}
		})
	})
}

func benchmark(b *testing.B, handler func(string, *Pool) http.Handler) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nX-A: b\r\nContent-Length: 12\r\n\r\nhello world\n"
	const request = "GET /a/b?c=d HTTP/1.1\r\nHost: a.test\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Request-Id: 1\r\n\r\n"
	addr := endpoint(b, func(s *session) {
		buffer := make([]byte, 4096)
		for {
			if n, err := s.Read(buffer); err != nil || n == 0 {
				return
			}
			s.send(answer)
		}
	})
	f := &frontdoor{Server: httptest.NewServer(handler(addr.String(), poolOf(b, addr)))}
	b.Cleanup(f.Close)
	c, in := f.raw(b, "")
	c.SetDeadline(time.Time{})
	buffer := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write([]byte(request)); err != nil {
			b.Fatal(err)
		}
		if n, err := in.Read(buffer); err != nil || n < len("HTTP/1.1 200") || string(buffer[9:12]) != "200" {
			b.Fatalf("answer %q, %v", buffer[:n], err)
		}
	}
}
