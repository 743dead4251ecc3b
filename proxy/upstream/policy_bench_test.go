package upstream

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"sallyport/proxy"
)

// policyNames are all of them.
var policyNames = []PolicyName{RoundRobin, LeastConn, ShortestDelay, NeverQueue, EWMA, Random, HashClient, HashTarget, HashKey, HashSubset}

// BenchmarkPick is one pick among endpoints that were asked before and have some requests in flight, by requests that are
// not alike. On one core of a server, among ten and a thousand: round_robin and random 20 ns, ewma 35, those that hash 35 to
// 50, least_conn, sed and nq 50 to 60.
func BenchmarkPick(b *testing.B) {
	for _, name := range policyNames {
		for _, n := range []int{10, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p := crowded(n, 1)
				policy, picks := p.policy(Balance{Policy: name}), manyPicks()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if p.pick(policy, picks[i%len(picks)]) == nil {
						b.Fatal("nothing was picked")
					}
				}
			})
		}
	}
}

// crowded is a pool of n endpoints with requests in flight at all of them.
func crowded(n, inFlight int) *Pool {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(numbered(n))
	for i, e := range p.members() {
		e.inFlight.Store(int64(inFlight + i%5))
		e.latency.packed.Store(pack(0.001*float64(1+i%7), ticks(time.Now())))
	}
	return p
}

// numbered are n addresses.
func numbered(n int) []netip.AddrPort {
	all := make([]netip.AddrPort, n)
	for i := range all {
		all[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8080)
	}
	return all
}

// manyPicks are picks for 1,024 clients, paths and keys.
func manyPicks() []Pick {
	all := make([]Pick, 1024)
	for i := range all {
		key := fmt.Sprintf("/orders/%d/lines?page=%d", i*7919, i)
		all[i] = Pick{
			Exchange: &proxy.Exchange{Client: netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), Host: "shop.example.org", Path: key},
			HashBy:   func(*http.Request) string { return key },
		}
	}
	return all
}
