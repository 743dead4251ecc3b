package upstream

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
)

func addrs(list string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, s := range strings.Fields(list) {
		all = append(all, netip.MustParseAddrPort("10.0.0."+s+":80"))
	}
	return all
}

// picks makes n picks and returns the last number of each address.
func picks(p *Pool, n int) string {
	var got []string
	for range n {
		b := p.pick(p.policy(Balance{}), Pick{Exchange: new(proxy.Exchange)}).addr.Addr().As4()
		got = append(got, string('0'+b[3]))
	}
	return strings.Join(got, " ")
}

func TestRoundRobinRotatesExactlyAndKeepsItsPlace(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	for _, step := range []struct{ set, want string }{
		{"1 2 3", "1 2 3 1 2 3 1"},
		{"1 2 3", "2"},         // nothing changed
		{"3 2 1 4", "3 4 1 2"}, // the order of those that stay is kept
		{"1 2 4", "4 1"},       // 3, whose turn it was, is gone
		{"2", "2 2"},
		{"5 6", "5 6 5"},
	} {
		p.Set(addrs(step.set))
		if got := picks(p, len(strings.Fields(step.want))); got != step.want {
			t.Errorf("endpoints %s: picked %s, want %s", step.set, got, step.want)
		}
	}
}

func TestRoundRobinIsEvenAmongManyCallers(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1 2 3 4"))
	var mu sync.Mutex
	count := map[netip.AddrPort]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				e := p.pick(p.policy(Balance{}), Pick{Exchange: new(proxy.Exchange)})
				mu.Lock()
				count[e.addr]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for addr, n := range count {
		if n != 1000 {
			t.Errorf("%v was picked %d times, want 1000", addr, n)
		}
	}
}

func TestPickLeavesOutWhatWasTried(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1 2 3"))
	e := new(proxy.Exchange)
	seen := map[netip.AddrPort]bool{}
	for range 3 {
		endpoint := p.pick(p.policy(Balance{}), Pick{Exchange: e})
		seen[endpoint.addr] = true
		e.Try(endpoint.addr)
	}
	if len(seen) != 3 || p.pick(p.policy(Balance{}), Pick{Exchange: e}) != nil {
		t.Errorf("picked %v, then %v; want three and then none", seen, p.pick(p.policy(Balance{}), Pick{Exchange: e}))
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1 2 3"))
	e := new(proxy.Exchange)
	e.Try(addrs("1")[0])
	if n := testing.AllocsPerRun(1000, func() { p.pick(p.policy(Balance{}), Pick{Exchange: e}) }); n != 0 {
		t.Errorf("pick allocates %v times", n)
	}
}

func TestPoolsAreKeptByID(t *testing.T) {
	var pools Pools
	a, b := ID{"ns", "a", "80"}, ID{"ns", "b", "80"}
	first := pools.Get(a)
	if pools.Get(a) != first || pools.Get(b) == first || len(pools.All()) != 2 || first.ID() != a {
		t.Error("Get does not return the pool of the ID")
	}
	pools.Forget(a)
	pools.Forget(a)
	if pools.Get(a) == first {
		t.Error("a forgotten pool came back")
	}
}

func TestSetTakesEachAddressOnce(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set([]netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80"), {}, netip.MustParseAddrPort("[::ffff:10.0.0.1]:80"),
		netip.MustParseAddrPort("[2001:db8::1]:80")})
	want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("[2001:db8::1]:80")}
	if got := p.Endpoints(); !slices.Equal(got, want) || p.Len() != 2 {
		t.Errorf("endpoints %v, want %v", got, want)
	}
}

func TestConnectionsOutliveAChangeOfOtherEndpoints(t *testing.T) {
	stays, goes := endpoint(t, answers(ok2)), endpoint(t, answers(ok2))
	pool := poolOf(t, stays, goes)
	f := front(t, 1, New(pool, quick))
	for range 2 {
		f.get(t, "/")
		f.exchange(t)
	}
	gone := pool.members()[1]
	idle := kept(gone)[0]
	pool.Set([]netip.AddrPort{refused(t), stays})
	if _, err := idle.tcp.Write([]byte("x")); err == nil || len(kept(gone)) != 0 {
		t.Errorf("the connection of the endpoint that went is open: %v", err)
	}
	f.get(t, "/")
	if e := f.exchange(t); e.Attempts[0].Endpoint != stays || !e.Attempts[0].Reused {
		t.Errorf("attempt %+v; want the endpoint that stayed, over its connection", e.Attempts[0])
	}
}

// TestIdleConnectionsAreBounded gives back more connections than an endpoint keeps: for one name, in the clear and over TLS,
// and for two names in turn.
func TestIdleConnectionsAreBounded(t *testing.T) {
	addr := endpoint(t, func(s *session) { s.hang() })
	one, other := line{config: new(tls.Config), name: "a.test"}, line{config: new(tls.Config), name: "b.test"}
	for _, c := range []struct {
		lines []line
		want  int
	}{{[]line{{}}, maxIdle}, {[]line{one}, maxIdle}, {[]line{one, other}, maxMixed}} {
		e := &Endpoint{addr: addr}
		var all []*conn
		for i := range maxIdle + 3 {
			conn, err := dial(t.Context(), addr, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			conn.line = c.lines[i%len(c.lines)]
			all = append(all, conn)
		}
		for _, conn := range all {
			e.put(conn, time.Now())
		}
		if len(e.idle) != c.want {
			t.Errorf("%d names: %d idle connections, want %d", len(c.lines), len(e.idle), c.want)
		}
		e.retire()
		for i, conn := range all {
			if _, err := conn.tcp.Write([]byte("x")); err == nil {
				t.Fatalf("connection %d is open", i)
			}
		}
	}
}

// kept is a copy of what is idle.
func kept(e *Endpoint) []*conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.idle)
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	addr := endpoint(t, func(s *session) { s.hang() })
	old, err := dial(t.Context(), addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	young, err := dial(t.Context(), addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		e := &Endpoint{addr: addr}
		e.put(old, time.Now())
		<-time.After(idleLife / 2)
		e.put(young, time.Now())
		<-time.After(idleLife/2 + time.Second)
		synctest.Wait()
		if idle := kept(e); len(idle) != 1 || idle[0] != young {
			t.Errorf("%d idle connections after %v, want the younger one", len(idle), idleLife)
		}
		<-time.After(idleLife)
		synctest.Wait()
		if idle := kept(e); len(idle) != 0 {
			t.Errorf("%d idle connections at the end, want none", len(idle))
		}
	})
}
