package feature

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
	"sallyport/router"
)

// sent is how many of n requests at one moment pass, and what the last one that did not was told.
func sent(t *testing.T, h http.Handler, n int, client string, fields http.Header) (passed int, refusal *http.Response, reason proxy.Reason) {
	t.Helper()
	for range n {
		e := &proxy.Exchange{Client: netip.MustParseAddr(client)}
		answer, _ := asked(t, h, e, "GET", fields)
		if answer.StatusCode == 200 {
			passed++
		} else {
			refusal, reason = answer, e.Reason
		}
	}
	return passed, refusal, reason
}

func TestRateLimits(t *testing.T) {
	for _, c := range []struct {
		claim               string
		annotations, config pairs
		want                int // of 30 at once
		wait                string
	}{
		{"one and the burst of five", pairs{"limit-rps": "1"}, nil, 6, "1"}, // A21 #32
		{"three and three times five", pairs{"limit-rps": "3"}, nil, 16, "1"},
		{"another multiplier", pairs{"limit-rps": "3", "limit-burst-multiplier": "2"}, nil, 7, "1"},
		{"no burst", pairs{"limit-rps": "1", "limit-burst-multiplier": "0"}, nil, 1, "1"},
		{"a minute", pairs{"limit-rpm": "1"}, nil, 6, "60"},
		{"part of a minute", pairs{"limit-rpm": "8", "limit-burst-multiplier": "1"}, nil, 9, "8"}, // 7.5 s
		{"both, and the minute is stricter", pairs{"limit-rps": "5", "limit-rpm": "2"}, nil, 11, "30"},
		{"both, and the second is stricter", pairs{"limit-rps": "1", "limit-rpm": "60"}, nil, 6, "1"},
		{"a literal is one share for all", pairs{"limit-rps": "1"}, pairs{"limit-conn-zone-variable": "all"}, 6, "1"},
		{"none", pairs{"limit-burst-multiplier": "1"}, nil, 30, ""},
		{"zero is none", pairs{"limit-rps": "0", "limit-rpm": "0", "limit-connections": "0"}, nil, 30, ""},
		{"large numbers", pairs{"limit-rps": "2147483647", "limit-burst-multiplier": "2147483647"}, nil, 30, ""},
	} {
		synctest.Test(t, func(t *testing.T) { // where no time passes by itself
			d, problems := drafting(c.annotations, c.config, limits)
			passed, refusal, reason := sent(t, d.Handler(Place{}, say("in")), 30, "10.0.0.1", nil)
			if passed != c.want || len(problems) > 0 {
				t.Errorf("%s: %v: %d of 30 pass, want %d; problems %v", c.claim, c.annotations, passed, c.want, problems)
			}
			if passed < 30 && (refusal.StatusCode != 503 || reason != proxy.RateLimited || refusal.Header.Get("Retry-After") != c.wait) {
				t.Errorf("%s: %v: refused with %d %s, Retry-After %q; want 503 %s, %q",
					c.claim, c.annotations, refusal.StatusCode, reason, refusal.Header.Get("Retry-After"), proxy.RateLimited, c.wait)
			}
		})
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := drafting(pairs{"limit-rpm": "8", "limit-burst-multiplier": "0"}, nil, limits)
		h := d.Handler(Place{}, say("in"))
		if passed, refusal, _ := sent(t, h, 2, "10.0.0.1", nil); passed != 1 || refusal.Header.Get("Retry-After") != "8" {
			t.Fatalf("%d of 2 pass, then %v", passed, refusal)
		}
		time.Sleep(8 * time.Second)
		if passed, _, _ := sent(t, h, 2, "10.0.0.1", nil); passed != 1 {
			t.Errorf("8 seconds later %d of 2 pass, want 1", passed)
		}
	})
}

func TestWhoSharesALimit(t *testing.T) {
	for _, c := range []struct {
		claim       string
		by          string // the ConfigMap's
		annotations pairs
		one, other  string // clients
		field       string // X-Key of the other; the one's is "a"
		want        int    // of the other's 6 requests, after 6 of the one
	}{
		{"addresses have their own", "", nil, "10.0.0.1", "10.0.0.2", "a", 6},
		{"an address has one", "", nil, "10.0.0.1", "10.0.0.1", "b", 0},
		{"mapped or not", "", nil, "10.0.0.1", "::ffff:10.0.0.1", "a", 0},
		{"a network of IPv6", "", nil, "2001:db8::1", "2001:db8::2", "a", 0},
		{"two networks", "", nil, "2001:db8::1", "2001:db8:0:1::1", "a", 6},
		{"as the default says", "$binary_remote_addr", nil, "2001:db8::1", "2001:db8::2", "a", 0},
		{"or its twin", "$remote_addr", nil, "2001:db8::1", "2001:db8::2", "a", 0},
		{"a field", "$http_x_key", nil, "10.0.0.1", "10.0.0.2", "a", 0},
		{"another one", "$http_x_key", nil, "10.0.0.1", "10.0.0.1", "b", 6},
		{"none", "$http_x_key", nil, "10.0.0.1", "10.0.0.1", "", 6},
		{"address and field", "$remote_addr $http_x_key", nil, "10.0.0.1", "10.0.0.1", "", 6},
		{"everybody", "everybody", nil, "10.0.0.1", "10.0.0.2", "b", 0},
		{"a variable that there is not is the default", "$nonsense", nil, "10.0.0.1", "10.0.0.1", "b", 0},
		{"exempt", "", pairs{"limit-allowlist": "10.0.0.0/8,192.0.2.1"}, "10.0.0.1", "10.0.0.1", "a", 6},
		{"not exempt", "", pairs{"limit-allowlist": "10.0.0.0/8,192.0.2.1"}, "192.0.2.2", "192.0.2.2", "a", 0},
		{"exempt by the former name", "", pairs{"limit-whitelist": "10.0.0.0/8"}, "10.0.0.1", "10.0.0.1", "a", 6},
		{"which counts alone", "", pairs{"limit-whitelist": "10.0.0.0/8", "limit-allowlist": "192.0.2.1"}, "10.0.0.1", "10.0.0.1", "a", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			annotations := pairs{"limit-rps": "1"}
			for name, text := range c.annotations {
				annotations[name] = text
			}
			d, _ := drafting(annotations, pairs{"limit-conn-zone-variable": c.by}, limits)
			h := d.Handler(Place{}, say("in"))
			sent(t, h, 6, c.one, http.Header{"X-Key": {"a"}})
			fields := http.Header{"X-Key": {c.field}}
			if c.field == "" {
				fields = nil
			}
			if passed, _, _ := sent(t, h, 6, c.other, fields); passed != c.want {
				t.Errorf("%s: by %q, %d of 6 of the other pass, want %d", c.claim, c.by, passed, c.want)
			}
		})
	}
}

// TestAKeyThatIsTooLongIsNoWayOut: the address counts instead.
func TestAKeyThatIsTooLongIsNoWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := drafting(pairs{"limit-rps": "1"}, pairs{"limit-conn-zone-variable": "$http_x_key"}, limits)
		passed, _, _ := sent(t, d.Handler(Place{}, say("in")), 9, "10.0.0.1", http.Header{"X-Key": {strings.Repeat("x", value.Longest+1)}})
		if passed != 6 {
			t.Errorf("%d of 9 pass, want 6", passed)
		}
	})
}

func TestTheRoutesOfAnIngressShareTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := drafting(pairs{"limit-rps": "1"}, nil, limits)
		one := d.Handler(Place{Match: router.Match{Host: "a.test", Path: "/"}}, say("one"))
		two := d.Handler(Place{Match: router.Match{Host: "b.test", Path: "/x"}}, say("two"))
		a, _, _ := sent(t, one, 4, "10.0.0.1", nil)
		b, _, _ := sent(t, two, 4, "10.0.0.1", nil)
		if a != 4 || b != 2 {
			t.Errorf("%d and %d of 4 each pass, want 4 and 2", a, b)
		}
		other, _ := drafting(pairs{"limit-rps": "1"}, nil, limits)
		if passed, _, _ := sent(t, other.Handler(Place{}, say("in")), 9, "10.0.0.1", nil); passed != 6 {
			t.Errorf("of another Ingress %d of 9 pass, want 6", passed)
		}
	})
}

func TestLimitsOutliveTheDraft(t *testing.T) {
	again := func(before *Draft, annotations, config pairs) *Draft {
		a := newAnnotations(Input{Annotations: prefixed(annotations), Config: &Config{values: config}})
		d := &Draft{memory: before.Memory().next()}
		a.run(d, []func(*Annotations, *Draft){limits})
		return d
	}
	for _, c := range []struct {
		claim       string
		annotations pairs
		config      pairs
		want        int // of 9 that come at once after six
	}{
		{"nothing changed", pairs{"limit-rps": "1"}, nil, 0},
		{"something else changed", pairs{"limit-rps": "1", "limit-connections": "7", "limit-allowlist": "192.0.2.1"}, pairs{"limit-req-status-code": "429"}, 0},
		{"the rate changed", pairs{"limit-rps": "2"}, nil, 9},
		{"a rate came in addition", pairs{"limit-rps": "1", "limit-rpm": "100"}, nil, 6},
		{"the burst changed", pairs{"limit-rps": "1", "limit-burst-multiplier": "2"}, nil, 3},
		{"what tells clients apart changed", pairs{"limit-rps": "1"}, pairs{"limit-conn-zone-variable": "$host"}, 9},
	} {
		synctest.Test(t, func(t *testing.T) {
			first := again(new(Draft), pairs{"limit-rps": "1"}, nil)
			sent(t, first.Handler(Place{}, say("in")), 6, "10.0.0.1", nil)
			second := again(first, c.annotations, c.config)
			if passed, _, _ := sent(t, second.Handler(Place{}, say("in")), 9, "10.0.0.1", nil); passed != c.want {
				t.Errorf("%s: %d of 9 pass, want %d", c.claim, passed, c.want)
			}
		})
	}
}

// TestSharesByOneFieldAreNotThoseByAnother, although the values are the same.
func TestSharesByOneFieldAreNotThoseByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(Draft)
		for _, by := range []string{"$http_x_key", "$http_x_other"} {
			a := newAnnotations(Input{Annotations: prefixed(pairs{"limit-rps": "1"}), Config: &Config{values: pairs{"limit-conn-zone-variable": by}}})
			d = &Draft{memory: d.Memory().next()}
			a.run(d, []func(*Annotations, *Draft){limits})
			if passed, _, _ := sent(t, d.Handler(Place{}, say("in")), 9, "10.0.0.1", http.Header{"X-Key": {"a"}, "X-Other": {"a"}}); passed != 6 {
				t.Errorf("by %s %d of 9 pass, want 6", by, passed)
			}
		}
	})
}

func TestABurstIsNeverNegative(t *testing.T) {
	for _, c := range []struct{ a, b, want int }{{0, 5, 0}, {5, 0, 0}, {3, 5, 15}, {math.MaxInt, 1, math.MaxInt}, {math.MaxInt/2 + 1, 2, math.MaxInt}, {1 << 30, math.MaxInt, math.MaxInt}} {
		if got := times(c.a, c.b); got != c.want {
			t.Errorf("%d times %d is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestALimitThatCannotBeReadLetsNobodyIn(t *testing.T) {
	names := map[string][]string{"limit-allowlist": {"", ",", "all", "10.0.0.0/8;192.0.2.1"}, "limit-whitelist": {"", "all"}}
	for _, name := range []string{"limit-connections", "limit-rps", "limit-rpm", "limit-burst-multiplier"} {
		names[name] = []string{"", "ten", "-1", "1.5", "10r/s", " 1", "1 ", "99999999999999999999"}
	}
	for name, values := range names {
		for _, text := range values {
			annotations := pairs{"limit-rpm": "60"}
			annotations[name] = text
			d, problems := drafting(annotations, nil, limits)
			if status, _ := answerTo(t, d, "10.0.0.1"); status != 503 || len(problems) != 1 || !problems[0].Denies {
				t.Errorf("%s: %q answers %d with problems %v, want 503 with one", name, text, status, problems)
			}
		}
	}
}

func TestBadKeysLeaveTheLimits(t *testing.T) {
	for key, text := range (pairs{"limit-req-status-code": "200", "limit-conn-status-code": "many", "limit-conn-zone-variable": "$nonsense"}) {
		synctest.Test(t, func(t *testing.T) {
			d, problems := drafting(pairs{"limit-rps": "1"}, pairs{key: text}, limits)
			passed, refusal, _ := sent(t, d.Handler(Place{}, say("in")), 9, "10.0.0.1", nil)
			if passed != 6 || refusal.StatusCode != 503 || len(problems) != 1 || problems[0].Denies {
				t.Errorf("%s: %q: %d of 9 pass, problems %v; want 6 and one that does not deny", key, text, passed, problems)
			}
		})
	}
}

// A gate is an endpoint that answers when it is told to.
type gate struct{ came, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 10), make(chan struct{})} }

func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.came <- struct{}{}
	select {
	case <-g.open:
	case <-r.Context().Done():
	}
}

// TestRequestsAtOnce is A21 #33, over HTTP/1.1, and over HTTP/2 for streams of one connection.
func TestRequestsAtOnce(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for code, want := range map[string]int{"": 503, "429": 429} {
			g := newGate()
			p := (&passage{
				annotations: pairs{"limit-connections": "2"}, config: pairs{"limit-conn-status-code": code},
				features: []func(*Annotations, *Draft){limits}, endpoints: []http.Handler{g},
			}).open(t)
			statuses := make(chan int, 2)
			for range 2 {
				go func() {
					answer, _ := p.do(t, request(t, "GET", scheme+"://h.test/", nil))
					statuses <- answer.StatusCode
				}()
			}
			await(t, g.came)
			await(t, g.came)
			answer, _ := p.do(t, request(t, "GET", scheme+"://h.test/", nil))
			if e := p.became(t); answer.StatusCode != want || e.Reason != proxy.TooManyRequests || answer.Header.Get("Retry-After") != "1" || len(e.Attempts) != 0 {
				t.Errorf("%s: the third is answered with %d %s, Retry-After %q; want %d %s", scheme, answer.StatusCode, e.Reason, answer.Header.Get("Retry-After"), want, proxy.TooManyRequests)
			}
			close(g.open)
			for range 2 {
				if status := <-statuses; status != 200 {
					t.Errorf("%s: one of the first two is answered with %d", scheme, status)
				}
				p.became(t)
			}
			if answer, _ := p.do(t, request(t, "GET", scheme+"://h.test/", nil)); answer.StatusCode != 200 {
				t.Errorf("%s: when they are done another is answered with %d", scheme, answer.StatusCode)
			}
		}
	}
}

func await(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(10 * time.Second):
		t.Fatal("it did not happen in 10 seconds")
	}
}

// TestAClientThatLeavesFreesItsPlace, and so does a handler that panics.
func TestAClientThatLeavesFreesItsPlace(t *testing.T) {
	g := newGate()
	p := (&passage{annotations: pairs{"limit-connections": "1"}, features: []func(*Annotations, *Draft){limits}, endpoints: []http.Handler{g}}).open(t)
	for range 3 {
		c, _ := p.dial(t)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h.test\r\n\r\n")
		await(t, g.came)
		c.Close()
		if e := p.became(t); e.Reason != proxy.ClientClosed {
			t.Fatalf("status %d, reason %q, want %q", e.Status, e.Reason, proxy.ClientClosed)
		}
	}
}

func TestAPanicFreesItsPlace(t *testing.T) {
	d, _ := drafting(pairs{"limit-connections": "1"}, nil, limits)
	fault := true
	h := d.Handler(Place{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if fault {
			panic(http.ErrAbortHandler)
		}
	}))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		sent(t, h, 1, "10.0.0.1", nil)
	}()
	fault = false
	if passed, _, _ := sent(t, h, 1, "10.0.0.1", nil); passed != 1 {
		t.Error("the place is still taken")
	}
}

// TestARefusedRateTakesNoPlace: what the rate refuses is not under way.
func TestARefusedRateTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := drafting(pairs{"limit-connections": "1", "limit-rps": "1", "limit-burst-multiplier": "0"}, nil, limits)
		h := d.Handler(Place{}, say("in"))
		sent(t, h, 9, "10.0.0.1", nil)
		time.Sleep(time.Second)
		if passed, _, _ := sent(t, h, 1, "10.0.0.1", nil); passed != 1 {
			t.Error("a second later the client is refused")
		}
	})
}

func TestNoLimitAddsNothing(t *testing.T) {
	if d, _ := drafting(pairs{"limit-burst-multiplier": "3", "limit-allowlist": "10.0.0.0/8"}, nil, limits, bandwidth, cors, blocks); len(d.layers) > 0 {
		t.Errorf("%d layers", len(d.layers))
	}
}
