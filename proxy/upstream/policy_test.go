package upstream

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
)

// A simulation asks a pool's endpoints by a policy, one request after the other in virtual time, as a Transport does.
type simulation struct {
	pool   *Pool
	policy Policy
	took   func(*Endpoint) time.Duration // to answer
	every  time.Duration                 // from one request to the next, on average
	counts map[netip.AddrPort]int        // of requests
	under  []underWay
	number int
	now    time.Duration // virtual, since the start
	slept  time.Duration // of it; the bubble's clock is up to a millisecond behind, or 100,000 requests would take their time
}

// An underWay is a request that has no answer yet.
type underWay struct {
	endpoint    *Endpoint
	begun, ends time.Duration
}

// simulated begins a simulation of n endpoints; fifty requests are under way at a time if all take 10 ms.
func simulated(n int, b Balance) *simulation {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(numbered(n))
	return &simulation{
		pool: p, policy: p.policy(b), every: 200 * time.Microsecond,
		took: func(*Endpoint) time.Duration { return 10 * time.Millisecond },
	}
}

// run sends some requests and counts which endpoints they went to.
func (s *simulation) run(t *testing.T, requests int) {
	s.counts = make(map[netip.AddrPort]int)
	for range requests {
		s.advance(time.Duration(rand.ExpFloat64() * float64(s.every)))
		s.number++
		key := fmt.Sprint("/key/", s.number)
		e := s.pool.pick(s.policy, Pick{
			Exchange: &proxy.Exchange{Client: netip.AddrFrom4([4]byte{9, byte(s.number >> 16), byte(s.number >> 8), byte(s.number)}), Host: "a.test", Path: key},
			HashBy:   func(*http.Request) string { return key },
		})
		if e == nil {
			t.Fatal("nothing was picked")
		}
		s.counts[e.addr]++
		e.inFlight.Add(1)
		r := underWay{e, s.now, s.now + s.took(e)}
		at, _ := slices.BinarySearchFunc(s.under, r, func(a, b underWay) int { return cmp.Compare(a.ends, b.ends) })
		s.under = slices.Insert(s.under, at, r)
	}
}

// advance lets time pass, and requests end that end then.
func (s *simulation) advance(d time.Duration) {
	until := s.now + d
	for len(s.under) > 0 && s.under[0].ends <= until {
		r := s.under[0]
		s.under = s.under[1:]
		s.to(r.ends)
		r.endpoint.inFlight.Add(-1)
		took := r.ends - r.begun
		r.endpoint.latency.observe(&proxy.Attempt{Endpoint: r.endpoint.addr, Status: 200, Header: took, Total: took}, time.Now())
	}
	s.to(until)
}

func (s *simulation) to(now time.Duration) {
	if s.now = now; now-s.slept >= time.Millisecond {
		time.Sleep(now - s.slept)
		s.slept = now
	}
}

// of is the share of the requests that an endpoint had, as a multiple of an equal share.
func (s *simulation) of(e *Endpoint) float64 {
	total := 0
	for _, n := range s.counts {
		total += n
	}
	return float64(s.counts[e.addr]) * float64(s.pool.Len()) / float64(total)
}

// spread are the smallest and the greatest share.
func (s *simulation) spread() (least, most float64) {
	least = math.Inf(1)
	for _, e := range s.pool.members() {
		least, most = min(least, s.of(e)), max(most, s.of(e))
	}
	return least, most
}

// bounds are how far from an equal share an endpoint may be after 100,000 requests, of which fifty are under way at a time.
var bounds = map[PolicyName]float64{
	RoundRobin: 0.0002, // two requests of ten thousand: the counting begins and ends in the middle of a round
	LeastConn:  0.03, ShortestDelay: 0.03, NeverQueue: 0.03,
	EWMA:   0.10,
	Random: 0.06, // six standard deviations
	// What points on a ring give: with 160 of them a standard deviation of 8%.
	HashClient: 0.30, HashTarget: 0.30, HashKey: 0.30,
	HashSubset: 0.20, // each has part of three such shares
}

// TestPoliciesSpreadRequestsEvenly holds every policy to its bound while endpoints come and go.
func TestPoliciesSpreadRequestsEvenly(t *testing.T) {
	for _, name := range policyNames {
		synctest.Test(t, func(t *testing.T) {
			s := simulated(10, Balance{Policy: name})
			for _, step := range []struct {
				what  string
				addrs []netip.AddrPort
			}{
				{"ten", numbered(10)}, {"one more", numbered(11)}, {"another one less", numbered(11)[1:]}, {"a hundred", numbered(100)},
			} {
				s.pool.Set(step.addrs)
				s.run(t, 100_000)
				bound := bounds[name]
				if n := len(step.addrs); n > 50 { // a share is a tenth of what it was, and deviations are what they were at best
					bound *= 4
				}
				if least, most := s.spread(); least < 1-bound || most > 1+bound || len(s.counts) != len(step.addrs) {
					t.Errorf("%s with %s: %d endpoints have shares from %.4f to %.4f; want them within %.4f of 1", name, step.what, len(s.counts), least, most, bound)
				}
			}
		})
	}
}

// TestPoliciesWithASlowEndpoint: one of ten takes ten times as long as the others. Its share of the requests is what each
// policy says, also when another one has come and when another one has gone; to those that hash it is all the same.
func TestPoliciesWithASlowEndpoint(t *testing.T) {
	slow := numbered(10)[3]
	took := func(e *Endpoint) time.Duration {
		if e.addr == slow {
			return 100 * time.Millisecond
		}
		return 10 * time.Millisecond
	}
	for _, c := range []struct {
		policy      PolicyName
		least, most float64 // share of the slow one
		bound       float64 // of those of the others
	}{
		{RoundRobin, 0.99, 1.01, 0.01},
		{Random, 0.94, 1.06, 0.06},
		{LeastConn, 0.05, 0.30, 0.12}, // as many in flight as others have, so a tenth of their requests
		{ShortestDelay, 0.05, 0.30, 0.12},
		{NeverQueue, 0.05, 0.30, 0.12},
		{EWMA, 0.001, 0.30, 0.12},
		{HashClient, 0.70, 1.30, 0.30}, {HashTarget, 0.70, 1.30, 0.30}, {HashKey, 0.70, 1.30, 0.30},
		{HashSubset, 0.80, 1.20, 0.20},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, quick := simulated(10, Balance{Policy: c.policy}), simulated(10, Balance{Policy: c.policy})
			s.took = took
			for _, step := range []struct {
				what  string
				addrs []netip.AddrPort
			}{{"ten", numbered(10)}, {"one more", numbered(11)}, {"another one less", numbered(11)[1:]}} {
				s.pool.Set(step.addrs)
				s.run(t, 100_000)
				n := float64(len(step.addrs))
				share := float64(s.counts[slow]) * n / 100_000
				if share < c.least || share > c.most {
					t.Errorf("%s with %s: the slow endpoint has a share of %.3f, want %v to %v", c.policy, step.what, share, c.least, c.most)
				}
				fair := (n - share) / (n - 1)
				for _, e := range s.pool.members() {
					if share := s.of(e); e.addr != slow && math.Abs(share-fair) > c.bound*fair {
						t.Errorf("%s with %s: one of the others has a share of %.3f, want about %.3f", c.policy, step.what, share, fair)
					}
				}
				if c.policy.Hashes() && c.policy != HashSubset { // which draws, and so is not the same twice
					quick.pool.Set(step.addrs)
					quick.run(t, 100_000)
					if !maps.Equal(s.counts, quick.counts) {
						t.Errorf("%s with %s: requests go to %v where one endpoint is slow, and to %v where none is", c.policy, step.what, s.counts, quick.counts)
					}
				}
			}
		})
	}
}

// TestPoliciesGoByWeight: an endpoint of weight 4 among nine of weight 1.
func TestPoliciesGoByWeight(t *testing.T) {
	members := make([]Member, 10)
	for i, addr := range numbered(10) {
		members[i] = Member{addr, 1}
	}
	members[4].Weight = 4
	for name, bound := range map[PolicyName]float64{
		RoundRobin: 0.001, LeastConn: 0.10, ShortestDelay: 0.15, NeverQueue: 0.15, Random: 0.06, EWMA: 0.35, HashClient: 0.3, HashKey: 0.3,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := simulated(10, Balance{Policy: name})
			s.pool.SetMembers(members)
			s.run(t, 100_000)
			const want = 4.0 * 10 / 13
			if share := s.of(s.pool.members()[4]); math.Abs(share-want) > bound*want {
				t.Errorf("%s: weight 4 has a share of %.3f, want %.3f within %v", name, share, want, bound)
			}
			s.pool.Set(numbered(10)) // the weights are gone, the endpoints are the same
			s.run(t, 100_000)
			if share := s.of(s.pool.members()[4]); math.Abs(share-1) > bounds[name] {
				t.Errorf("%s: without weights the share is %.3f, want 1", name, share)
			}
		})
	}
}

// TestPoliciesTakeWhatFits: whatever else there is, the one endpoint that fits is found; when none does, one that had
// better be left alone; when all were tried, none.
func TestPoliciesTakeWhatFits(t *testing.T) {
	for _, name := range policyNames {
		for _, n := range []int{1, 2, 3, 50} {
			p := crowded(n, 1)
			policy, pick := p.policy(Balance{Policy: name}), manyPicks()[7]
			only := p.members()[n/2]
			for _, e := range p.members() {
				e.health.unwell.Store(e != only)
			}
			for range 100 {
				if e := p.pick(policy, pick); e != only {
					t.Fatalf("%s among %d: picked %v, want the only one that fits", name, n, e)
				}
			}
			only.health.unwell.Store(true)
			seen := make(map[netip.AddrPort]bool)
			for range n {
				e := p.pick(policy, pick)
				if e == nil || seen[e.addr] {
					t.Fatalf("%s among %d: picked %v after %d, want another that was not tried", name, n, e, len(seen))
				}
				seen[e.addr] = true
				pick.Exchange.Try(e.addr)
			}
			if e := p.pick(policy, pick); e != nil {
				t.Errorf("%s among %d: picked %v after all were tried", name, n, e.addr)
			}
		}
	}
}

func TestPoliciesOfAnEmptyPoolPickNothing(t *testing.T) {
	for _, name := range policyNames {
		p := new(Pools).Get(ID{"ns", "svc", "80"})
		policy, pick := p.policy(Balance{Policy: name}), manyPicks()[0]
		if e := cmp.Or(p.pick(policy, pick), policy.Pick(pick)); e != nil {
			t.Errorf("%s picked %v of none", name, e.addr)
		}
		p.Set(numbered(1))
		if p.pick(policy, pick) != p.members()[0] {
			t.Errorf("%s did not pick the first that came", name)
		}
		if p.Set(nil); p.pick(policy, pick) != nil || policy.Pick(pick) != nil {
			t.Errorf("%s picked after all had gone", name)
		}
	}
}

func TestPoliciesAllocateNothing(t *testing.T) {
	for _, name := range policyNames {
		for _, n := range []int{1, 10, 1000} {
			p := crowded(n, 1)
			p.members()[0].returned()
			policy, picks := p.policy(Balance{Policy: name, SlowStart: time.Hour}), manyPicks()
			picks[0].Exchange.Try(p.members()[0].addr)
			i := 0
			if allocs := testing.AllocsPerRun(1000, func() { p.pick(policy, picks[i%10]); i++ }); allocs != 0 {
				t.Errorf("%s among %d allocates %v times", name, n, allocs)
			}
		}
	}
}

// TestPoliciesAmongManyCallers picks while endpoints come and go and fall ill. One endpoint is always there, and well.
func TestPoliciesAmongManyCallers(t *testing.T) {
	for _, name := range policyNames {
		p := crowded(20, 0)
		policy := p.policy(Balance{Policy: name, SlowStart: time.Second})
		var done, all sync.WaitGroup
		stop := make(chan struct{})
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				p.Set(numbered(1 + i%20))
				members := p.members()
				last := members[len(members)-1]
				last.health.unwell.Store(last != members[0] && i%2 == 0)
				last.returned()
			}
		})
		for range 4 {
			done.Go(func() {
				for _, pick := range slices.Concat(manyPicks(), manyPicks(), manyPicks(), manyPicks()) {
					e := p.pick(policy, pick)
					if e == nil {
						t.Errorf("%s: nothing was picked", name)
						return
					}
					e.inFlight.Add(1)
					e.latency.observe(&proxy.Attempt{Status: 200, Header: time.Millisecond}, time.Now())
					e.inFlight.Add(-1)
				}
			})
		}
		done.Wait()
		close(stop)
		all.Wait()
	}
}

func TestPolicyWords(t *testing.T) {
	for word, want := range map[string]PolicyName{
		"round_robin": RoundRobin, "least_conn": LeastConn, "ewma": EWMA, "random": Random, "chash": HashKey, "chashsubset": HashSubset,
		"rr": RoundRobin, "wrr": RoundRobin, "lc": LeastConn, "wlc": LeastConn, "sh": HashClient, "dh": HashTarget, "sed": ShortestDelay, "nq": NeverQueue,
		"lblc": "", "mh": "", "": "", "client-ip": "", "Round_Robin": "",
	} {
		if got, known := PolicyWord(word); got != want || known != (want != "") {
			t.Errorf("%q stands for %q, known %v; want %q", word, got, known, want)
		}
	}
}

// TestRoutesThatMeanTheSameTakeTurnsTogether, in whatever words.
func TestRoutesThatMeanTheSameTakeTurnsTogether(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	for _, c := range []struct {
		a, b   Balance
		shared bool
	}{
		{Balance{}, Balance{Policy: RoundRobin}, true},
		{Balance{}, Balance{Subset: 7, Stay: time.Hour}, true},
		{Balance{}, Balance{SlowStart: time.Hour}, false},
		{Balance{}, Balance{Policy: LeastConn}, false},
		{Balance{Policy: HashSubset}, Balance{Policy: HashSubset, Subset: 3, SlowStart: time.Hour}, true},
		{Balance{Policy: HashSubset}, Balance{Policy: HashSubset, Subset: 4}, false},
		{Balance{Policy: ClientIP}, Balance{Policy: ClientIP, Stay: time.Minute}, false},
	} {
		if shared := p.policy(c.a) == p.policy(c.b); shared != c.shared {
			t.Errorf("%+v and %+v share a policy: %v, want %v", c.a, c.b, shared, c.shared)
		}
	}
}

// TestPoliciesThatNobodyHasAreLetGo, and those that somebody has keep their place and hear of changes.
func TestPoliciesThatNobodyHasAreLetGo(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.Set(numbered(3))
	route := New(p, Options{})
	p.pick(route.policy, manyPicks()[0])
	for n := range 100 {
		New(p, Options{Balance: Balance{Policy: LeastConn, SlowStart: time.Duration(n+1) * time.Second}})
	}
	runtime.GC()
	p.Set(numbered(4))
	if n := len(p.policies); n != 1 {
		t.Errorf("the pool keeps %d policies, want that of the one route there is", n)
	}
	for i, want := range []int{1, 2, 3, 0} {
		if e := p.pick(New(p, Options{}).policy, manyPicks()[0]); e != p.members()[want] {
			t.Errorf("turn %d is that of %v, want that of %v", i, e.addr, p.members()[want].addr)
		}
	}
	runtime.KeepAlive(route)
}
