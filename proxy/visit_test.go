package proxy

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestNothingOfARequestIsLeftForTheNext sends one connection's requests to a handler that leaves all it can in the exchange
// and in the request of every second one, and compares what the others find.
func TestNothingOfARequestIsLeftForTheNext(t *testing.T) {
	type key struct{}
	const usual, another = "GET /usual HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET /another HTTP/1.1\r\nHost: b.test\r\nX-Forwarded-For: 192.0.2.1\r\nX-Own: 1\r\n\r\n"
	found := make(chan Exchange, 1)
	var kept *http.Request
	plain, secure := front(t, new(Server), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := From(r)
		if r.Context().Value(key{}) != nil || r.Form != nil || r.Pattern != "" || r.Header.Get("X-Own") != "" && e.Path == "/usual" {
			t.Error("something of the last request is in this one")
		}
		if e.Path == "/usual" {
			found <- *e
			return
		}
		e.UpstreamTarget, e.UpstreamHost, e.Cookie, e.ClientVerify, e.Reason = "/x", "x.test", "a=b", "NONE", NoRoute
		e.ServerField, e.NoLog, e.rerouted = true, true, true
		e.Everywhere = setStrict{}
		e.OnHeader(setStrict{})
		for range 3 {
			e.Try(netip.MustParseAddrPort("192.0.2.1:80")).Status = 200
		}
		r.Form, r.Pattern = map[string][]string{"a": nil}, "x"
		*r = *r.WithContext(context.WithValue(r.Context(), key{}, true))
		kept = r
		switch r.Header.Get("X-Own") {
		case "":
			t.Error("a field is missing")
		case "panic":
			panic("on purpose")
		}
	}))
	for addr, dial := range map[string]func(string) *spoken{
		plain:  func(addr string) *spoken { return open(t, addr) },
		secure: func(addr string) *spoken { return open(t, addr).secure() },
	} {
		c := dial(addr)
		next := func() Exchange {
			t.Helper()
			c.ask(usual)
			select {
			case e := <-found:
				e.Start, e.ID, e.context, e.hooks, e.Attempts = time.Time{}, "", exchangeContext{}, append([]HeaderHook(nil), e.hooks...), append([]Attempt(nil), e.Attempts...)
				return e
			default:
				t.Fatal("the handler was not asked")
				panic("unreachable")
			}
		}
		want := next()
		for range 3 {
			c.ask(another)
			if got := next(); !reflect.DeepEqual(got, want) {
				t.Errorf("the exchange was %+v, and is %+v behind another request", want, got)
			}
		}
		c.ask(strings.Replace(another, "X-Own: 1", "X-Own: panic", 1))
		if got := next(); !reflect.DeepEqual(got, want) {
			t.Errorf("the exchange was %+v, and is %+v behind a panic", want, got)
		}
	}
	if e := From(kept); e == nil {
		t.Error("a request that is over has no exchange: want an empty one")
	}
}

// TestExchangesOfABodyAreNotUsedAgain: who reads a body may be left behind by its handler.
func TestExchangesOfABodyAreNotUsedAgain(t *testing.T) {
	kept := make(chan *Exchange, 2)
	plain, _ := front(t, new(Server), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		kept <- From(r)
	}))
	c := open(t, plain)
	for _, path := range []string{"/1", "/2"} {
		c.ask("POST " + path + " HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx")
	}
	if first, second := <-kept, <-kept; first == second || first.Path != "/1" || second.Path != "/2" {
		t.Errorf("the exchanges are %p of %q and %p of %q", first, first.Path, second, second.Path)
	}
}
