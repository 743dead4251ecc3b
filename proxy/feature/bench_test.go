package feature

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"sallyport/proxy"
	"sallyport/router"
)

// costly are the annotations of a route that has much to do.
var costly = map[string]string{
	NginxPrefix + "enable-cors":            "true",
	NginxPrefix + "cors-allow-origin":      "https://page.test",
	NginxPrefix + "limit-rps":              "1000000000",
	NginxPrefix + "allowlist-source-range": "10.0.0.0/8, 192.0.2.0/24",
	NginxPrefix + "rewrite-target":         "/$2",
}

// blank is a ResponseWriter that keeps nothing.
type blank struct{ header http.Header }

func (b blank) Header() http.Header         { return b.header }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

// route is a route of an Ingress with these annotations, and a function that serves one request of it.
func route(tb testing.TB, annotations map[string]string) func() {
	draft, problems := Parse(Input{Annotations: annotations})
	if len(problems) != 0 {
		tb.Fatal(problems)
	}
	at := Place{Match: router.Match{Host: "a.test", Path: "/app(/|$)(.*)", Type: router.Regex}}
	served := 0
	handler := draft.Handler(at, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	r := httptest.NewRequest("GET", "/app/a/b", nil)
	r.Header.Set("Origin", "https://page.test")
	e := new(proxy.Exchange)
	w := blank{make(http.Header)}
	with := proxy.With(r, e)
	client := netip.MustParseAddr("192.0.2.1")
	return func() {
		*e = proxy.Exchange{Scheme: "http", Host: "a.test", Path: "/app/a/b", Target: "/app/a/b?c=d", Client: client}
		before := served
		handler.ServeHTTP(w, proxy.With(with, e))
		if served != before+1 {
			tb.Fatal("the request was not served")
		}
	}
}

// BenchmarkRoute is what features cost a request: none, and CORS, a rate limit, an allow list and a rewrite together.
func BenchmarkRoute(b *testing.B) {
	for name, annotations := range map[string]map[string]string{"plain": nil, "costly": costly} {
		serve := route(b, annotations)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// TestAFeatureThatIsOffIsNotThere holds that a route without annotations is its last handler, but for what every route has.
func TestAFeatureThatIsOffIsNotThere(t *testing.T) {
	off := map[string]string{
		NginxPrefix + "enable-cors": "false", NginxPrefix + "limit-rps": "0", NginxPrefix + "limit-connections": "0", NginxPrefix + "use-regex": "false",
		NginxPrefix + "from-to-www-redirect": "false", NginxPrefix + "ssl-redirect": "false", NginxPrefix + "limit-rate": "0",
	}
	layers := func(annotations map[string]string) int {
		draft, problems := Parse(Input{Annotations: annotations})
		if len(problems) != 0 {
			t.Fatal(problems)
		}
		n := 0
		for _, m := range draft.layers {
			if m(Place{Match: router.Match{Path: "/"}}) != nil {
				n++
			}
		}
		return n
	}
	if got, want := layers(off), layers(nil); got != want {
		t.Errorf("%d layers around a route whose features are all off, %d around one that names none", got, want)
	}
}
