package feature

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"sallyport/proxy"
	"sallyport/router"
)

// redirected serves one request of a route and returns where it was sent; "" when it was served.
func redirected(t *testing.T, annotations map[string]string, at Place, e *proxy.Exchange) string {
	t.Helper()
	full := map[string]string{}
	for name, value := range annotations {
		full[NginxPrefix+name] = value
	}
	draft, problems := Parse(Input{Annotations: full, Settings: Settings{HTTPSPort: 8443}})
	if len(problems) != 0 {
		t.Fatalf("problems: %v", problems)
	}
	answer, body := ask(t, draft.Handler(at, say("served")), e)
	switch answer.StatusCode {
	case http.StatusOK:
		if body != "served" || e.Reason != "" {
			t.Errorf("served %q with reason %q", body, e.Reason)
		}
		return ""
	case http.StatusPermanentRedirect:
		if e.Reason != proxy.TLSRedirect {
			t.Errorf("reason %q, want %q", e.Reason, proxy.TLSRedirect)
		}
		return answer.Header.Get("Location")
	}
	t.Errorf("status %d, want 200 or 308", answer.StatusCode)
	return ""
}

func TestTLSRedirect(t *testing.T) {
	type set map[string]string
	slash := router.Match{Host: "h.test", Path: "/"}
	for _, c := range []struct {
		claim       string
		annotations set
		at          Place
		scheme      string
		target      string
		want        string
	}{
		{"a host with a certificate redirects", nil, Place{Match: slash, HostTLS: true}, "http", "/a/b?q=1", "https://h.test/a/b?q=1"},
		{"one slash at the end is cut", nil, Place{Match: slash, HostTLS: true}, "http", "/a/", "https://h.test/a"},
		{"only one", nil, Place{Match: slash, HostTLS: true}, "http", "/a//", "https://h.test/a/"},
		{"the root has none left", nil, Place{Match: slash, HostTLS: true}, "http", "/", "https://h.test"},
		{"it is cut even off a query", nil, Place{Match: slash, HostTLS: true}, "http", "/a?b=/", "https://h.test/a?b="},
		{"and is kept where asked for", set{"preserve-trailing-slash": "true"}, Place{Match: slash, HostTLS: true}, "http", "/a/", "https://h.test/a/"},
		{"the port is named where asked for", set{"use-port-in-redirects": "true"}, Place{Match: slash, HostTLS: true}, "http", "/a", "https://h.test:8443/a"},
		{"both", set{"use-port-in-redirects": "true", "preserve-trailing-slash": "true"}, Place{Match: slash, HostTLS: true}, "http", "/", "https://h.test:8443/"},
		{"HTTPS is served", nil, Place{Match: slash, HostTLS: true}, "https", "/a", ""},
		{"a host without a certificate is served", nil, Place{Match: slash, HostTLS: false}, "http", "/a", ""},
		{"ssl-redirect off is served", set{"ssl-redirect": "false"}, Place{Match: slash, HostTLS: true}, "http", "/a", ""},
		{"force needs no certificate", set{"force-ssl-redirect": "true"}, Place{Match: slash, HostTLS: false}, "http", "/a", "https://h.test/a"},
		{"force beats ssl-redirect off", set{"force-ssl-redirect": "true", "ssl-redirect": "false"}, Place{Match: slash, HostTLS: false}, "http", "/a", "https://h.test/a"},
		{"force serves what came by HTTPS to a balancer in front", set{"force-ssl-redirect": "true"}, Place{Match: slash, HostTLS: false}, "https", "/a", ""},
		{"a route for challenges is exempt", nil, Place{Match: router.Match{Host: "h.test", Path: "/.well-known/acme-challenge/x", Type: router.Exact}, HostTLS: true}, "http", "/.well-known/acme-challenge/x", ""},
		{"even from force", set{"force-ssl-redirect": "true"}, Place{Match: router.Match{Path: "/.well-known/acme-challenge"}, HostTLS: true}, "http", "/.well-known/acme-challenge/x", ""},
		{"a challenge that another route takes is not", nil, Place{Match: slash, HostTLS: true}, "http", "/.well-known/acme-challenge/x", "https://h.test/.well-known/acme-challenge/x"},
	} {
		got := redirected(t, c.annotations, c.at, &proxy.Exchange{Scheme: c.scheme, Host: "h.test", Target: c.target})
		if got != c.want {
			t.Errorf("%s: sent to %q, want %q", c.claim, got, c.want)
		}
	}
}

func TestTLSRedirectLeavesOutTheUsualPort(t *testing.T) {
	for _, port := range []int{0, 443} {
		draft, _ := Parse(Input{Annotations: map[string]string{OwnPrefix + "use-port-in-redirects": "true"}, Settings: Settings{HTTPSPort: port}})
		answer, _ := ask(t, draft.Handler(Place{HostTLS: true}, say("")), &proxy.Exchange{Scheme: "http", Host: "h.test", Target: "/a"})
		if got := answer.Header.Get("Location"); got != "https://h.test/a" {
			t.Errorf("port %d: sent to %q", port, got)
		}
	}
}

func TestTLSRedirectNeverLeavesTheHost(t *testing.T) {
	for _, host := range []string{"h.test", "127.0.0.1", "::1", "[::1]"} {
		for _, target := range []string{"//evil.test", "//evil.test/", "///evil.test", "/@evil.test", "/:80@evil.test/", "/\\evil.test",
			"*", "@evil.test", ".evil.test", ":80@evil.test", "http://evil.test/", "/?//evil.test/", "/", "//", ""} {
			got := redirected(t, nil, Place{HostTLS: true}, &proxy.Exchange{Scheme: "http", Host: host, Target: target})
			u, err := url.Parse(got)
			if err != nil {
				t.Errorf("host %q, target %q: sent to %q: %v", host, target, got, err)
				continue
			}
			if want := bracketed(host); u.Scheme != "https" || u.Host != want || u.User != nil {
				t.Errorf("host %q, target %q: sent to %q, want https on host %q", host, target, got, want)
			}
		}
	}
}

func TestTLSRedirectIgnoresWhatTheRequestSaysOfItself(t *testing.T) {
	draft, _ := Parse(Input{Annotations: nil})
	r := httptest.NewRequest("GET", "http://evil.test/elsewhere", nil)
	r.Header.Set("X-Forwarded-Host", "evil.test")
	r.Header.Set("X-Forwarded-Proto", "https")
	w := httptest.NewRecorder()
	e := &proxy.Exchange{Scheme: "http", Host: "h.test", Target: "/a"}
	draft.Handler(Place{HostTLS: true}, say("served")).ServeHTTP(w, proxy.With(r, e))
	if got := w.Header().Get("Location"); got != "https://h.test/a" {
		t.Errorf("%d, sent to %q, want https://h.test/a", w.Code, got)
	}
}

func TestTLSRedirectServesNoPlainHTTPForWantOfAHost(t *testing.T) {
	draft, _ := Parse(Input{Annotations: map[string]string{OwnPrefix + "force-ssl-redirect": "true"}})
	e := &proxy.Exchange{Scheme: "http", Target: "/a"}
	answer, body := ask(t, draft.Handler(Place{}, say("served")), e)
	if answer.StatusCode != http.StatusBadRequest || e.Reason != proxy.BadRequest {
		t.Errorf("%d %q, reason %q; want 400 and %q", answer.StatusCode, body, e.Reason, proxy.BadRequest)
	}
}
