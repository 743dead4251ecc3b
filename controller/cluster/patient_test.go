package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// said is a log that can be waited for.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	wait chan struct{} // closed with the first word
	once sync.Once
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.once.Do(func() { close(s.wait) })
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestRequestsWaitWhileNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	log := &said{wait: make(chan struct{})}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: &patient{next: transport, log: slog.New(slog.NewTextHandler(log, nil))}}
	answered := make(chan string, 1)
	go func() {
		response, err := client.Get("http://" + address + "/api")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answered <- response.Status + " " + string(text)
	}()
	<-log.wait // it has been refused once
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "no")
	})}
	go server.Serve(l)
	defer server.Close()
	if got := <-answered; got != "403 Forbidden no" {
		t.Errorf("the request ended with %q, want what the API server says when it is there", got)
	}
	if text := log.String(); strings.Count(text, "cannot be reached") != 1 || strings.Count(text, "can be reached again") != 1 {
		t.Errorf("the log says\n%s\nwant a word when it was away and one when it was back", text)
	}
}

func TestWaitingRequestsEndWithTheirContext(t *testing.T) {
	log := &said{wait: make(chan struct{})}
	p := &patient{log: slog.New(slog.NewTextHandler(log, nil))}
	p.next = roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-log.wait
		cancel()
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.RoundTrip(request); !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v, want its context's end", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
