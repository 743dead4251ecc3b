package http1

import (
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// TestEndsBehindTheFirstRequestAreSeen: an end that comes in one packet with the request is told of once, with it.
func TestEndsBehindTheFirstRequestAreSeen(t *testing.T) {
	rested := make(chan bool, 10)
	s := &Server{Handler: http.HandlerFunc(echo)}
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			s.mu.Lock()
			defer s.mu.Unlock()
			rested <- s.dorm != nil
		}
	}
	addr := serve(t, s)
	for range 10 {
		c := dial(t, addr)
		s.open(t, 1)
		raw, err := c.Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1) })
		io.WriteString(c, simple)
		c.Conn.(*net.TCPConn).CloseWrite()
		c.hear(t, simpleEcho)
		if <-rested {
			t.Fatal("the connection went to rest before its end was seen")
		}
	}
}
