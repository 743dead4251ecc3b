package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/router"
)

// What a handshake has met is told to whoever decides whether a request may come over its connection, in every protocol.
func TestRequestsForAHostOfAnotherPolicyAreMisdirected(t *testing.T) {
	base := &tls.Config{Certificates: []tls.Certificate{*newPair(t)}, NextProtos: Protocols()}
	reached := make(chan string, 10)
	s := &Server{
		Log: slog.New(slog.DiscardHandler),
		Handshake: func(hello *tls.ClientHelloInfo) (*tls.Config, any, error) {
			return base, hello.ServerName == "closed.test", nil
		},
		Admits: func(met any, host string) bool { return met.(bool) == (host == "closed.test") },
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached <- r.Host; io.WriteString(w, "reached") })
	s.SetTable(router.New([]router.Route{{Match: router.Match{Path: "/"}, Source: "default/web", Handler: handler}}, nil))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	cases := []struct {
		server, host string
		want         int
	}{
		{"open.test", "open.test", 200}, {"open.test", "closed.test", 421}, {"open.test", "CLOSED.test.:443", 421}, {"", "closed.test", 421},
		{"closed.test", "closed.test", 200}, {"closed.test", "open.test", 421}, {"closed.test", "other.test", 421},
	}
	for _, protocol := range []string{"http/1.1", "h2"} {
		for _, c := range cases {
			conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{ServerName: c.server, InsecureSkipVerify: true, NextProtos: []string{protocol}})
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			request, err := http.NewRequest("POST", "https://"+c.host+"/", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			var answer *http.Response
			if protocol == "h2" {
				transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, ForceAttemptHTTP2: true}
				answer, err = transport.RoundTrip(request)
			} else {
				request.Write(conn)
				answer, err = http.ReadResponse(bufio.NewReader(conn), request)
			}
			if err != nil {
				t.Fatalf("%s: handshake for %q, request for %q: %v", protocol, c.server, c.host, err)
			}
			io.Copy(io.Discard, answer.Body)
			if answer.StatusCode != c.want {
				t.Errorf("%s: handshake for %q, request for %q: status %d, want %d", protocol, c.server, c.host, answer.StatusCode, c.want)
			}
			if want := protocol == "h2"; (answer.ProtoMajor == 2) != want {
				t.Errorf("%s: answered in %s", protocol, answer.Proto)
			}
			if c.want == 200 {
				<-reached
			}
			conn.Close()
		}
	}
	if len(reached) > 0 {
		t.Errorf("a misdirected request reached the route, for %q", <-reached)
	}
}

// TestAPanicCostsOneHandshake: whoever chooses how to shake hands runs on a goroutine that nobody else catches.
func TestAPanicCostsOneHandshake(t *testing.T) {
	base := &tls.Config{Certificates: []tls.Certificate{*newPair(t)}, NextProtos: Protocols()}
	s := &Server{MaxConnections: 1, Handshake: func(hello *tls.ClientHelloInfo) (*tls.Config, any, error) {
		if hello.ServerName == "boom.test" {
			panic("a fault of ours")
		}
		return base, nil, nil
	}}
	_, secure := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for range 3 { // each gives its place among the connections back
		c, err := tls.Dial("tcp", secure, &tls.Config{ServerName: "boom.test", InsecureSkipVerify: true})
		if err == nil {
			c.Close()
			t.Fatal("hands were shaken")
		}
		for deadline := time.Now().Add(10 * time.Second); s.crowd.open.Load() > 0; <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the connection still counts")
			}
		}
	}
	c, err := tls.Dial("tcp", secure, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
