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
	io.WriteString(tunnel, "GET /tunnel HTTP/1.1\r\nHost: a.test\r\n\r\n")
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
	for { // until the listener is closed
		c, err := net.Dial("tcp", plain)
		if err != nil {
			break
		}
		c.Close()
	}
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
	io.WriteString(tunnel, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
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

// TestShutdownLosesNoRequestOnOpenConnections opens connections, uses half of them, and asks over all of them when the
// listener has just closed: clients that know nothing of it are answered, and told to go elsewhere.
func TestShutdownLosesNoRequestOnOpenConnections(t *testing.T) {
	s := new(Server)
	plain, _ := front(t, s, ok)
	const request = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
	type client struct {
		net.Conn
		in *bufio.Reader
	}
	ask := func(c client) (*http.Response, error) {
		if _, err := io.WriteString(c, request); err != nil {
			return nil, err
		}
		answer, err := http.ReadResponse(c.in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		return answer, err
	}
	var clients []client
	for i := range 200 {
		connection, err := net.Dial("tcp", plain)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		connection.SetDeadline(time.Now().Add(10 * time.Second))
		c := client{connection, bufio.NewReader(connection)}
		clients = append(clients, c)
		if i%2 == 0 {
			if _, err := ask(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := ask(clients[len(clients)-1]); err != nil { // all have been accepted before this one was answered
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	for { // until the listener is closed
		c, err := net.Dial("tcp", plain)
		if err != nil {
			break
		}
		c.Close()
	}
	for i, c := range clients {
		if answer, err := ask(c); err != nil {
			t.Fatalf("client %d: %v", i, err)
		} else if answer.StatusCode != http.StatusOK || !answer.Close {
			t.Fatalf("client %d: %s, close %t; want 200 and close", i, answer.Status, answer.Close)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
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
				io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\n\r\n")
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
