package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestShutdownWaitsForRequestsAndTunnels(t *testing.T) {
	s := new(Server)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tunnel" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			arrived <- struct{}{}
			io.Copy(c, c)
			return
		}
		arrived <- struct{}{}
		<-release
		io.WriteString(w, "whole")
	}))
	tunnel, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	io.WriteString(tunnel, "GET /tunnel HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	<-arrived
	answered := make(chan string, 1)
	go func() {
		answer, err := http.Get("http://" + plain + "/slow")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		answered <- fmt.Sprint(string(body), err)
	}()
	<-arrived

	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	untilRefused(plain)
	close(release)
	if got := <-answered; got != "whole<nil>" {
		t.Errorf("the request in flight ended with %q", got)
	}
	select {
	case <-ended:
		t.Error("Shutdown returned while a tunnel was open")
	default:
	}
	tunnel.Close()
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestShutdownCutsWhatIsLate(t *testing.T) {
	s := new(Server)
	arrived := make(chan struct{})
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	failed := make(chan error, 1)
	go func() {
		_, err := http.Get("http://" + plain + "/")
		failed <- err
	}()
	<-arrived
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "cut 1 requests and 0 tunnels") {
		t.Errorf("Shutdown: %v, want it to say that one request was cut", err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

func TestDrainClosesConnectionsAfterTheirAnswer(t *testing.T) {
	s := new(Server)
	plain, _ := front(t, s, ok)
	if answer, _ := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); answer.Close {
		t.Error("the connection is closed before Drain")
	}
	s.Drain()
	if answer, _ := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); !answer.Close || answer.StatusCode != 200 {
		t.Errorf("after Drain: %s, close %t; want 200 and close", answer.Status, answer.Close)
	}
}

// TestServeAfterShutdownTakesNothing: a process that is told to end while it starts must end.
func TestServeAfterShutdownTakesNothing(t *testing.T) {
	s := new(Server)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener still takes connections")
	}
}

func TestEveryShutdownWaitsForTunnels(t *testing.T) {
	s := new(Server)
	arrived := make(chan struct{})
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		close(arrived)
		io.Copy(c, c)
	}))
	tunnel, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	io.WriteString(tunnel, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	<-arrived
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- s.Shutdown(ctx) }()
	}
	said := fmt.Sprint(<-ended, " and ", <-ended) // the one that cuts says so
	if !strings.Contains(said, "cut 0 requests and 1 tunnels") {
		t.Errorf("Shutdown twice: %s; want one of them to say that a tunnel was cut", said)
	}
}

// A keeper is a client that keeps its connection of HTTP/1 open.
type keeper struct {
	net.Conn
	in *bufio.Reader
}

func (k keeper) send() { io.WriteString(k, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n") }

// answer reads an answer and reports its status, with " close" where it is the last of its connection.
func (k keeper) answer() string {
	answer, err := http.ReadResponse(k.in, nil)
	if err != nil {
		return err.Error()
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err.Error()
	}
	if answer.Close {
		return fmt.Sprint(answer.StatusCode, " close")
	}
	return fmt.Sprint(answer.StatusCode)
}

// keep opens n connections and asks over every other one. When it returns, the server has taken all of them.
func keep(t *testing.T, addr string, n int) []keeper {
	t.Helper()
	var keepers []keeper
	for i := range n {
		connection, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		connection.SetDeadline(time.Now().Add(10 * time.Second))
		k := keeper{connection, bufio.NewReader(connection)}
		keepers = append(keepers, k)
		if i%2 == 0 || i == n-1 { // all have been taken before the last is answered
			k.send()
			if got := k.answer(); got != "200" {
				t.Fatalf("client %d before the end: %s", i, got)
			}
		}
	}
	return keepers
}

// untilRefused returns when nobody listens at addr.
func untilRefused(addr string) {
	for {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close()
	}
}

// TestShutdownLosesNoRequestOnOpenConnections opens connections, uses half of them, and asks over all of them when the
// listener has just closed: clients that know nothing of it are answered, and told to go elsewhere, however long ago Drain
// was called.
func TestShutdownLosesNoRequestOnOpenConnections(t *testing.T) {
	for name, drained := range map[string]time.Duration{"at once": 0, "after a drain": lastRequest + lastRequest/10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(Server)
			plain, secure := front(t, s, ok)
			keepers := keep(t, plain, 300)
			var wires []wire
			for range 20 {
				w := dialHTTP2(t, secure)
				wires = append(wires, w)
				w.get(1)
				if got := w.outcome(); got != "200" {
					t.Fatalf("a client of HTTP/2 before the end: %s", got)
				}
			}
			if drained > 0 {
				s.Drain()
				<-time.After(drained)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Shutdown(context.Background()) }()
			untilRefused(plain)
			untilRefused(secure)
			for _, k := range keepers {
				k.send()
			}
			for _, w := range wires {
				w.get(3)
			}
			for i, k := range keepers {
				if got := k.answer(); got != "200 close" {
					t.Fatalf("client %d: %s; want 200 close", i, got)
				}
			}
			for i, w := range wires {
				if status, code := w.last(); status != "200" || code != "0" {
					t.Fatalf("client %d of HTTP/2: status %s, GOAWAY with error %s; want 200 and no error", i, status, code)
				}
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// slowly is an observer that takes its time.
type slowly struct{ told atomic.Int64 }

func (o *slowly) Observe(*Exchange) {
	<-time.After(50 * time.Millisecond)
	o.told.Add(1)
}

// TestShutdownReturnsWhenEverythingIsTold ends a tunnel by itself, and cuts another and a request: each is told to the
// observer before Shutdown returns.
func TestShutdownReturnsWhenEverythingIsTold(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %t", cut), func(t *testing.T) {
			o := new(slowly)
			s := &Server{Observer: o}
			arrived := make(chan struct{}, 2)
			plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					arrived <- struct{}{}
					<-r.Context().Done()
					return
				}
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				arrived <- struct{}{}
				io.Copy(io.Discard, c)
			}))
			paths := []string{"/tunnel"}
			if cut {
				paths = append(paths, "/slow")
			}
			var connections []net.Conn
			for _, path := range paths {
				c, err := net.Dial("tcp", plain)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				connections = append(connections, c)
				<-arrived
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if cut {
				cancel()
			} else {
				connections[0].Close()
			}
			if err := s.Shutdown(ctx); (err != nil) != cut {
				t.Errorf("Shutdown: %v", err)
			}
			if told := o.told.Load(); told != int64(len(paths)) {
				t.Errorf("%d of %d exchanges were told when Shutdown returned", told, len(paths))
			}
		})
	}
}

// TestAnswersWhileDrainingAreTheLast: those too whose requests came before.
func TestAnswersWhileDrainingAreTheLast(t *testing.T) {
	s := new(Server)
	goOn := make(chan bool)
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goOn <- true
		<-goOn
		io.WriteString(w, "ok")
	}))
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	<-goOn
	s.Drain()
	goOn <- true
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || !res.Close {
		t.Errorf("%v, %v; want an answer that is the last", res, err)
	}
}
