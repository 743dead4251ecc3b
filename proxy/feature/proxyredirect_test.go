package feature

import (
	"net/http"
	"testing"
)

func TestRedirectsOfEndpoints(t *testing.T) {
	for _, c := range []struct{ from, to, location, refresh, wantLocation, wantRefresh string }{
		{"http://in.test/", "https://out.test/app/", "http://in.test/x?y", "", "https://out.test/app/x?y", ""},
		{"http://in.test/", "/", "http://in.test/x", "5; url=http://in.test/x", "/x", "5; url=/x"},
		{"/", "/app/", "/x", "0;URL=/x", "/app/x", "0;URL=/app/x"},
		{"http://in.test/", "/", "http://IN.test/x", "5", "http://IN.test/x", "5"},
		{"/in", "/out", "https://h.test/in", "5; url=", "https://h.test/in", "5; url="},
		{"5", "6", "5", "5; url=x", "6", "5; url=x"},
		{"off", "/x", "off/y", "", "off/y", ""},
		{"default", "", "default", "", "default", ""},
		{"/in", "off", "/in", "", "/in", ""},
		{"", "/x", "/y", "", "/y", ""},
	} {
		annotations := map[string]string{}
		if c.from != "" {
			annotations["proxy-redirect-from"] = c.from
		}
		if c.to != "" {
			annotations["proxy-redirect-to"] = c.to
		}
		p := (&passage{
			annotations: annotations, features: []func(*Annotations, *Draft){proxyRedirect},
			endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", c.location)
				w.Header().Set("Refresh", c.refresh)
				w.WriteHeader(302)
			})},
		}).open(t)
		answer, _ := p.get(t, "/")
		if l, r := answer.Header.Get("Location"), answer.Header.Get("Refresh"); l != c.wantLocation || r != c.wantRefresh {
			t.Errorf("%q to %q: %q, %q became %q, %q; want %q, %q", c.from, c.to, c.location, c.refresh, l, r, c.wantLocation, c.wantRefresh)
		}
		if len(p.problems) != 0 {
			t.Errorf("%q to %q: %v", c.from, c.to, p.problems)
		}
	}
}

func TestRedirectRulesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		problems    int
	}{
		{map[string]string{"proxy-redirect-from": "/in"}, 1},
		{map[string]string{"proxy-redirect-from": "http://in.test/", "proxy-redirect-to": "$scheme://$host/"}, 1},
		{map[string]string{"proxy-redirect-from": "/in", "proxy-redirect-to": "a b"}, 1},
		{map[string]string{"proxy-redirect-from": "", "proxy-redirect-to": "/x"}, 1},
		{map[string]string{"proxy-redirect-from": "/in", "proxy-redirect-to": "/x\r\nSet-Cookie: a=b"}, 1},
		{map[string]string{"proxy-redirect-from": "default"}, 0},
		{nil, 0},
	} {
		p := passage{annotations: c.annotations, features: []func(*Annotations, *Draft){proxyRedirect}}
		if p.drafted(); len(p.problems) != c.problems {
			t.Errorf("%q: %v, want %d problems", c.annotations, p.problems, c.problems)
		}
	}
}
