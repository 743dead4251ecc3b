package feature

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// canaryOf is the canary that annotations, without prefix, make.
func canaryOf(t testing.TB, annotations ...string) *Canary {
	t.Helper()
	d, problems := canaryDraft(append([]string{"canary: true"}, annotations...)...)
	if len(problems) > 0 {
		t.Fatalf("%q: problems %v", annotations, problems)
	}
	return d.Canary
}

func canaryDraft(annotations ...string) (*Draft, []Problem) {
	all := map[string]string{}
	for _, annotation := range annotations {
		name, text, _ := strings.Cut(annotation, ": ")
		all[NginxPrefix+name] = text
	}
	a, d := reads(all), new(Draft)
	a.run(d, []func(*Annotations, *Draft){canary})
	return d, a.problems
}

// splitOf is a route with canaries. Each side answers with its name: "route", "0", "1", ...
func splitOf(canaries ...*Canary) http.Handler {
	var sides []Side
	shares, _ := Shares(canaries)
	for i, c := range canaries {
		name := fmt.Sprint(i)
		sides = append(sides, Side{Canary: c, Share: shares[i], Info: &proxy.RouteInfo{Canary: name}, Pool: poolWith(1), Handler: say(name)})
	}
	return Split(Side{Pool: poolWith(1), Handler: say("route")}, sides)
}

// poolWith is a pool of some endpoints, to which nobody connects.
func poolWith(endpoints int) *upstream.Pool {
	pool := new(upstream.Pools).Get(upstream.ID{Namespace: "shop", Service: "app", Port: "80"})
	var all []netip.AddrPort
	for i := range endpoints {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(i+1)))
	}
	pool.Set(all)
	return pool
}

// sideOf is who answers a request with fields, each "Name: value".
func sideOf(h http.Handler, fields ...string) string {
	r := httptest.NewRequest("GET", "http://h.test/", nil)
	for _, field := range fields {
		name, text, _ := strings.Cut(field, ": ")
		r.Header.Add(name, text)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, proxy.With(r, new(proxy.Exchange)))
	return w.Body.String()
}

func TestARequestSaysWhichSideItIsFor(t *testing.T) {
	all := "canary-weight: 100"
	for _, c := range []struct {
		annotations []string
		fields      []string
		canary      bool
	}{
		{nil, nil, false},
		{[]string{all}, nil, true},
		{[]string{"canary-by-header: X-Next"}, []string{"X-Next: always"}, true},
		{[]string{"canary-by-header: x_next"}, []string{"X-Next: always"}, true},
		{[]string{"canary-by-header: X-Next"}, []string{"X-Next: Always"}, false},
		{[]string{"canary-by-header: X-Next"}, []string{"X-Next: "}, false},
		{[]string{"canary-by-header: X-Next"}, []string{"X-Other: always"}, false},
		{[]string{"canary-by-header: X-Next", all}, []string{"X-Next: never"}, false},
		{[]string{"canary-by-header: X-Next", all}, []string{"X-Next: other"}, true},
		{[]string{"canary-by-header: X-Next", all}, []string{"X-Next: never", "X-Next: never"}, true}, // joined, that is another word
		{[]string{"canary-by-header: Host", "canary-by-header-value: h.test"}, nil, true},

		{[]string{"canary-by-header: X-Next", "canary-by-header-value: v"}, []string{"X-Next: v"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-header-value: v"}, []string{"X-Next: always"}, false},
		{[]string{"canary-by-header: X-Next", "canary-by-header-value: v", all}, []string{"X-Next: never"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-header-value: v"}, []string{"X-Next: vv"}, false},
		{[]string{"canary-by-header: X-Next", "canary-by-header-value: v", "canary-by-header-pattern: w"}, []string{"X-Next: w"}, false},

		{[]string{"canary-by-header: X-Next", "canary-by-header-pattern: d[eo]n?e"}, []string{"X-Next: it is done"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-header-pattern: d[eo]n?e"}, []string{"X-Next: it is DONE"}, false},
		{[]string{"canary-by-header: X-Next", "canary-by-header-pattern: ^b|c$"}, []string{"X-Next: abc"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-header-pattern: x"}, []string{"X-Next: always"}, false},
		{[]string{"canary-by-header: X-Next", "canary-by-header-pattern: x", all}, []string{"X-Next: never"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-header-pattern: ^$"}, nil, false},

		{[]string{"canary-by-cookie: next"}, []string{"Cookie: a=b; next=always; c=d"}, true},
		{[]string{"canary-by-cookie: next"}, []string{"Cookie: a=b", "Cookie: next=always"}, true},
		{[]string{"canary-by-cookie: next"}, []string{"Cookie: next=alway"}, false},
		{[]string{"canary-by-cookie: next"}, []string{"Cookie: xnext=always"}, false},
		{[]string{"canary-by-cookie: next", all}, []string{"Cookie: next=never"}, false},
		{[]string{"canary-by-cookie: next", all}, []string{"Cookie: next"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-cookie: next"}, []string{"X-Next: never", "Cookie: next=always"}, false},
		{[]string{"canary-by-header: X-Next", "canary-by-cookie: next"}, []string{"X-Next: maybe", "Cookie: next=always"}, true},
		{[]string{"canary-by-header: X-Next", "canary-by-header-value: v", "canary-by-cookie: next"}, []string{"X-Next: w", "Cookie: next=always"}, true},
	} {
		want := map[bool]string{false: "route", true: "0"}[c.canary]
		if got := sideOf(splitOf(canaryOf(t, c.annotations...)), c.fields...); got != want {
			t.Errorf("%q: a request with %q goes to %s, want %s", c.annotations, c.fields, got, want)
		}
	}
}

func TestWeightsHoldOver100000Requests(t *testing.T) {
	const requests = 100_000
	for _, c := range []struct {
		weights []string // weight, or weight/total
		want    []float64
	}{
		{[]string{"0"}, []float64{0}},
		{[]string{"1"}, []float64{0.01}},
		{[]string{"10"}, []float64{0.1}},
		{[]string{"50"}, []float64{0.5}},
		{[]string{"99"}, []float64{0.99}},
		{[]string{"100"}, []float64{1}},
		{[]string{"100/1000"}, []float64{0.1}},
		{[]string{"1000/1000"}, []float64{1}},
		{[]string{"1/100000"}, []float64{0.00001}},
		{[]string{"10", "20", "5"}, []float64{0.1, 0.2, 0.05}},
		{[]string{"30", "100/200", "20"}, []float64{0.3, 0.5, 0.2}},
		{[]string{"10", "10", "10", "10", "10", "10", "10", "10", "10", "10"}, []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
		{[]string{"70", "60", "10"}, []float64{0.7, 0.3, 0}}, // cut
		{[]string{"2147483647"}, []float64{1}},
	} {
		var canaries []*Canary
		for _, text := range c.weights {
			weight, total, _ := strings.Cut(text, "/")
			annotations := []string{"canary-weight: " + weight}
			if total != "" {
				annotations = append(annotations, "canary-weight-total: "+total)
			}
			canaries = append(canaries, canaryOf(t, annotations...))
		}
		shares, _ := Shares(canaries)
		route := &counting{}
		var sides []Side
		var counters []*counting
		for i, canary := range canaries {
			counters = append(counters, &counting{})
			sides = append(sides, Side{Canary: canary, Share: shares[i], Info: &proxy.RouteInfo{}, Pool: poolWith(1), Handler: counters[i]})
		}
		h, r := Split(Side{Pool: poolWith(1), Handler: route}, sides), httptest.NewRequest("GET", "/", nil)
		for range requests {
			h.ServeHTTP(nil, r)
		}
		rest := 1.0
		check := func(who string, got int, want float64) {
			// Five standard deviations: one run in a million is beyond them by chance. Never and always leave no room.
			room := 5 * math.Sqrt(requests*want*(1-want))
			if math.Abs(float64(got)-requests*want) > room+1e-3 {
				t.Errorf("weights %v: %s took %d of %d requests, want %.0f ± %.0f", c.weights, who, got, requests, requests*want, room)
			}
		}
		for i, want := range c.want {
			check(fmt.Sprint("canary ", i), counters[i].n, want)
			rest -= want
		}
		check("the route", route.n, max(0, math.Round(rest*1e9)/1e9))
	}
}

type counting struct{ n int }

func (c *counting) ServeHTTP(http.ResponseWriter, *http.Request) { c.n++ }

func TestWeightsBeyondTheWholeAreCutAndTold(t *testing.T) {
	for _, c := range []struct {
		weights string
		shares  string
		over    int
	}{
		{"100", "[1]", -1}, {"101", "[1]", 0}, {"50 50", "[0.5 0.5]", -1}, {"50 51", "[0.5 0.5]", 1}, {"100 0 0", "[1 0 0]", -1},
		{"60 60 60", "[0.6 0.4 0]", 1}, {"0 200", "[0 1]", 1},
	} {
		var canaries []*Canary
		for _, weight := range strings.Fields(c.weights) {
			canaries = append(canaries, canaryOf(t, "canary-weight: "+weight))
		}
		if shares, over := Shares(canaries); fmt.Sprint(shares) != c.shares || over != c.over {
			t.Errorf("weights %s: %v, over from %d; want %s, %d", c.weights, shares, over, c.shares, c.over)
		}
	}
}

func TestSeveralCanariesAreAskedInTheirOrder(t *testing.T) {
	h := splitOf(
		canaryOf(t, "canary-by-header: X-A", "canary-by-cookie: side"),
		canaryOf(t, "canary-by-header: X-A", "canary-by-header-value: b"),
		canaryOf(t, "canary-by-header: X-C", "canary-weight: 100"),
	)
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{nil, "2"},
		{[]string{"X-A: always"}, "0"},
		{[]string{"X-A: b"}, "1"},
		{[]string{"X-C: always"}, "2"},
		{[]string{"X-A: always", "X-C: always"}, "0"},
		{[]string{"X-A: b", "X-C: always"}, "1"},
		{[]string{"X-A: b", "Cookie: side=always"}, "0"},
		{[]string{"X-A: never"}, "2"}, // never to one says nothing of the others
		{[]string{"X-C: never"}, "route"},
	} {
		if got := sideOf(h, c.fields...); got != c.want {
			t.Errorf("%q goes to %s, want %s", c.fields, got, c.want)
		}
	}
}

func TestNeverLeavesTheShareToTheRoute(t *testing.T) {
	h := splitOf(canaryOf(t, "canary-weight: 50", "canary-by-header: X-A"), canaryOf(t, "canary-weight: 50"))
	counts := map[string]int{}
	for range 1000 {
		counts[sideOf(h, "X-A: never")]++
	}
	if counts["0"] != 0 || counts["route"] < 400 || counts["1"] < 400 {
		t.Errorf("%v, want halves for the route and the other canary", counts)
	}
}

func TestOnlyLivingSidesTakeRequests(t *testing.T) {
	c := canaryOf(t, "canary-weight: 100", "canary-by-header: X-A")
	for _, test := range []struct {
		route, canary int
		want          string
	}{{1, 1, "canary"}, {1, 0, "route"}, {0, 1, "route"}, {0, 0, "route"}} {
		h := Split(Side{Pool: poolWith(test.route), Handler: say("route")},
			[]Side{{Canary: c, Share: 1, Info: &proxy.RouteInfo{}, Pool: poolWith(test.canary), Handler: say("canary")}})
		for _, fields := range [][]string{nil, {"X-A: always"}} {
			if got := sideOf(h, fields...); got != test.want {
				t.Errorf("with %d and %d endpoints %q goes to %s, want %s", test.route, test.canary, fields, got, test.want)
			}
		}
	}
}

func TestTheExchangeTellsWhichCanaryItWentTo(t *testing.T) {
	h := splitOf(canaryOf(t, "canary-by-header: X-A"))
	for _, c := range []struct{ field, want string }{{"always", "0"}, {"never", ""}} {
		e := &proxy.Exchange{Info: &proxy.RouteInfo{Service: "app"}}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-A", c.field)
		h.ServeHTTP(httptest.NewRecorder(), proxy.With(r, e))
		if e.Info.Canary != c.want {
			t.Errorf("%s: canary %q, want %q", c.field, e.Info.Canary, c.want)
		}
	}
}

func TestWhatACanaryCannotMeanIsTold(t *testing.T) {
	for _, c := range []struct {
		annotations []string
		canary      bool
		told        []string // annotations
		says        string
	}{
		{[]string{"canary: yes", "canary-weight: 10"}, false, []string{"canary", "canary-weight"}, `expected canary: "true" beside it`},
		{[]string{"canary-by-header: X-A"}, false, []string{"canary-by-header"}, `expected canary: "true" beside it`},
		{[]string{"canary: false", "canary-by-cookie: a"}, false, []string{"canary-by-cookie"}, `expected canary: "true" beside it`},
		{[]string{"canary: true", "canary-weight: ten"}, true, []string{"canary-weight"}, "expected a whole number; the default, 0, is used"},
		{[]string{"canary: true", "canary-weight: -1"}, true, []string{"canary-weight"}, "expected a whole number"},
		{[]string{"canary: true", "canary-weight-total: 0"}, true, []string{"canary-weight-total"}, "from 100 on; the default, 100, is used"},
		{[]string{"canary: true", "canary-weight-total: 50"}, true, []string{"canary-weight-total"}, "from 100 on; the default, 100, is used"},
		{[]string{"canary: true", "canary-by-header: X Next"}, true, []string{"canary-by-header"}, "no name of a header field"},
		{[]string{"canary: true", "canary-by-cookie: a;b"}, true, []string{"canary-by-cookie"}, "no name of a cookie"},
		{[]string{"canary: true", "canary-by-header-value: v"}, true, []string{"canary-by-header-value"}, "expected canary-by-header beside it"},
		{[]string{"canary: true", "canary-by-header: X-A", "canary-by-header-pattern: ["}, true, []string{"canary-by-header-pattern"}, "expected a regular expression"},
		{[]string{"canary: true", "canary-by-header: X-A", "canary-by-header-pattern: (?!a)b"}, true, []string{"canary-by-header-pattern"}, "expected a regular expression"},
		{[]string{"canary: true", "affinity-canary-behavior: loose"}, true, []string{"affinity-canary-behavior"}, "expected sticky or legacy"},
	} {
		d, problems := canaryDraft(c.annotations...)
		if (d.Canary != nil) != c.canary {
			t.Errorf("%q: a canary: %v, want %v", c.annotations, d.Canary != nil, c.canary)
		}
		var told []string
		for _, p := range problems {
			told = append(told, strings.TrimPrefix(p.Annotation, NginxPrefix))
		}
		if fmt.Sprint(told) != fmt.Sprint(c.told) || !strings.Contains(fmt.Sprint(problems), c.says) {
			t.Errorf("%q: told of %v, want of %v with %q: %v", c.annotations, told, c.told, c.says, problems)
		}
	}
}

func TestAValueThatCannotBeReadSendsNobodyToTheCanaryByItsField(t *testing.T) {
	for _, bad := range []string{"canary-by-header-pattern: [", "canary-by-header-pattern: ", "canary-by-header-value: a\nb", "canary-by-header-value: "} {
		d, _ := canaryDraft("canary: true", "canary-weight: 100", "canary-by-header: X-A", bad)
		h := splitOf(d.Canary)
		for field, want := range map[string]string{"X-A: always": "route", "X-A: [": "route", "X-B: x": "0"} {
			if got := sideOf(h, field); got != want {
				t.Errorf("%q: %s goes to %s, want %s", bad, field, got, want)
			}
		}
	}
}

func TestAnExpressionOfACanaryIsBounded(t *testing.T) {
	for _, hostile := range []string{strings.Repeat("(a{1,100}){1,10}", 20), strings.Repeat("a?", 5000), "(((((((((((a{0,200}){0,200})))))))))){9}"} {
		if d, problems := canaryDraft("canary: true", "canary-by-header: X-A", "canary-by-header-pattern: "+hostile); len(problems) != 1 || d.Canary.pattern != nil {
			t.Errorf("%.40s...: taken, with %v", hostile, problems)
		}
	}
}

func TestACanarysOtherAnnotationsAreIgnored(t *testing.T) {
	c := canaryOf(t, "canary-weight: 5", "auth-type: basic", "limit-rps: 5", "proxy-read-timeout: 5", "cors-max-age: 10", "load-balance: ewma", "something-else: x")
	route := prefixed(map[string]string{"limit-rps": "5", "cors-max-age": "20"})
	want := fmt.Sprint([]Ignored{{NginxPrefix + "auth-type", true}, {NginxPrefix + "cors-max-age", false}, {NginxPrefix + "proxy-read-timeout", false}})
	if got := fmt.Sprint(c.Ignored(route)); got != want {
		t.Errorf("ignored %s, want %s", got, want)
	}
}

func TestClientsStayOnTheSideTheyWereSentToFirst(t *testing.T) {
	affinity := &upstream.Affinity{Cookie: "side", Persistent: true}
	pools := new(upstream.Pools)
	side := func(name string, legacy bool, weight int) Side {
		server := httptest.NewServer(say(name))
		t.Cleanup(server.Close)
		pool := pools.Get(upstream.ID{Namespace: "shop", Service: name, Port: "80"})
		pool.Set([]netip.AddrPort{netip.MustParseAddrPort(server.Listener.Addr().String())})
		s := Side{Info: new(proxy.RouteInfo), Share: float64(weight) / 100, Pool: pool, Affinity: affinity}
		options := upstream.Options{Affinity: affinity}
		if legacy {
			options.Affinity, s.Affinity = nil, nil
		}
		s.Canary, s.Handler = &Canary{Weight: weight, Total: 100, Legacy: legacy, header: "X-Next"}, upstream.New(pool, options)
		return s
	}
	// visit sends a request and returns who answered and the cookie that the client has then.
	visit := func(h http.Handler, cookie string, fields ...string) (who, now string) {
		r := httptest.NewRequest("GET", "http://h.test/", nil)
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		for _, field := range fields {
			name, text, _ := strings.Cut(field, ": ")
			r.Header.Set(name, text)
		}
		w := httptest.NewRecorder()
		e := &proxy.Exchange{Target: "/"}
		h.ServeHTTP(w, proxy.With(r, e))
		if e.Cookie != "" { // which the front sets
			cookie = e.Cookie
		}
		return w.Body.String(), cookie
	}
	route := side("route", false, 0)
	t.Run("sticky", func(t *testing.T) {
		h := Split(route, []Side{side("one", false, 40), side("two", false, 20)})
		cohorts := map[string]int{}
		for range 300 {
			first, cookie := visit(h, "")
			cohorts[first]++
			for range 5 {
				if again, _ := visit(h, cookie); again != first {
					t.Fatalf("a client of %s was sent to %s", first, again)
				}
			}
			for _, word := range []string{"X-Next: always", "X-Next: never"} {
				if again, _ := visit(h, cookie, word); again != first {
					t.Fatalf("a client of %s that says %s was sent to %s", first, word, again)
				}
			}
		}
		if len(cohorts) != 3 || cohorts["one"] < 80 || cohorts["two"] < 30 || cohorts["route"] < 80 {
			t.Errorf("cohorts of 300 clients: %v, want about 120 of one, 60 of two, 120 of route", cohorts)
		}
	})
	t.Run("legacy", func(t *testing.T) {
		h := Split(route, []Side{side("one", true, 50)})
		_, cookie := visit(h, "", "X-Next: never")
		if cookie == "" {
			t.Fatal("the route has set no cookie")
		}
		seen := map[string]int{}
		for range 100 {
			who, _ := visit(h, cookie)
			seen[who]++
		}
		if seen["one"] < 20 || seen["route"] < 20 {
			t.Errorf("a client of the route was sent to %v, want a decision each time", seen)
		}
	})
}
