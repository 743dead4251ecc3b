package feature

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
	"sallyport/router"
)

var onlyAffinity = []func(*Annotations, *Draft){affinity}

// named are endpoints that answer with their names.
func named(words ...string) []http.Handler {
	var all []http.Handler
	for _, word := range words {
		all = append(all, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Set-Cookie", "own="+word+"; Path=/in")
			fmt.Fprint(w, word)
		}))
	}
	return all
}

// sessionOf splits what an answer sets beside the endpoint's own cookie.
func sessionOf(t *testing.T, answer *http.Response) (pair, attributes string) {
	t.Helper()
	for _, cookie := range answer.Header["Set-Cookie"] {
		if !strings.HasPrefix(cookie, "own=") {
			if pair != "" {
				t.Errorf("two cookies: %q", answer.Header["Set-Cookie"])
			}
			pair, attributes, _ = strings.Cut(cookie, "; ")
		}
	}
	return pair, attributes
}

func TestAClientWithACookieStays(t *testing.T) {
	for mode, digits := range map[string]int{"": 16, "balanced": 16, "persistent": 32} {
		annotations := map[string]string{"affinity": "cookie", "affinity-mode": mode}
		if mode == "" {
			delete(annotations, "affinity-mode")
		}
		p := (&passage{annotations: annotations, features: onlyAffinity, endpoints: named("A", "B", "C")}).open(t)
		form := regexp.MustCompile(fmt.Sprintf(`^INGRESSCOOKIE=[0-9a-f]{%d}\|[0-9a-f]{32}$`, digits))
		for range 3 {
			answer, first := p.get(t, "/")
			pair, attributes := sessionOf(t, answer)
			if !form.MatchString(pair) || attributes != "Path=/; HttpOnly" {
				t.Fatalf("mode %q: a new client is told %q, %q", mode, pair, attributes)
			}
			for _, scheme := range []string{"http", "https", "http"} {
				answer, again := p.do(t, request(t, "GET", scheme+"://h.test/", nil, "Cookie: a=b; "+pair))
				if pair, _ := sessionOf(t, answer); again != first || pair != "" {
					t.Errorf("mode %q: the client of %s was answered by %s and told %q", mode, first, again, pair)
				}
			}
		}
	}
}

func TestACookieThatMeansNothingIsReplaced(t *testing.T) {
	p := (&passage{annotations: map[string]string{"affinity": "cookie"}, features: onlyAffinity, endpoints: named("A", "B")}).open(t)
	for _, value := range []string{"", "1700000000.123.45.678|0123456789abcdef0123456789abcdef", strings.Repeat("a", 10_000)} {
		answer, _ := p.get(t, "/", "Cookie: INGRESSCOOKIE="+value)
		if pair, _ := sessionOf(t, answer); pair == "" || pair == "INGRESSCOOKIE="+value {
			t.Errorf("%.60q: told %q", value, pair)
		}
	}
}

func TestAttributesOfTheSessionCookie(t *testing.T) {
	const chrome60 = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/60.0.3112.90 Safari/537.36"
	route := func(kind router.PathType, path string) *router.Route {
		return &router.Route{Match: router.Match{Path: path, Type: kind}}
	}
	for _, c := range []struct {
		annotations string
		e           proxy.Exchange
		want        string
	}{
		{"", proxy.Exchange{}, "; Path=/; HttpOnly"},
		{"", proxy.Exchange{Scheme: "https"}, "; Path=/; Secure; HttpOnly"},
		{"secure=true", proxy.Exchange{Scheme: "http"}, "; Path=/; Secure; HttpOnly"},
		{"secure=false", proxy.Exchange{Scheme: "https"}, "; Path=/; Secure; HttpOnly"},
		{"secure=false", proxy.Exchange{Scheme: "http"}, "; Path=/; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Prefix, "/shop/cart")}, "; Path=/shop/cart; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Prefix, "/shop/")}, "; Path=/shop; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Exact, "/shop/")}, "; Path=/shop/; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Prefix, "/")}, "; Path=/; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Prefix, "/a b/é")}, "; Path=/a%20b/%C3%A9; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Prefix, "/a; Domain=evil.test")}, "; Path=/; HttpOnly"},
		{"", proxy.Exchange{Route: route(router.Regex, "/foo.*")}, "; Path=/; HttpOnly"},
		{"path=/own/", proxy.Exchange{Route: route(router.Regex, "/foo.*")}, "; Path=/own/; HttpOnly"},
		{"domain=.a.test", proxy.Exchange{}, "; Domain=.a.test; Path=/; HttpOnly"},
		{"max-age=0", proxy.Exchange{}, "; Max-Age=0; Path=/; HttpOnly"},
		{"max-age=-5", proxy.Exchange{}, "; Max-Age=-5; Path=/; HttpOnly"},
		{"expires=172800,max-age=172800", proxy.Exchange{}, "; Expires=Mon, 03 Jan 2000 00:00:00 GMT; Max-Age=172800; Path=/; HttpOnly"},
		{"samesite=sTrIcT", proxy.Exchange{}, "; Path=/; HttpOnly; SameSite=Strict"},
		{"samesite=lax,conditional-samesite-none=true", proxy.Exchange{}, "; Path=/; HttpOnly; SameSite=Lax"},
		{"samesite=none", proxy.Exchange{}, "; Path=/; HttpOnly; SameSite=None"},
		{"samesite=None,conditional-samesite-none=true", proxy.Exchange{}, "; Path=/; HttpOnly"},
		{"samesite=None,conditional-samesite-none=false", proxy.Exchange{}, "; Path=/; HttpOnly; SameSite=None"},
	} {
		synctest.Test(t, func(t *testing.T) { // which begins in the year 2000
			annotations := map[string]string{"affinity": "cookie"}
			for pair := range strings.SplitSeq(c.annotations, ",") {
				if name, text, ok := strings.Cut(pair, "="); ok {
					annotations["session-cookie-"+name] = text
				}
			}
			p := passage{annotations: annotations, features: onlyAffinity}
			d := p.drafted()
			if len(p.problems) > 0 {
				t.Errorf("%s: %v", c.annotations, p.problems)
			}
			e := c.e
			r := request(t, "GET", "http://h.test/", nil, "User-Agent: "+chrome60)
			if got := d.Upstream.Affinity.Attributes(proxy.With(r, &e)); got != c.want {
				t.Errorf("%s, %+v: %q, want %q", c.annotations, c.e.Route, got, c.want)
			}
		})
	}
}

func TestAffinityAnnotations(t *testing.T) {
	for _, c := range []struct {
		annotations string
		problems    string // the annotations that are told of
		on          bool
	}{
		{"", "", false},
		{"affinity=cookie", "", true},
		{"affinity=Cookie,session-cookie-name=SERVERID", "", true},
		{"affinity=ip", "affinity", false},
		{"affinity=,session-cookie-name=a", "affinity", false},
		{"session-cookie-name=a,affinity-mode=persistent", "affinity-mode session-cookie-name", false},
		{"affinity=cookie,affinity-mode=random", "affinity-mode", true},
		{"affinity=cookie,session-cookie-name=a b", "session-cookie-name", true},
		{"affinity=cookie,session-cookie-path=app", "session-cookie-path", true},
		{"affinity=cookie,session-cookie-path=/a;b", "session-cookie-path", true},
		{"affinity=cookie,session-cookie-domain=a b", "session-cookie-domain", true},
		{"affinity=cookie,session-cookie-max-age=1h,session-cookie-expires=x", "session-cookie-expires session-cookie-max-age", true},
		{"affinity=cookie,session-cookie-samesite=maybe", "session-cookie-samesite", true},
		{"affinity=cookie,use-regex=true", "affinity", true},
		{"affinity=cookie,rewrite-target=/$1", "affinity", true},
		{"affinity=cookie,use-regex=true,session-cookie-path=/", "", true},
		{"affinity=cookie,use-regex=false,rewrite-target=/", "", true},
	} {
		annotations := map[string]string{}
		for pair := range strings.SplitSeq(c.annotations, ",") {
			if name, text, ok := strings.Cut(pair, "="); ok {
				annotations[name] = text
			}
		}
		p := passage{annotations: annotations, features: onlyAffinity}
		d := p.drafted()
		told := make(map[string]bool)
		for _, problem := range p.problems {
			told[strings.TrimPrefix(problem.Annotation, NginxPrefix)] = true
		}
		for name := range strings.FieldsSeq(c.problems) {
			if !told[name] {
				t.Errorf("%s: nothing is told of %s", c.annotations, name)
			}
		}
		if len(told) != len(strings.Fields(c.problems)) || (d.Upstream.Affinity != nil) != c.on || d.Denied() {
			t.Errorf("%s: affinity %v, problems %v", c.annotations, d.Upstream.Affinity != nil, p.problems)
		}
	}
}

func TestWhatIsForCookiesOfEndpointsLeavesTheSessionAlone(t *testing.T) {
	p := (&passage{
		annotations: map[string]string{"affinity": "cookie", "proxy-cookie-path": "/ /out"},
		features:    []func(*Annotations, *Draft){proxyCookie, affinity}, endpoints: named("A"),
	}).open(t)
	answer, _ := p.get(t, "/")
	if _, attributes := sessionOf(t, answer); attributes != "Path=/; HttpOnly" || answer.Header["Set-Cookie"][0] != "own=A; Path=/outin" {
		t.Errorf("%q", answer.Header["Set-Cookie"])
	}
}

func TestOnlyEndpointsBringTheCookie(t *testing.T) {
	p := (&passage{annotations: map[string]string{"affinity": "cookie"}, features: onlyAffinity}).open(t)
	if answer, _ := p.get(t, "/"); answer.StatusCode != 503 || answer.Header["Set-Cookie"] != nil {
		t.Errorf("%d %v, want 503 without a cookie", answer.StatusCode, answer.Header)
	}
}

func TestSecondsAreCountedFromTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := 10
		c := &sessionCookie{expires: &seconds}
		r := proxy.With(request(t, "GET", "http://h.test/", nil), new(proxy.Exchange))
		first := c.attributes(r)
		time.Sleep(time.Second)
		if second := c.attributes(r); !strings.Contains(first, " 00:00:10 GMT") || !strings.Contains(second, " 00:00:11 GMT") {
			t.Errorf("%q, then %q", first, second)
		}
	})
}
