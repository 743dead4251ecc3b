package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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
