package http1

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestLastAnswersArriveWhole: a socket that is closed with bytes unread is reset, and what the kernel still holds of the answer
// is lost. So it must not be closed while the client may have sent more than its request.
func TestLastAnswersArriveWhole(t *testing.T) {
	const size = 128 << 10 // more than the client's side takes, less than ours does
	answered := make(chan bool, 1)
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(NetConnKey{}).(net.Conn).(*net.TCPConn).SetWriteBuffer(1 << 20)
		w.Header().Set("Content-Length", fmt.Sprint(size))
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		w.Write(make([]byte, size))
		answered <- true
	})}
	addr := serve(t, s)
	for name, request := range map[string]string{
		"the client ends it": "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"HTTP/1.0":           "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		"the server ends it": "GET /close HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		c := dial(t, addr)
		c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		io.WriteString(c, request+strings.Repeat(simple, 1000))
		<-answered
		eventually(t, func() string { // the connection is being ended, or is
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				if p, _ := c.inState(); p != phaseEnd {
					return "the answer was not written"
				}
			}
			return ""
		})
		res, err := http.ReadResponse(c.in, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
			t.Errorf("%s: read %d bytes, %v; want %d", name, n, err, size)
		}
		c.Close()
		s.open(t, 0)
	}
}
