package feature

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
)

// asked is ask with a method and fields.
func asked(t *testing.T, h http.Handler, e *proxy.Exchange, method string, header http.Header) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/", nil)
	for name, values := range header {
		r.Header[name] = values
	}
	h.ServeHTTP(w, proxy.With(r, e))
	return w.Result(), w.Body.String()
}

// corsFields are those of CORS that an answer has, each on a line.
func corsFields(header http.Header) string {
	var lines []string
	for name, values := range header {
		if rest, ok := strings.CutPrefix(name, "Access-Control-"); ok {
			lines = append(lines, rest+": "+strings.Join(values, " | "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const (
	usualMethods = "Allow-Methods: GET, PUT, POST, DELETE, PATCH, OPTIONS"
	usualHeaders = "Allow-Headers: DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization"
	usualAge     = "Max-Age: 1728000"
)

func TestCORSFields(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "the endpoint's")
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Access-Control-Expose-Headers", "X-Endpoint")
		w.WriteHeader(http.StatusTeapot)
	})
	untouched := "Allow-Credentials: true\nAllow-Origin: the endpoint's\nExpose-Headers: X-Endpoint"
	with := func(lines ...string) string {
		for name, usual := range map[string]string{"Allow-Methods": usualMethods, "Allow-Headers": usualHeaders, "Max-Age": usualAge, "Expose-Headers": "Expose-Headers: X-Endpoint"} {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, name) }) {
				lines = append(lines, usual)
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	const a = "https://a.test"
	for _, c := range []struct {
		claim       string
		annotations pairs
		origin      string
		want        string
		vary        string
		problems    int
	}{
		{"off", pairs{"cors-allow-origin": a}, a, untouched, "", 0},
		{"any origin, and no credentials with it", pairs{"enable-cors": "true"}, a, with("Allow-Origin: *"), "", 0},
		{"also without one", pairs{"enable-cors": "true"}, "", with("Allow-Origin: *"), "", 0},
		{"nor when asked for", pairs{"enable-cors": "true", "cors-allow-credentials": "true"}, a, with("Allow-Origin: *"), "", 1},
		{"a list with * is any origin", pairs{"enable-cors": "true", "cors-allow-origin": a + ", *"}, "https://b.test", with("Allow-Origin: *"), "", 0},
		{"one that is named", pairs{"enable-cors": "true", "cors-allow-origin": a}, a, with("Allow-Origin: "+a, "Allow-Credentials: true"), "Origin", 0},
		{"without credentials", pairs{"enable-cors": "true", "cors-allow-origin": a, "cors-allow-credentials": "false"}, a, with("Allow-Origin: " + a), "Origin", 0},
		{"another", pairs{"enable-cors": "true", "cors-allow-origin": a}, "https://b.test", untouched, "Origin", 0},
		{"none", pairs{"enable-cors": "true", "cors-allow-origin": a}, "", untouched, "Origin", 0},
		{"null", pairs{"enable-cors": "true", "cors-allow-origin": "null"}, "null", with("Allow-Origin: null", "Allow-Credentials: true"), "Origin", 0},
		{"null is not any", pairs{"enable-cors": "true", "cors-allow-origin": a}, "null", untouched, "Origin", 0},
		{"a trailing comma", pairs{"enable-cors": "true", "cors-allow-origin": a + ","}, a, with("Allow-Origin: "+a, "Allow-Credentials: true"), "Origin", 0},
		{"what is bad is left out", pairs{"enable-cors": "true", "cors-allow-origin": "b.test, " + a}, a, with("Allow-Origin: "+a, "Allow-Credentials: true"), "Origin", 1},
		{"nothing good is left", pairs{"enable-cors": "true", "cors-allow-origin": "b.test, https://c.test/"}, a, untouched, "", 1},
		{"nothing at all", pairs{"enable-cors": "true", "cors-allow-origin": ""}, a, untouched, "", 1},
		{"commas only", pairs{"enable-cors": "true", "cors-allow-origin": ","}, a, untouched, "", 1},
		{"far too much", pairs{"enable-cors": "true", "cors-allow-origin": strings.Repeat(a+",", maxValue/10)}, a, untouched, "", 1},
		{"methods", pairs{"enable-cors": "true", "cors-allow-methods": "GET,PUT"}, a, with("Allow-Origin: *", "Allow-Methods: GET,PUT"), "", 0},
		{"headers", pairs{"enable-cors": "true", "cors-allow-headers": "X-Mine, x_2"}, a, with("Allow-Origin: *", "Allow-Headers: X-Mine, x_2"), "", 0},
		{"exposed", pairs{"enable-cors": "true", "cors-expose-headers": "*, X-12"}, a, with("Allow-Origin: *", "Expose-Headers: *, X-12"), "", 0},
		{"age", pairs{"enable-cors": "true", "cors-max-age": "600"}, a, with("Allow-Origin: *", "Max-Age: 600"), "", 0},
		{"no age", pairs{"enable-cors": "true", "cors-max-age": "-1"}, a, with("Allow-Origin: *", "Max-Age: -1"), "", 0},
		{"bad tuning is the default", pairs{
			"enable-cors": "true", "cors-max-age": "1h", "cors-allow-methods": "GET\r\nX-Evil: 1", "cors-allow-headers": "", "cors-expose-headers": "a:b",
		}, a, with("Allow-Origin: *"), "", 4},
	} {
		p := (&passage{annotations: c.annotations, features: []func(*Annotations, *Draft){cors}, endpoints: []http.Handler{echo}}).open(t)
		header := []string{}
		if c.origin != "" {
			header = append(header, "Origin: "+c.origin)
		}
		for _, scheme := range []string{"http", "https"} {
			answer, _ := p.do(t, request(t, "GET", scheme+"://h.test/", nil, header...))
			p.became(t)
			got, vary := corsFields(answer.Header), strings.Join(answer.Header["Vary"], " | ")
			if got != c.want || vary != c.vary || answer.StatusCode != http.StatusTeapot || len(p.problems) != c.problems {
				t.Errorf("%s: %v, origin %q over %s: status %d, Vary %q, want 418 and %q; problems %v, want %d; fields\n%s\nwant\n%s",
					c.claim, c.annotations, c.origin, scheme, answer.StatusCode, vary, c.vary, p.problems, c.problems, got, c.want)
			}
		}
	}
}

// TestOriginsAreHeldAtBothEnds is of the reference, A21 #45, and of what gets past one that is held at one end only.
func TestOriginsAreHeldAtBothEnds(t *testing.T) {
	for _, c := range []struct{ allowed, yes, no string }{
		{"https://*.a.test", "https://x.a.test https://X.A.test https://x-1_.a.test",
			"https://x.y.a.test https://x.a.test:444 https://a.test https://.a.test http://x.a.test https://x.a.test.evil.test evilhttps://x.a.test " +
				"https://*.a.test https://x.a.test/ https://x%2ea.test https://u@x.a.test https://xa.test https://x.a.tes https://x.a.testx https:// :// x"},
		{"https://*.a.test:8443", "https://x.a.test:8443", "https://x.a.test https://x.a.test:443 https://x.a.test:84430"},
		{"https://a.test", "https://a.test HTTPS://A.test", "https://a.test:443 http://a.test https://b.a.test https://a.test.evil.test https://aatest xhttps://a.test"},
		{"https://A.test:1", "https://a.test:1", "https://a.test"},
		{"http://localhost:3000,http://127.0.0.1:3000", "http://localhost:3000 http://127.0.0.1:3000", "http://localhost http://127.0.0.2:3000"},
		{"capacitor://localhost, chrome-extension://abc", "capacitor://localhost chrome-extension://abc", "capacitor://x"},
		{"null", "null", "https://null"},
		{"https://*.a.test,https://x.a.test", "https://x.a.test https://y.a.test", "https://z.x.a.test"},
	} {
		d, problems := drafting(pairs{"enable-cors": "true", "cors-allow-origin": c.allowed}, nil, cors)
		if len(problems) > 0 {
			t.Errorf("%s: %v", c.allowed, problems)
		}
		h := d.Handler(Place{}, say("in")).(*corsHandler)
		for _, origin := range strings.Fields(c.yes) {
			if answer := h.find(origin); answer == nil || !strings.EqualFold(answer.origin[0], origin) {
				t.Errorf("%s: %s gets %v, want itself", c.allowed, origin, answer)
			}
		}
		no := append(strings.Fields(c.no), "", " ", "https://x.a.test\n", "https://x.a.test,https://x.a.test", "https://"+strings.Repeat("x", 300)+".a.test", "https://\u212a.a.test")
		for _, origin := range no {
			if answer := h.find(origin); answer != nil {
				t.Errorf("%s: %q gets %v", c.allowed, origin, answer.origin)
			}
		}
	}
}

func TestWhatIsNoOrigin(t *testing.T) {
	for _, text := range []string{
		"", "a.test", "//a.test", "https:a.test", "https://", "https://a.test/", "https://a.test/x", "https://u@a.test", "https://a.test:", "https://a.test:0",
		"https://a.test:65536", "https://a.test:080", "https://a.test:+80", "https://a.test:x", "https://*", "https://*a.test", "https://a.*.test", "https://*.*.test",
		"https://a..test", "https://a.test.", "https://a b.test", "https://ä.test", "https://a.test?x", "://a.test", "ht tp://a.test", "*.a.test", "**",
		"https://[::1]", "https://" + strings.Repeat("x", 300),
	} {
		if got, ok := parseOrigin(text); ok {
			t.Errorf("%q is taken for %q", text, got)
		}
	}
}

func TestSeveralOriginsAreNone(t *testing.T) {
	p := (&passage{
		annotations: pairs{"enable-cors": "true", "cors-allow-origin": "https://a.test"}, features: []func(*Annotations, *Draft){cors}, endpoints: []http.Handler{say("in")},
	}).open(t)
	for _, method := range []string{"GET", "OPTIONS"} {
		answer, body := p.do(t, request(t, method, "http://h.test/", nil, "Origin: https://a.test", "Origin: https://a.test"))
		if answer.StatusCode != 200 || body != "in" || corsFields(answer.Header) != "" {
			t.Errorf("%s: %d %q %v, want the endpoint's answer", method, answer.StatusCode, body, answer.Header)
		}
	}
}

func TestPreflightsReachNoEndpoint(t *testing.T) {
	for _, c := range []struct {
		claim, allowed, origin string
		want                   int
	}{
		{"allowed", "https://a.test", "https://a.test", 204},
		{"any", "*", "https://b.test", 204},
		{"not allowed", "https://a.test", "https://b.test", 200},
		{"no origin is no preflight", "https://a.test", "", 200},
		{"nor is it where any is allowed", "*", "", 200},
	} {
		for _, scheme := range []string{"http", "https"} {
			p := (&passage{
				annotations: pairs{"enable-cors": "true", "cors-allow-origin": c.allowed}, features: []func(*Annotations, *Draft){cors}, endpoints: []http.Handler{say("in")},
			}).open(t)
			r := request(t, "OPTIONS", scheme+"://h.test/", strings.NewReader("a body"))
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			answer, body := p.do(t, r)
			e := p.became(t)
			preflight := c.want == 204
			if answer.StatusCode != c.want || preflight != (e.Reason == proxy.Preflight) || preflight != (len(e.Attempts) == 0) || preflight == (body == "in") {
				t.Errorf("%s over %s: %d %q, reason %q, %d attempts; want %d", c.claim, scheme, answer.StatusCode, body, e.Reason, len(e.Attempts), c.want)
			}
			if preflight && answer.Header.Get("Access-Control-Allow-Methods") == "" {
				t.Errorf("%s over %s: fields %v", c.claim, scheme, answer.Header)
			}
		}
	}
}

// TestAPreflightPassesTheAllowList is A21 #27.
func TestAPreflightPassesTheAllowList(t *testing.T) {
	p := (&passage{
		annotations: pairs{"enable-cors": "true", "allowlist-source-range": "10.0.0.0/8"},
		features:    []func(*Annotations, *Draft){cors, accessLists}, endpoints: []http.Handler{say("in")},
	}).open(t)
	for method, want := range map[string]int{"OPTIONS": 204, "GET": 403} {
		answer, _ := p.do(t, request(t, method, "http://h.test/", nil, "Origin: https://a.test"))
		if answer.StatusCode != want || answer.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v, want %d with the fields of CORS", method, answer.StatusCode, answer.Header, want)
		}
	}
}

func TestADeniedDraftAnswersNoPreflight(t *testing.T) {
	d, _ := drafting(pairs{"enable-cors": "true", "allowlist-source-range": "nonsense"}, nil, cors, accessLists)
	answer, _ := asked(t, d.Handler(Place{}, say("in")), new(proxy.Exchange), "OPTIONS", http.Header{"Origin": {"https://a.test"}})
	if answer.StatusCode != 503 {
		t.Errorf("%d, want 503", answer.StatusCode)
	}
}

func TestVaryKeepsWhatTheEndpointSays(t *testing.T) {
	for _, c := range []struct{ before, want string }{
		{"", "Origin"}, {"Accept-Encoding", "Accept-Encoding|Origin"}, {"accept, origin", "accept, origin"}, {"*", "*"}, {"X-Origin", "X-Origin|Origin"}, {"A|B", "A|B|Origin"},
	} {
		header := http.Header{}
		if c.before != "" {
			header["Vary"] = strings.Split(c.before, "|")
		}
		varyByOrigin(header)
		if got := strings.Join(header["Vary"], "|"); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.before, got, c.want)
		}
	}
}

// TestAnAnswerSharesNothingThatGrows: a handler further out that adds to a field changes no other answer.
func TestAnAnswerSharesNothingThatGrows(t *testing.T) {
	d, _ := drafting(pairs{"enable-cors": "true", "cors-allow-origin": "https://a.test,https://*.a.test", "cors-expose-headers": "X"}, nil, cors)
	h := d.Handler(Place{}, say("in")).(*corsHandler)
	for _, origin := range []string{"https://a.test", "https://x.a.test"} {
		header := http.Header{}
		h.find(origin).SetHeader(nil, header)
		for name, values := range header {
			if len(values) != 1 || cap(values) != 1 {
				t.Errorf("%s: %s has %d values and room for %d, want 1 and 1", origin, name, len(values), cap(values))
			}
		}
	}
}

// nowhere is a client that keeps nothing.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

func TestTheWayInAllocatesNothing(t *testing.T) {
	d, problems := drafting(pairs{
		"enable-cors": "true", "cors-allow-origin": "https://b.test, https://a.test, https://*.a.test",
		"allowlist-source-range": "192.0.2.0/24,10.0.0.0/8,2001:db8::/32", "denylist-source-range": "10.0.0.1",
		"limit-rps": "1000", "limit-rpm": "60000", "limit-connections": "10", "limit-allowlist": "203.0.113.0/24", "limit-burst-multiplier": "1000",
	}, pairs{"block-cidrs": "198.51.100.0/24", "block-user-agents": "~*bot, wget", "block-referers": "~evil"}, blocks, cors, limits, accessLists)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	passed := 0
	last := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ })
	h := d.Handler(Place{}, last)
	for origin, want := range map[string]float64{"https://a.test": 0, "https://evil.test": 0, "": 0, "https://x.a.test": 1} {
		e := &proxy.Exchange{Client: netip.MustParseAddr("10.1.2.3")}
		r := proxy.With(httptest.NewRequest("GET", "/", nil), e)
		r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		fresh := *e
		w := nowhere{http.Header{}}
		var writer http.ResponseWriter = w
		passed = 0
		if n := testing.AllocsPerRun(100, func() { *e = fresh; h.ServeHTTP(writer, r) }); n != want {
			t.Errorf("origin %q: %v allocations, want %v", origin, n, want)
		}
		if passed != 101 {
			t.Errorf("origin %q: %d of 101 passed", origin, passed)
		}
	}
}

func TestCORSFieldsAllocateNothing(t *testing.T) {
	d, _ := drafting(pairs{"enable-cors": "true", "cors-allow-origin": "https://a.test", "cors-expose-headers": "X"}, nil, cors)
	h := d.Handler(Place{}, say("in")).(*corsHandler)
	header := http.Header{}
	if n := testing.AllocsPerRun(100, func() {
		clear(header)
		h.find("https://a.test").SetHeader(nil, header)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFindOrigin(b *testing.B) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("https://app%d.example.org", i), fmt.Sprintf("https://*.app%d.example.org:8443", i))
	}
	d, _ := drafting(pairs{"enable-cors": "true", "cors-allow-origin": strings.Join(names, ",")}, nil, cors)
	h := d.Handler(Place{}, say("in")).(*corsHandler)
	for _, origin := range []string{"https://app77.example.org", "https://x.app77.example.org:8443", "https://other.example.org"} {
		b.Run(origin, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.find(origin)
			}
		})
	}
}
