package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Target is a URL to ask and the endpoints that may answer it.
type Target struct {
	URL       string
	Endpoints []string // by name, as an [Echo] endpoint gives it; nil: any
	Put       bool     // bodies come with PUT, which may be repeated, instead of POST
}

// A Load is clients that ask one request after another until they are stopped: half of them over HTTP/1.1, half over
// HTTP/2, each on a kept-alive connection of its own and with cookies of its own, one request in five a POST with a body.
type Load struct {
	stop     chan struct{}
	done     sync.WaitGroup
	requests atomic.Int64
	posts    atomic.Int64
	answers  [3]atomic.Int64 // by the major version of HTTP
	cookies  atomic.Int64    // answers with one

	mu       sync.Mutex
	failures []string // the first few
	failed   int
}

// StartLoad starts clients that ask p for the targets in turn, each pausing between two requests.
func StartLoad(t testing.TB, p *Process, clients int, pause time.Duration, targets ...Target) *Load {
	t.Helper()
	l := &Load{stop: make(chan struct{})}
	for i := range clients {
		client := p.Client(func(transport *http.Transport) {
			transport.MaxConnsPerHost = 1
			if i%2 == 0 {
				transport.ForceAttemptHTTP2 = false
				transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
			}
		})
		client.Jar, _ = cookiejar.New(nil) // never fails
		l.done.Go(func() {
			defer client.CloseIdleConnections()
			l.ask(client, i, pause, targets)
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *Load) ask(client *http.Client, seed int, pause time.Duration, targets []Target) {
	for i := seed; ; i++ {
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
		}
		target := targets[i%len(targets)]
		if err := l.once(client, target, i%5 == 0); err != nil {
			l.fail(fmt.Sprintf("%s: %v", target.URL, err))
		}
		l.requests.Add(1)
	}
}

func (l *Load) once(client *http.Client, target Target, post bool) error {
	method, body := http.MethodGet, ""
	if post {
		method, body = http.MethodPost, strings.Repeat("some body ", 100)
		if target.Put {
			method = http.MethodPut
		}
	}
	request, err := http.NewRequest(method, target.URL, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if post {
		l.posts.Add(1)
	}
	l.answers[answer.ProtoMajor].Add(1)
	if answer.Header["Set-Cookie"] != nil {
		l.cookies.Add(1)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s, then %w", answer.Status, err)
	}
	endpoint := answer.Header.Get("X-Endpoint")
	right := endpoint != "" && (target.Endpoints == nil || slices.Contains(target.Endpoints, endpoint))
	if answer.StatusCode != http.StatusOK || !right {
		return fmt.Errorf("%s from endpoint %q, want 200 from one of %q: %.200s", answer.Status, endpoint, target.Endpoints, text)
	}
	return nil
}

func (l *Load) fail(failure string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed++; len(l.failures) < 5 {
		l.failures = append(l.failures, failure)
	}
}

// Requests is how many have been made so far.
func (l *Load) Requests() int64 { return l.requests.Load() }

// Posts is how many of them were a POST, Answers how many were answered by a major version of HTTP, and Cookies how many
// brought a cookie.
func (l *Load) Posts() int64            { return l.posts.Load() }
func (l *Load) Answers(major int) int64 { return l.answers[major].Load() }
func (l *Load) Cookies() int64          { return l.cookies.Load() }

// More waits until another n requests have been made.
func (l *Load) More(t testing.TB, n int64) {
	t.Helper()
	enough := l.requests.Load() + n
	Eventually(t, fmt.Sprintf("another %d requests have been made", n), func() error {
		if made := l.requests.Load(); made < enough {
			return fmt.Errorf("there are %d of %d", made, enough)
		}
		return nil
	})
}

func (l *Load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.done.Wait()
}

// Stop waits for the requests in flight and fails the test if any failed, or if there were fewer than atLeast.
func (l *Load) Stop(t testing.TB, atLeast int64) {
	t.Helper()
	l.end()
	t.Logf("%d requests, %d failed", l.requests.Load(), l.failed)
	if l.failed > 0 {
		t.Errorf("%d of %d requests failed, among them:\n%s", l.failed, l.requests.Load(), strings.Join(l.failures, "\n"))
	}
	if l.requests.Load() < atLeast {
		t.Errorf("only %d requests were made, want %d for the claim to mean something", l.requests.Load(), atLeast)
	}
}
