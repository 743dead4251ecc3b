package upstream

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"sallyport/proxy"
)

// says is a script that answers every request with a word.
func says(word string) func(*session) {
	return answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(word), word))
}

// A visitor is a client that keeps the cookies of the proxy.
type visitor struct {
	door   *frontdoor
	cookie string // "name=value"; empty: none yet
}

// ask returns what the client was answered, and the Set-Cookie field that came with it.
func (v *visitor) ask(t *testing.T, method string) (a answer, set string) {
	t.Helper()
	r := v.door.request(t, method, "/", nil)
	if v.cookie != "" {
		r.Header.Set("Cookie", v.cookie)
	}
	a = v.door.do(t, r)
	if set = v.door.exchange(t).Cookie; set != "" {
		v.cookie, _, _ = strings.Cut(set, ";")
	}
	return a, set
}

func bothModes(t *testing.T, test func(t *testing.T, a *Affinity)) {
	t.Run("balanced", func(t *testing.T) { test(t, &Affinity{Cookie: "stay"}) })
	t.Run("persistent", func(t *testing.T) { test(t, &Affinity{Cookie: "stay", Persistent: true}) })
}

func TestACookieKeepsClientsWhereTheyWere(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		a.Attributes = func(r *http.Request) string { return "; Path=" + r.URL.Path }
		bothVersions(t, func(t *testing.T, version int) {
			f := front(t, version, New(poolOf(t, endpoint(t, says("A")), endpoint(t, says("B")), endpoint(t, says("C"))), Options{Affinity: a}))
			seen := ""
			for range 3 {
				v := &visitor{door: f}
				first, set := v.ask(t, "GET")
				if !strings.HasPrefix(set, "stay=") || !strings.HasSuffix(set, "; Path=/") {
					t.Fatalf("a new client is told %q", set)
				}
				seen += first.text
				for range 5 {
					if again, set := v.ask(t, "POST"); again.text != first.text || set != "" {
						t.Fatalf("a client of %s with cookie %s was answered by %s and told %q", first.text, v.cookie, again.text, set)
					}
				}
			}
			if seen != "ABC" {
				t.Errorf("new clients went to %s, want ABC by the policy of the route", seen)
			}
		})
	})
}

// manyClients gives cookies to n clients of an endpoint each.
func manyClients(a *Affinity, p *Pool, n int) (cookies []string, at []netip.AddrPort) {
	for i := range n {
		e := p.members()[i%p.Len()]
		x := &trip{t: New(p, Options{Affinity: a}), e: new(proxy.Exchange), bond: bond{new: true}}
		cookie, _, _ := strings.Cut(x.setCookie(&proxy.Attempt{Endpoint: e.addr}), ";")
		cookies, at = append(cookies, cookie), append(at, e.addr)
	}
	return cookies, at
}

// choice is the endpoint for a first try with a cookie, and the cookie that would be set.
func choice(a *Affinity, p *Pool, cookie string) (addr netip.AddrPort, set string) {
	r, _ := http.NewRequest("GET", "/", nil)
	r.Header.Set("Cookie", cookie)
	x := &trip{t: New(p, Options{Affinity: a}), r: r, e: new(proxy.Exchange)}
	e := x.choose()
	return e.addr, x.setCookie(&proxy.Attempt{Endpoint: e.addr})
}

func TestWhoMovesWhenEndpointsChange(t *testing.T) {
	const clients = 2000
	nine := addrs("1 2 3 4 5 6 7 8 9")
	for _, c := range []struct {
		claim       string
		persistent  bool
		now         string
		least, most int  // clients that move
		told        bool // by cookies
	}{
		{"an endpoint more moves its share", false, "1 2 3 4 5 6 7 8 9 10", clients / 13, clients / 8, false},
		{"an endpoint less moves its clients", false, "1 2 3 4 5 6 7 8", clients/9 - 1, clients/9 + 1, false},
		{"an endpoint more moves nobody", true, "1 2 3 4 5 6 7 8 9 10", 0, 0, false},
		{"an endpoint less moves its clients, for good", true, "1 2 3 4 5 6 7 8", clients/9 - 1, clients/9 + 1, true},
	} {
		a := &Affinity{Cookie: "stay", Persistent: c.persistent}
		p := poolOf(t, nine...)
		cookies, at := manyClients(a, p, clients)
		for i, cookie := range cookies {
			if got, set := choice(a, p, cookie); got != at[i] || set != "" {
				t.Fatalf("%s: a client of %v went to %v and was told %q before anything changed", c.claim, at[i], got, set)
			}
		}
		p.Set(addrs(c.now))
		gone := nine[8]
		moved, told := 0, 0
		for i, cookie := range cookies {
			got, set := choice(a, p, cookie)
			if got != at[i] {
				moved++
				if at[i] != gone && got != addrs("10")[0] {
					t.Errorf("%s: a client moved from %v to %v", c.claim, at[i], got)
				}
			}
			if set != "" {
				told++
			}
		}
		if moved < c.least || moved > c.most {
			t.Errorf("%s: %d of %d moved, want %d to %d", c.claim, moved, clients, c.least, c.most)
		}
		if c.told && told != moved || !c.told && told != 0 {
			t.Errorf("%s: %d moved and %d got a cookie", c.claim, moved, told)
		}
	}
}

func TestANumberOfAnEndpointIsItsOwn(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	for _, weights := range [][]int{{1}, {1, 1}, {1, 1000}, {1, 1, 1, 1, 1, 300}} {
		var members []Member
		for i, addr := range addrs("1 2 3 4 5 6")[:len(weights)] {
			members = append(members, Member{addr, weights[i]})
		}
		p.SetMembers(members)
		ring := p.homes().ring
		numbers := make(map[uint64]bool)
		for i := range 2000 {
			addr := members[i%len(members)].Addr
			n := ring.numberOf(addr)
			numbers[n] = true
			if got := ring.named(n).addr; got != addr {
				t.Fatalf("weights %v: %016x is to be %v's, and is %v's", weights, n, addr, got)
			}
		}
		if len(numbers) < 1990 {
			t.Errorf("weights %v: %d numbers for 2,000 clients", weights, len(numbers))
		}
	}
}

func TestCookiesThatCountForNothing(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		p := poolOf(t, addrs("1 2 3")...)
		other := new(Pools).Get(ID{"ns", "svc", "81"})
		other.Set(addrs("1 2 3"))
		cookies, _ := manyClients(a, p, 1)
		good := strings.TrimPrefix(cookies[0], "stay=")
		key, mark, _ := strings.Cut(good, "|")
		elsewhere, _ := manyClients(a, other, 1)
		for _, cookie := range []string{
			"", "stay", "stay=", "stay=|", "stay=" + key, "stay=" + key + "|", "stay=|" + mark, "stay=" + good + "0", "stay=0" + good,
			"stay=" + strings.Repeat("0", 100_000) + "|" + mark, "stay=" + strings.Repeat("0", len(key)-1) + "x|" + mark,
			"stay=" + strings.ToUpper(key[:len(key)-1]) + "F|" + mark, "stay=" + key + "|" + strings.Repeat("0", len(mark)),
			"Stay=" + good, "xstay=" + good, "stay=\"" + good + "\"", elsewhere[0], "a; b=c;;=;" + elsewhere[0],
		} {
			if _, set := choice(a, p, cookie); set == "" {
				t.Errorf("%.80q is taken for a cookie of the pool", cookie)
			}
			r, _ := http.NewRequest("GET", "/", nil)
			r.Header.Set("Cookie", cookie)
			if a.Holds(r, p) {
				t.Errorf("%.80q holds the client", cookie)
			}
		}
	})
}

func TestAmongManyCookiesThePoolsOwnCounts(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		p := poolOf(t, addrs("1 2 3")...)
		other := new(Pools).Get(ID{"ns", "other", "80"})
		other.Set(addrs("4 5 6"))
		ours, at := manyClients(a, p, 3)
		theirs, theirAt := manyClients(a, other, 3)
		for i := range ours {
			for _, lines := range [][]string{
				{theirs[i] + "; " + ours[i]}, {"stay=; x=y; " + ours[i] + "; " + theirs[i]}, {theirs[i], "a=b;" + ours[i]},
			} {
				r, _ := http.NewRequest("GET", "/", nil)
				r.Header["Cookie"] = lines
				for pool, want := range map[*Pool]netip.AddrPort{p: at[i], other: theirAt[i]} {
					x := &trip{t: New(pool, Options{Affinity: a}), r: r, e: new(proxy.Exchange)}
					if got := x.choose(); got.addr != want || x.bond.new || !a.Holds(r, pool) {
						t.Errorf("%q: %v goes to %v, cookie again: %v; want %v", lines, pool.ID(), got.addr, x.bond.new, want)
					}
				}
			}
		}
	})
}

func TestACookieHoldsWhileThePoolHasEndpoints(t *testing.T) {
	a := &Affinity{Cookie: "stay", Persistent: true}
	p := poolOf(t, addrs("1 2")...)
	cookies, _ := manyClients(a, p, 1)
	r, _ := http.NewRequest("GET", "/", nil)
	r.Header.Set("Cookie", cookies[0])
	for set, want := range map[string]bool{"1 2": true, "2": true, "": false} {
		if p.Set(addrs(set)); a.Holds(r, p) != want {
			t.Errorf("endpoints %q: holds is %v, want %v", set, !want, want)
		}
	}
}

func TestAnEndpointThatRefusesKeepsItsClientsButFailsNone(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		for _, change := range []bool{false, true} {
			a := *a
			a.ChangeOnFailure = change
			dead := refused(t)
			p := poolOf(t, endpoint(t, says("A")), endpoint(t, says("B")), dead)
			cookies, _ := manyClients(&a, p, 3)
			v := &visitor{front(t, 1, New(p, Options{Affinity: &a})), cookies[2]}
			first, set := v.ask(t, "POST")
			if first.StatusCode != 200 || (set != "") != change {
				t.Errorf("change %v: %d %s, told %q", change, first.StatusCode, first.text, set)
			}
			for range 4 {
				if again, set := v.ask(t, "POST"); again.text != first.text || set != "" {
					t.Errorf("change %v: %s answered after %s, told %q", change, again.text, first.text, set)
				}
			}
			if got := v.cookie == cookies[2]; got == change {
				t.Errorf("change %v: the client's cookie is the same: %v", change, got)
			}
		}
	})
}

func TestAnEndpointThatAnswersBadlyIsAskedAgainUnlessClientsChange(t *testing.T) {
	const busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
	bothModes(t, func(t *testing.T, a *Affinity) {
		for _, change := range []bool{false, true} {
			a := *a
			a.ChangeOnFailure = change
			once := func(s *session) {
				s.request()
				s.send(busy)
				s.request()
				s.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nA")
			}
			p := poolOf(t, endpoint(t, once), endpoint(t, says("B")))
			cookies, _ := manyClients(&a, p, 1)
			v := &visitor{front(t, 1, New(p, Options{Affinity: &a, Retry: RetryOn503})), cookies[0]}
			got, set := v.ask(t, "GET")
			if want := map[bool]string{false: "A", true: "B"}[change]; got.text != want || (set != "") != change {
				t.Errorf("change %v: %d %s, told %q; want %s", change, got.StatusCode, got.text, set, want)
			}
		}
	})
}

func TestACookieNamesTheEndpointThatAnswered(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		p := poolOf(t, refused(t), endpoint(t, answers("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")), endpoint(t, says("C")))
		v := &visitor{door: front(t, 1, New(p, Options{Affinity: a, Retry: RetryOn503 | RetryOnError}))}
		if got, set := v.ask(t, "GET"); got.text != "C" || set == "" {
			t.Fatalf("%d %q, told %q", got.StatusCode, got.text, set)
		}
		if got, _ := choice(a, p, v.cookie); got != p.members()[2].addr {
			t.Errorf("the cookie leads to %v", got)
		}
	})
}

func TestNoCookieGoesWithAnAnswerOfTheProxy(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		for want, o := range map[int]Options{
			502: {Affinity: a},
			504: {Affinity: a, ReadTimeout: quick.ReadTimeout, Retry: RetryOff},
		} {
			p := poolOf(t, refused(t))
			if want == 504 {
				p = poolOf(t, endpoint(t, (*session).hang))
			}
			v := &visitor{door: front(t, 1, New(p, o))}
			if got, set := v.ask(t, "GET"); got.StatusCode != want || set != "" {
				t.Errorf("status %d, told %q; want %d and no cookie", got.StatusCode, set, want)
			}
		}
	})
}

func TestAWebSocketBringsItsCookie(t *testing.T) {
	a := &Affinity{Cookie: "stay"}
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.request()
		s.send(accepted)
	})), Options{Affinity: a}))
	_, in := f.raw(t, handshake)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols || !strings.HasPrefix(res.Header.Get("Set-Cookie"), "stay=") {
		t.Errorf("%v, %v", res, err)
	}
}

func TestACallBringsItsCookie(t *testing.T) {
	a := &Affinity{Cookie: "stay"}
	p := poolOf(t, h2server(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("A")) }))
	v := &visitor{door: front(t, 2, New(p, Options{Affinity: a, Protocol: GRPC}))}
	for _, want := range []bool{true, false} {
		if got, set := v.ask(t, "GET"); got.text != "A" || (set != "") != want {
			t.Errorf("%d %s, told %q; want a cookie: %v", got.StatusCode, got.text, set, want)
		}
	}
}

func TestAddressesCannotBeReadInCookies(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		p := poolOf(t, addrs("1 2 3")...)
		cookies, _ := manyClients(a, p, 100)
		for _, cookie := range cookies {
			if strings.Contains(cookie, "10.0.0") || strings.Contains(cookie, "0a0000") {
				t.Errorf("%s", cookie)
			}
		}
	})
}

func TestAKnownClientCostsNoAllocation(t *testing.T) {
	bothModes(t, func(t *testing.T, a *Affinity) {
		p := poolOf(t, addrs("1 2 3")...)
		cookies, _ := manyClients(a, p, 1)
		r, _ := http.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", "a=b; "+cookies[0])
		transport, e := New(p, Options{Affinity: a}), new(proxy.Exchange)
		if n := testing.AllocsPerRun(1000, func() {
			x := trip{t: transport, r: r, e: e}
			if x.choose() == nil || x.setCookie(nil) != "" {
				t.Fatal("not known")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkCookie(b *testing.B) {
	for _, n := range []int{3, 1000} {
		for _, a := range []*Affinity{{Cookie: "stay"}, {Cookie: "stay", Persistent: true}} {
			b.Run(fmt.Sprintf("persistent=%v/%d", a.Persistent, n), func(b *testing.B) {
				p := new(Pools).Get(ID{"ns", "svc", "80"})
				var all []netip.AddrPort
				for i := range n {
					all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80))
				}
				p.Set(all)
				cookies, _ := manyClients(a, p, 1)
				r, _ := http.NewRequest("GET", "/", nil)
				r.Header.Set("Cookie", cookies[0])
				transport, e := New(p, Options{Affinity: a}), new(proxy.Exchange)
				b.ReportAllocs()
				for b.Loop() {
					x := trip{t: transport, r: r, e: e}
					x.choose()
				}
			})
		}
	}
}
