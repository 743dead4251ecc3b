package http1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// rested waits until n connections are at rest.
func (s *Server) rested(t testing.TB, n int) {
	t.Helper()
	eventually(t, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.resting) == n {
			return ""
		}
		return fmt.Sprintf("%d connections rest, want %d", len(s.resting), n)
	})
}

func (s *Server) open(t testing.TB, n int) {
	t.Helper()
	eventually(t, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.conns) == n {
			return ""
		}
		return fmt.Sprintf("%d connections are open, want %d", len(s.conns), n)
	})
}

func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); wrong() != ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(wrong())
		}
	}
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{c, bufio.NewReader(c)}
}

func (c *client) ask(t testing.TB, request, want string) {
	t.Helper()
	io.WriteString(c, request)
	c.hear(t, want)
}

func (c *client) hear(t testing.TB, want string) {
	t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != want || err != nil {
		t.Errorf("answer %q, %v; want %q", body, err, want)
	}
}

const simple, simpleEcho = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", `GET /a "" <nil> map[]`

func TestConnectionsAtRestWake(t *testing.T) {
	s := &Server{Handler: http.HandlerFunc(echo)}
	addr := serve(t, s)
	var conns []*client
	for range 3 {
		conns = append(conns, dial(t, addr))
	}
	for range 2 {
		for _, c := range conns {
			c.ask(t, simple, simpleEcho)
		}
		s.rested(t, len(conns))
	}
	// In pieces, with a body, and one behind the other.
	io.WriteString(conns[0], "POST /b HTTP/1.1\r\nHost: a\r\nContent-Le")
	s.rested(t, 2)
	conns[0].ask(t, "ngth: 2\r\n\r\nok", `POST /b "ok" <nil> map[]`)
	conns[1].ask(t, simple+simple, simpleEcho)
	conns[1].hear(t, simpleEcho)
	conns[2].Close()
	s.open(t, 2)
	s.rested(t, 2)
}

func TestConnectionsAtRestEnd(t *testing.T) {
	for name, end := range map[string]func(*Server){
		"their time":   func(s *Server) { s.SetPatience(Patience{Idle: time.Millisecond}) },
		"a close":      func(s *Server) { s.Close() },
		"a shutdown":   func(s *Server) { s.Shutdown(context.Background()) },
		"a long drain": func(s *Server) { s.Drain(); s.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Server{Handler: http.HandlerFunc(echo)}
			c := dial(t, serve(t, s))
			c.ask(t, simple, simpleEcho)
			s.rested(t, 1)
			end(s)
			if b, err := c.in.ReadByte(); err != io.EOF {
				t.Errorf("read %q, %v; want the end", b, err)
			}
			s.open(t, 0)
		})
	}
}

// TestConnectionsAtRestHoldLittle is generous: `make bench-memory` has the figures.
func TestConnectionsAtRestHoldLittle(t *testing.T) {
	const n = 500
	s := &Server{Handler: http.HandlerFunc(echo)}
	addr := serve(t, s)
	dial(t, addr).ask(t, simple, simpleEcho)
	held := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	conns := make([]net.Conn, n)
	in := bufio.NewReader(nil)
	for i := range conns {
		var err error
		if conns[i], err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
	}
	before, goroutines := held(), runtime.NumGoroutine()
	for _, c := range conns {
		in.Reset(c)
		(&client{c, in}).ask(t, simple, simpleEcho)
	}
	s.rested(t, n+1)
	if more := (held() - before) / n; more > 2000 {
		t.Errorf("a connection at rest holds %d bytes more than one that has said nothing, want less", more)
	}
	if now := runtime.NumGoroutine(); now > goroutines-n/2 {
		t.Errorf("%d goroutines, after %d: connections at rest have some", now, goroutines)
	}
	for _, c := range conns {
		c.Close()
	}
}

// timed is a connection that notes its read deadline.
type timed struct {
	net.Conn
	deadline time.Time
}

func (c *timed) SetReadDeadline(t time.Time) error {
	runtime.Gosched()
	c.deadline = t
	return nil
}

// TestNudgesLeaveNoDeadline: a connection that a request comes on just when it is nudged must not be left with a deadline that
// has passed and that nobody knows to be a nudge: its next read would fail.
func TestNudgesLeaveNoDeadline(t *testing.T) {
	at := &timed{}
	c := &conn{server: &Server{}, net: at}
	for range 10_000 {
		done := make(chan bool)
		go func() {
			c.nudge()
			done <- true
		}()
		for !c.unnudge() {
			runtime.Gosched()
		}
		<-done
		if !at.deadline.IsZero() {
			t.Fatalf("the deadline is %v, want none", at.deadline)
		}
	}
}
