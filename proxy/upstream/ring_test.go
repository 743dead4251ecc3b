package upstream

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sallyport/proxy"
)

// homesOf are the endpoints of 100,000 clients, paths and keys.
func homesOf(p *Pool, b Balance) []netip.AddrPort {
	policy := p.policy(b)
	all := make([]netip.AddrPort, 100_000)
	for i := range all {
		all[i] = p.pick(policy, numberedPick(i)).addr
	}
	return all
}

// numberedPick is a pick of a client, a path and a key that no other number has.
func numberedPick(i int) Pick {
	key := fmt.Sprint("session-", i)
	return Pick{
		Exchange: &proxy.Exchange{Client: netip.AddrFrom4([4]byte{9, byte(i >> 16), byte(i >> 8), byte(i)}), Host: "a.test", Path: key},
		HashBy:   func(*http.Request) string { return key },
	}
}

// TestOneEndpointMovesItsOwnShareOfTheKeys holds the moves to 1/n and three per cent, and to the endpoint that came or went,
// while endpoints are slow and busy to different degrees.
func TestOneEndpointMovesItsOwnShareOfTheKeys(t *testing.T) {
	for _, b := range []Balance{{Policy: HashClient}, {Policy: HashTarget}, {Policy: HashKey}, {Policy: HashSubset, Subset: 1}} {
		for _, n := range []int{2, 3, 10, 100} {
			p := new(Pools).Get(ID{"ns", "svc", "80"})
			p.Set(numbered(n))
			before := homesOf(p, b)
			for i, e := range p.members() {
				e.inFlight.Store(int64(7 * i))
				e.latency.packed.Store(pack(float64(1+i), ticks(time.Now())))
			}
			if !slices.Equal(homesOf(p, b), before) {
				t.Errorf("%s, %d: keys moved because endpoints became slow", b.Policy, n)
			}
			added := numbered(n + 1)
			p.Set(added)
			after := homesOf(p, b)
			moved := 0
			for i := range before {
				if before[i] != after[i] {
					if moved++; after[i] != added[n] {
						t.Fatalf("%s, %d: a key moved from %v to %v, though %v came", b.Policy, n, before[i], after[i], added[n])
					}
				}
			}
			if share := float64(moved) / float64(len(before)); share > 1/float64(n+1)+0.03 || moved == 0 {
				t.Errorf("%s, %d and one more: %.3f of the keys moved, want no more than 1/%d and 0.03", b.Policy, n, share, n+1)
			}
			p.Set(added[1:]) // another one goes
			moved = 0
			for i, home := range homesOf(p, b) {
				if after[i] != home {
					if moved++; after[i] != added[0] {
						t.Fatalf("%s, %d: a key of %v moved, though %v went", b.Policy, n, after[i], added[0])
					}
				}
			}
			if share := float64(moved) / float64(len(before)); share > 1/float64(n+1)+0.03 || moved == 0 {
				t.Errorf("%s, %d and one less: %.3f of the keys moved, want no more than 1/%d and 0.03", b.Policy, n+1, share, n+1)
			}
		}
	}
}

// TestOneEndpointMovesItsOwnShareOfSubsets: of the requests of a set that an endpoint comes into or leaves, a third moves.
func TestOneEndpointMovesItsOwnShareOfSubsets(t *testing.T) {
	const keys, n = 5000, 10
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	setsOf := func() []map[netip.AddrPort]bool {
		policy := p.policy(Balance{Policy: HashSubset})
		all := make([]map[netip.AddrPort]bool, keys)
		for i := range all {
			all[i] = make(map[netip.AddrPort]bool)
			pick := numberedPick(i)
			for range 60 { // one is missed once in 10^10
				all[i][p.pick(policy, pick).addr] = true
			}
		}
		return all
	}
	p.Set(numbered(n))
	before := setsOf()
	for _, addrs := range [][]netip.AddrPort{numbered(n + 1), numbered(n + 1)[1:]} {
		p.Set(addrs)
		after := setsOf()
		moved := 0
		for i := range after {
			for addr := range after[i] {
				if !before[i][addr] {
					moved++
				}
			}
		}
		if share := float64(moved) / (keys * usualSubset); share > 1.0/n+0.03 || moved == 0 {
			t.Errorf("%d endpoints: %.3f of the requests moved, want no more than 1/%d and 0.03", len(addrs), share, n)
		}
		before = after
	}
}

// TestAKeyOfAnEndpointThatIsAwayIsSpread: its keys do not all go to one other, and come back with it.
func TestAKeyOfAnEndpointThatIsAwayIsSpread(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(numbered(6))
	before := homesOf(p, Balance{Policy: HashKey})
	away := p.members()[2]
	away.health.unwell.Store(true)
	heirs := make(map[netip.AddrPort]int)
	total := 0
	for i, home := range homesOf(p, Balance{Policy: HashKey}) {
		switch {
		case before[i] == away.addr:
			heirs[home]++
			total++
		case before[i] != home:
			t.Fatalf("a key of %v moved to %v, though %v is away", before[i], home, away.addr)
		}
	}
	for addr, n := range heirs {
		if share := float64(n) / float64(total); share < 0.1 || share > 0.35 {
			t.Errorf("%v has %.2f of the keys, want about a fifth", addr, share)
		}
	}
	if len(heirs) != 5 {
		t.Errorf("the keys went to %d endpoints, want all five", len(heirs))
	}
	away.health.unwell.Store(false)
	if !slices.Equal(homesOf(p, Balance{Policy: HashKey}), before) {
		t.Error("the keys did not come back")
	}
}

// TestReplicasAgree: the order in which endpoints came does not matter, nor does the process. The hashes are those of the
// first version, and must stay: replicas of two versions serve together.
func TestReplicasAgree(t *testing.T) {
	one, other := new(Pools).Get(ID{"ns", "svc", "80"}), new(Pools).Get(ID{"ns", "svc", "80"})
	list := numbered(20)
	one.Set(list)
	slices.Reverse(list)
	other.Set(list[:10])
	other.Set(list)
	if !slices.Equal(homesOf(one, Balance{Policy: HashKey}), homesOf(other, Balance{Policy: HashKey})) {
		t.Error("two replicas send a key to different endpoints")
	}
	circle := func(p *Pool) (all []netip.AddrPort) {
		for _, e := range newRing(p.members()).circle {
			all = append(all, e.addr)
		}
		return all
	}
	if a, b := circle(one), circle(other); !slices.Equal(a, b) {
		t.Errorf("two replicas have the endpoints in the order %v and %v", a, b)
	}
	for text, want := range map[string]uint64{
		"": 0x48218226ff3cd4bf, "a": 0x386d66db423d8fa, "/orders/1": 0xef412563aea3913d, "a key of more than sixteen bytes": 0x375c4c7c66c0dc27,
	} {
		if got := hashText(0, text); got != want {
			t.Errorf("the hash of %q is %#x, want %#x", text, got, want)
		}
	}
	if got, want := hashAddrPort(netip.MustParseAddrPort("10.0.0.1:80")), uint64(0x22da7fe1349ca8e4); got != want {
		t.Errorf("the hash of an address is %#x, want %#x", got, want)
	}
}

func TestHashesTellKeysApart(t *testing.T) {
	seen := make(map[uint64]string)
	note := func(what string, hash uint64) {
		if before, twice := seen[hash]; twice {
			t.Errorf("%s and %s have the same hash", before, what)
		}
		seen[hash] = what
	}
	long := "0123456789012345678901234567890123456789"
	for n := range len(long) {
		note(fmt.Sprintf("%d bytes", n), hashText(0, long[:n]))
		note(fmt.Sprintf("%d bytes and a zero byte", n), hashText(0, long[:n]+"\x00"))
	}
	note("ab, c", hashText(hashText(0, "ab"), "c"))
	note("a, bc", hashText(hashText(0, "a"), "bc"))
	note("b, ac", hashText(hashText(0, "b"), "ac"))
	if a, b := hashAddr(netip.MustParseAddr("10.0.0.1")), hashAddr(netip.MustParseAddr("::ffff:10.0.0.1")); a != b {
		t.Error("an address has two hashes")
	}
}

func TestWhatHashingGoesBy(t *testing.T) {
	base := func() Pick {
		p := manyPicks()[0]
		p.HashBy = func(*http.Request) string { return "k" }
		return p
	}
	changes := map[string]func(*Pick){
		"client": func(p *Pick) { p.Exchange.Client = netip.MustParseAddr("192.0.2.99") },
		"host":   func(p *Pick) { p.Exchange.Host = "other.test" },
		"path":   func(p *Pick) { p.Exchange.Path = "/other" },
		"key":    func(p *Pick) { p.HashBy = func(*http.Request) string { return "" } },
	}
	for name, c := range map[string]struct {
		key  func(Pick) uint64
		goes []string
	}{
		"sh": {clientKey, []string{"client"}}, "dh": {targetKey, []string{"host", "path"}}, "chash": {routeKey, []string{"key"}},
	} {
		for what, change := range changes {
			p := base()
			change(&p)
			if differs := c.key(p) != c.key(base()); differs != slices.Contains(c.goes, what) {
				t.Errorf("%s: another %s is another key: %v", name, what, differs)
			}
		}
	}
	nothing := base()
	if nothing.HashBy = nil; routeKey(nothing) != clientKey(nothing) {
		t.Error("a route that says nothing does not go by the client")
	}
}

// TestAKeyHasASubset: its requests go to as many endpoints as a set has, equally often, and one that goes changes few sets.
func TestAKeyHasASubset(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(numbered(10))
	for size, want := range map[int]int{0: 3, 1: 1, 2: 2, 5: 5, 50: 10} {
		policy := p.policy(Balance{Policy: HashSubset, Subset: size})
		counts := make(map[netip.AddrPort]int)
		for range 10_000 {
			counts[p.pick(policy, manyPicks4).addr]++
		}
		if len(counts) != want {
			t.Errorf("a set of %d: the key has %d endpoints, want %d", size, len(counts), want)
		}
		for addr, n := range counts {
			if fair := 10_000 / want; n < fair*8/10 || n > fair*12/10 {
				t.Errorf("a set of %d: %v has %d of 10,000 requests, want about %d", size, addr, n, fair)
			}
		}
	}
	sets := func() []string {
		r := newRing(p.members())
		all := make([]string, 10_000)
		for i := range all {
			at := r.at(hashText(0, fmt.Sprint(i)))
			var set []string
			for k := range 3 {
				set = append(set, r.circle[r.next(at, k)].addr.String())
			}
			slices.Sort(set)
			all[i] = fmt.Sprint(set)
		}
		return all
	}
	before := sets()
	p.Set(numbered(9))
	changed := 0
	for i, set := range sets() {
		if set != before[i] {
			changed++
		}
	}
	if share := float64(changed) / float64(len(before)); share > 0.4 || share < 0.2 { // three of ten sets held it
		t.Errorf("%.2f of the keys have another set, want about 0.3", share)
	}
}

var manyPicks4 = manyPicks()[4]

func TestWeightsOnARingMoveFewKeys(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	members := make([]Member, 10)
	for i, addr := range numbered(10) {
		members[i] = Member{addr, 1 + i%3}
	}
	p.SetMembers(members)
	before := homesOf(p, Balance{Policy: HashKey})
	p.SetMembers(members[:9])
	moved := 0
	for i, home := range homesOf(p, Balance{Policy: HashKey}) {
		if home != before[i] {
			moved++
		}
	}
	if share := float64(moved) / float64(len(before)); share > 1.0/10+0.05 {
		t.Errorf("%.3f of the keys moved, want no more than 1/10 and 0.05", share)
	}
}

// TestTheRingIsSearchedRight holds the table of starts against looking from the first point on.
func TestTheRingIsSearchedRight(t *testing.T) {
	for _, n := range []int{1, 2, 3, 17, 100} {
		p := new(Pools).Get(ID{"ns", "svc", "80"})
		p.Set(numbered(n))
		r := newRing(p.members())
		if len(r.points) != n*pointsEach || !slices.IsSorted(r.points) {
			t.Fatalf("%d: %d points, sorted %v", n, len(r.points), slices.IsSorted(r.points))
		}
		for i := range 20_000 {
			hash := scramble(uint64(i))
			switch {
			case i < len(r.points):
				hash = r.points[i]
			case i == len(r.points):
				hash = 0
			case i == len(r.points)+1:
				hash = 1<<64 - 1
			}
			want := max(0, slices.IndexFunc(r.points, func(point uint64) bool { return point>>indexBits >= hash>>indexBits }))
			if got := r.at(hash); got != want {
				t.Fatalf("%d: %#x is at %d, want %d", n, hash, got, want)
			}
		}
	}
}
