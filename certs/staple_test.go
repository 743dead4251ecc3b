package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

func TestHandshakesBringWhatTheAuthoritySays(t *testing.T) {
	ca := newAuthority(t)
	var life atomic.Int64
	life.Store(int64(time.Hour))
	var status, asked atomic.Int64
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		question, err := ocsp.ParseRequest(body)
		if err != nil || status.Load() != 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		text, err := ocsp.CreateResponse(ca.issuer, ca.issuer, ocsp.Response{
			Status: ocsp.Good, SerialNumber: question.SerialNumber, ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Duration(life.Load())),
		}, ca.key)
		if err != nil {
			t.Error(err)
		}
		w.Write(text)
	}))
	defer responder.Close()
	ca.ocsp = responder.URL
	parsed := func(cert, key []byte) *tls.Certificate {
		p, err := Parse(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pair := func(name string) *tls.Certificate {
		cert, key := ca.issue(t, name)
		return parsed(append(cert, ca.intermediate...), key)
	}
	stapler := &Stapler{Log: slog.New(slog.DiscardHandler)}
	store := Store{Stapler: stapler}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { stapler.Run(ctx) })
	defer running.Wait()
	defer cancel()
	address := listen(t, &store)
	set := func(p *tls.Certificate) {
		c := Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{p}}}}
		store.Set(c)
		stapler.Want(c)
	}
	eventually := func(what string, check func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !check(); {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain until %s", what)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	stapled := func() bool {
		text := handshake(t, address, "a.test").ConnectionState().OCSPResponse
		if len(text) == 0 {
			return false
		}
		answer, err := ocsp.ParseResponse(text, ca.issuer)
		return err == nil && answer.Status == ocsp.Good
	}
	set(pair("a.test"))
	eventually("a handshake brings the answer", stapled)
	before := asked.Load()
	set(store.now().ByHost["a.test"].Pairs[0]) // the same certificate
	if !stapled() || asked.Load() != before {
		t.Error("the answer was asked for twice, or was lost")
	}
	cert, key := ca.issue(t, "a.test")
	cert = append(cert, ca.intermediate...)
	set(parsed(cert, key))
	eventually("a handshake brings the answer about another certificate", stapled)
	before = asked.Load()
	set(parsed(cert, key)) // as when its Secret has got a label
	if !stapled() || asked.Load() != before {
		t.Error("the answer was lost when the certificate was read once more")
	}
	life.Store(-int64(time.Second))
	set(pair("a.test"))
	eventually("the server was asked about another certificate", func() bool { return asked.Load() > before })
	if stapled() {
		t.Error("an answer is stapled that is not valid any more")
	}
	before = asked.Load()
	status.Store(502)
	set(pair("a.test"))
	eventually("the server was asked that is away", func() bool { return asked.Load() > before })
	if stapled() {
		t.Error("something is stapled that nobody said")
	}
}

// TestServersThatDoNotAnswerKeepNobodyWaiting: certificates say whom to ask about them, and are anybody's.
func TestServersThatDoNotAnswerKeepNobodyWaiting(t *testing.T) {
	ca, others := newAuthority(t), newAuthority(t)
	var hanging atomic.Int64
	release := make(chan struct{})
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		question, err := ocsp.ParseRequest(body)
		if err != nil || r.URL.Path == "/never" {
			hanging.Add(1)
			select {
			case <-release:
			case <-r.Context().Done(): // it is waited for no longer
			}
			hanging.Add(-1)
			return
		}
		text, err := ocsp.CreateResponse(ca.issuer, ca.issuer, ocsp.Response{
			Status: ocsp.Good, SerialNumber: question.SerialNumber, ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour),
		}, ca.key)
		if err != nil {
			t.Error(err)
		}
		w.Write(text)
	}))
	defer responder.Close()
	defer close(release)
	ca.ocsp, others.ocsp = responder.URL, responder.URL+"/never"
	all := Certificates{ByHost: make(map[string]*Host)}
	add := func(a *authority, name string) *tls.Certificate {
		cert, key := a.issue(t, name)
		pair, err := Parse(append(cert, a.intermediate...), key)
		if err != nil {
			t.Fatal(err)
		}
		all.ByHost[name] = &Host{Pairs: []*tls.Certificate{pair}}
		return pair
	}
	const never = stapleAtOnce - 1
	for i := range never {
		add(others, fmt.Sprintf("n%d.test", i))
	}
	good := add(ca, "a.test")
	stapler := &Stapler{Log: slog.New(slog.DiscardHandler)}
	stapler.Want(all)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { stapler.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for deadline := time.Now().Add(20 * time.Second); stapler.of(good) == good; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no answer")
		}
	}
	if n := hanging.Load(); n == 0 {
		t.Error("the answer is shown when all others have been waited for")
	}
}

// TestThoseThatAnswerAreAskedFirst: of many due at a time those that were asked in vain come last.
func TestThoseThatAnswerAreAskedFirst(t *testing.T) {
	ca := newAuthority(t)
	var mu sync.Mutex
	asked := make(map[string]int)
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		question, err := ocsp.ParseRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		asked[question.SerialNumber.String()]++
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer responder.Close()
	ca.ocsp = responder.URL
	stapler := &Stapler{Log: slog.New(slog.DiscardHandler)}
	all := Certificates{ByHost: make(map[string]*Host)}
	add := func(name string) *tls.Certificate {
		cert, key := ca.issue(t, name)
		pair, err := Parse(append(cert, ca.intermediate...), key)
		if err != nil {
			t.Fatal(err)
		}
		all.ByHost[name] = &Host{Pairs: []*tls.Certificate{pair}}
		return pair
	}
	for i := range 2 * stapleBatch {
		add(fmt.Sprintf("n%d.test", i))
	}
	stapler.Want(all)
	stapler.fetchAll(t.Context())
	stapler.fetchAll(t.Context())
	if len(asked) != 2*stapleBatch {
		t.Fatalf("%d were asked about in two turns, want all %d", len(asked), 2*stapleBatch)
	}
	stapler.again = nil // their time has come
	var fresh []*tls.Certificate
	for i := range 16 {
		fresh = append(fresh, add(fmt.Sprintf("fresh%d.test", i)))
	}
	stapler.Want(all)
	stapler.fetchAll(t.Context())
	for _, pair := range fresh {
		if asked[pair.Leaf.SerialNumber.String()] != 1 {
			t.Error("one that was not asked about yet waits for those that were, in vain")
		}
	}
}
