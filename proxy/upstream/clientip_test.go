package upstream

import (
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
)

// clientN is one of many clients.
func clientN(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, byte(n >> 16), byte(n >> 8), byte(n)})
}

// sent is the endpoint that a client's request goes to.
func sent(p *Pool, b Balance, client netip.Addr, tries ...netip.AddrPort) netip.AddrPort {
	e := &proxy.Exchange{Client: client}
	for _, addr := range tries {
		e.Try(addr)
	}
	policy := p.policy(b)
	routed.Store(p, policy)
	return p.pick(policy, Pick{Exchange: e}).addr
}

// routed has the policies of pools stay as a route would have them.
var routed sync.Map

func TestAClientStaysByItsAddress(t *testing.T) {
	const clients = 1000
	b := Balance{Policy: ClientIP}
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1 2 3"))
	at := make(map[netip.Addr]netip.AddrPort)
	count := make(map[netip.AddrPort]int)
	for n := range clients {
		at[clientN(n)] = sent(p, b, clientN(n))
		count[at[clientN(n)]]++
	}
	for addr, n := range count {
		if n < clients/5 || n > clients/2 {
			t.Errorf("%v has %d of %d clients", addr, n, clients)
		}
	}
	for _, step := range []struct {
		set  string
		gone string
	}{{"1 2 3 4", ""}, {"1 2 3 4 5 6", ""}, {"2 3 4 5 6", "1"}, {"1 2 3 4 5 6", ""}} {
		p.Set(addrs(step.set))
		for n := range clients {
			was, is := at[clientN(n)], sent(p, b, clientN(n))
			if lost := step.gone != "" && was == addrs(step.gone)[0]; (was != is) != lost {
				t.Fatalf("endpoints %s: a client of %v went to %v", step.set, was, is)
			}
			at[clientN(n)] = is
		}
	}
}

func TestAClientIsItsWholeAddress(t *testing.T) {
	b := Balance{Policy: ClientIP}
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1 2 3 4 5 6 7 8"))
	seen := make(map[netip.AddrPort]bool)
	for n := range 64 {
		seen[sent(p, b, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(n)}))] = true
	}
	if len(seen) < 7 {
		t.Errorf("64 addresses of one network went to %d of 8 endpoints", len(seen))
	}
	if sent(p, b, netip.MustParseAddr("::ffff:10.1.2.3")) != sent(p, b, netip.MustParseAddr("10.1.2.3")) {
		t.Error("an address in IPv6 form is another client")
	}
}

func TestAClientIsForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Balance{Policy: ClientIP, Stay: time.Minute}
		p := new(Pools).Get(ID{"ns", "svc", "80"})
		p.Set(addrs("1"))
		for n := range 100 {
			sent(p, b, clientN(n))
		}
		p.Set(addrs("1 2 3"))
		moved := func() (n int) {
			for i := range 100 {
				if sent(p, b, clientN(i)) != addrs("1")[0] {
					n++
				}
			}
			return n
		}
		for range 3 {
			time.Sleep(time.Minute)
			if n := moved(); n != 0 {
				t.Fatalf("%d of 100 clients moved a minute after they came last", n)
			}
		}
		time.Sleep(time.Minute + 1)
		if n := moved(); n < 40 || n > 90 {
			t.Errorf("%d of 100 clients moved when their time was over, want some two thirds", n)
		}
	})
}

func TestReplicasSendNewClientsToTheSameEndpoints(t *testing.T) {
	b := Balance{Policy: ClientIP}
	one, other := new(Pools).Get(ID{"ns", "svc", "80"}), new(Pools).Get(ID{"ns", "svc", "80"})
	one.Set(addrs("1 2 3 4 5"))
	other.Set(addrs("5 3 1 2 4"))
	for n := range 1000 {
		if a, b := sent(one, b, clientN(n)), sent(other, b, clientN(n)); a != b {
			t.Fatalf("%v goes to %v here and to %v there", clientN(n), a, b)
		}
	}
}

func TestAClientComesBackFromADetour(t *testing.T) {
	b := Balance{Policy: ClientIP}
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1 2 3"))
	home := sent(p, b, clientN(1))
	if other := sent(p, b, clientN(1), home); other == home {
		t.Fatalf("%v was tried already", home)
	}
	if again := sent(p, b, clientN(1)); again != home {
		t.Errorf("the client of %v went to %v later", home, again)
	}
}

func TestTheMemoryOfClientsIsBounded(t *testing.T) {
	p := newClientIP(time.Hour)
	p.most = 100
	p.Changed(nil, endpointsOf(addrs("1 2 3")))
	pick := func(n int) { p.Pick(Pick{Exchange: &proxy.Exchange{Client: clientN(n)}}) }
	for n := range 1000 {
		pick(0) // who comes often
		pick(n)
	}
	if len(p.at) != 100 || len(p.clients) != 101 {
		t.Errorf("%d and %d clients are remembered, want 100", len(p.at), len(p.clients)-1)
	}
	for n, want := range map[int]bool{0: true, 1: false, 900: false, 901: true, 999: true} {
		if got := p.at[clientN(n).As16()] != 0; got != want {
			t.Errorf("client %d is remembered: %v, want %v", n, got, want)
		}
	}
}

func TestAFullMemoryOfClientsIsSmall(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	p := newClientIP(time.Hour)
	p.Changed(nil, endpointsOf(addrs("1 2 3")))
	e := new(proxy.Exchange)
	for n := range 2 * mostClients {
		e.Client = clientN(n)
		p.Pick(Pick{Exchange: e})
	}
	if used := heap() - before; used > 8<<20 || used < 3<<20 {
		t.Errorf("%d bytes for %d clients", used, mostClients)
	}
	runtime.KeepAlive(p)
}

func endpointsOf(all []netip.AddrPort) []*Endpoint {
	var endpoints []*Endpoint
	for _, addr := range all {
		endpoints = append(endpoints, &Endpoint{addr: addr})
	}
	return endpoints
}

func TestClientsComeWhileEndpointsChange(t *testing.T) {
	b := Balance{Policy: ClientIP}
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(addrs("1"))
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 2000 {
				sent(p, b, clientN(n*4+g))
			}
		})
	}
	for range 50 {
		p.Set(addrs("1 2 3"))
		p.Set(addrs("1 4"))
	}
	all.Wait()
	p.Set(addrs("1"))
	for n := range 8000 {
		if got := sent(p, b, clientN(n)); got != addrs("1")[0] {
			t.Fatalf("a client went to %v, which is gone", got)
		}
	}
}

func TestARememberedClientCostsNoAllocation(t *testing.T) {
	p := newClientIP(0)
	p.Changed(nil, endpointsOf(addrs("1 2 3")))
	e := &proxy.Exchange{Client: clientN(1)}
	if n := testing.AllocsPerRun(1000, func() { p.Pick(Pick{Exchange: e}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkClientIP(b *testing.B) {
	p := newClientIP(0)
	var all []*Endpoint
	for i := range 1000 {
		all = append(all, &Endpoint{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80)})
	}
	p.Changed(nil, all)
	e := new(proxy.Exchange)
	for n := range mostClients {
		e.Client = clientN(n)
		p.Pick(Pick{Exchange: e})
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		e.Client = clientN(n % mostClients)
		p.Pick(Pick{Exchange: e})
	}
}
