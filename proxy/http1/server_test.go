package http1

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve serves a handler on loopback until the test is over.
func serve(t testing.TB, s *Server) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// ask sends text on a connection of its own and returns all that comes back until the connection ends, or is silent.
func ask(t testing.TB, addr, text string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, text)
	c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %q %v %v", r.Method, r.RequestURI, body, err, r.Trailer)
}

func TestServer(t *testing.T) {
	addr := serve(t, &Server{Handler: http.HandlerFunc(echo)})
	for text, want := range map[string]string{
		"GET /a?b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":                                                                       "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 23\r\nConnection: close\r\n\r\nGET /a?b \"\" <nil> map[]",
		"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.0\r\n\r\n":                                                                       "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 21\r\n\r\nGET /a \"\" <nil> map[]HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 21\r\n\r\nGET /b \"\" <nil> map[]",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n": "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 28\r\nConnection: close\r\n\r\nPOST / \"ok\" <nil> map[X:[y]]",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nok":                          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 23\r\nConnection: close\r\n\r\nPOST / \"ok\" <nil> map[]",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                                                                    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nDate: D\r\nContent-Length: 12\r\nConnection: close\r\n\r\nBad Request\n",
	} {
		got := ask(t, addr, text)
		lines := strings.Split(got, "\r\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "Date: ") {
				lines[i] = "Date: D"
			}
		}
		if got = strings.Join(lines, "\r\n"); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func BenchmarkServer(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain"}
		w.Header()["Content-Length"] = []string{"12"}
		io.WriteString(w, "hello world\n")
	})
	b.Run("ours", func(b *testing.B) { benchmarkServer(b, serve(b, &Server{Handler: handler})) })
	b.Run("net/http", func(b *testing.B) {
		s := httptest.NewServer(handler)
		defer s.Close()
		benchmarkServer(b, s.Listener.Addr().String())
	})
}

func benchmarkServer(b *testing.B, addr string) {
	const request = "GET /a/b?c=d HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: text/html,application/xhtml+xml\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: session=0123456789abcdef\r\nX-Request-Id: 1\r\n\r\n"
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	buffer := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write([]byte(request)); err != nil {
			b.Fatal(err)
		}
		if n, err := in.Read(buffer); err != nil || string(buffer[9:12]) != "200" {
			b.Fatalf("answer %q, %v", buffer[:n], err)
		}
	}
}
