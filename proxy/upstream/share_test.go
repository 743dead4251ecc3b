package upstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
)

// TestSlowStartGrows: an endpoint that joins nine others has its share bit by bit, and so has one that comes back.
func TestSlowStartGrows(t *testing.T) {
	const window = 100 * time.Second
	for _, name := range []PolicyName{RoundRobin, LeastConn, ShortestDelay, NeverQueue, EWMA, Random} {
		synctest.Test(t, func(t *testing.T) {
			s := simulated(9, Balance{Policy: name, SlowStart: window})
			s.every = 2 * time.Millisecond
			s.took = func(*Endpoint) time.Duration { return 100 * time.Millisecond }
			s.run(t, 1000)
			if least, _ := s.spread(); least < 0.5 {
				t.Errorf("%s: endpoints that came together are slow to start, one has a share of %.2f", name, least)
			}
			s.pool.Set(numbered(10))
			comer := s.pool.members()[9]
			grows := func(what string) {
				before := 0.0
				for i, most := range []float64{0.35, 0.55, 0.75, 0.95, 1.2} { // in each fifth of the window
					if name == EWMA {
						most = min(1.5*most, 1.2) // where it does not decline it has the fewest in flight, and is preferred
					}
					s.run(t, 10_000)
					share := s.of(comer)
					if share > most || share < before*0.9 || share < 0.03 {
						t.Errorf("%s, %s: in the %d. fifth the share is %.3f, want more than %.3f and no more than %.2f", name, what, i+1, share, before, most)
					}
					before = share
				}
				if s.run(t, 10_000); s.of(comer) < 0.85 {
					t.Errorf("%s, %s: at the end the share is %.3f, want about 1", name, what, s.of(comer))
				}
			}
			grows("joined")
			comer.returned()
			grows("came back")
		})
	}
}

// TestSlowStartIsOnlyWhereItIsAskedFor: without it, for policies that hash, and where nobody else is there, a share is a share.
func TestSlowStartIsOnlyWhereItIsAskedFor(t *testing.T) {
	for _, b := range []Balance{{}, {Policy: EWMA}, {Policy: HashKey, SlowStart: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			s := simulated(3, b)
			s.pool.Set(numbered(4))
			s.run(t, 10_000)
			if share := s.of(s.pool.members()[3]); share < 0.6 {
				t.Errorf("%+v: the new endpoint has a share of %.2f", b, share)
			}
		})
	}
	for _, name := range policyNames {
		p := crowded(1, 0)
		p.members()[0].returned()
		policy := p.policy(Balance{Policy: name, SlowStart: time.Hour})
		for i, pick := range manyPicks() {
			if p.pick(policy, pick) == nil {
				t.Fatalf("%s: the only endpoint declined request %d", name, i)
			}
		}
	}
}

func TestWeightsAreSpreadEvenly(t *testing.T) {
	for weights, want := range map[string]string{
		"1 1 1":   "123123",
		"0 -1 1":  "123123", // all of them 1
		"5 1 1":   "12111311211131",
		"10 20":   "212212",
		"2 2 2":   "123123",
		"1 65537": strings.Repeat("2", 14), // as good as none; the first has its one turn in the middle
	} {
		p := new(Pools).Get(ID{"ns", "svc", "80"})
		p.SetMembers(weighed(weights))
		if got := strings.ReplaceAll(picks(p, len(want)), " ", ""); got != want {
			t.Errorf("weights %s: picked %s, want %s", weights, got, want)
		}
	}
}

// TestManyLightEndpointsAreNotInARow: one of weight 100 has a turn at least every twenty among a thousand of weight 1.
func TestManyLightEndpointsAreNotInARow(t *testing.T) {
	members := make([]Member, 1001)
	for i, addr := range numbered(1001) {
		members[i] = Member{addr, 1}
	}
	members[0].Weight = 100
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	p.SetMembers(members)
	policy, last := p.policy(Balance{}), 0
	for i := range 3000 {
		if p.pick(policy, Pick{Exchange: new(proxy.Exchange)}) == p.members()[0] {
			last = i
		} else if i-last > 20 {
			t.Fatalf("%d turns without it, up to the %d.", i-last, i)
		}
	}
}

// TestWeightsChangeInPlace: other weights are another order, which goes on with the endpoint that was next.
func TestWeightsChangeInPlace(t *testing.T) {
	p := new(Pools).Get(ID{"ns", "svc", "80"})
	for _, step := range []struct{ weights, want string }{
		{"1 1 1", "1 2 3 1"}, {"1 2 1", "2 1 2 3 2"}, {"1 2 1", "1"}, {"1 1 1", "2 3 1"},
	} {
		p.SetMembers(weighed(step.weights))
		if got := picks(p, len(strings.Fields(step.want))); got != step.want {
			t.Errorf("weights %s: picked %s, want %s", step.weights, got, step.want)
		}
	}
}

// weighed are as many members as there are weights.
func weighed(weights string) []Member {
	var all []Member
	for i, text := range strings.Fields(weights) {
		weight := 0
		negative := strings.HasPrefix(text, "-")
		for _, digit := range strings.TrimPrefix(text, "-") {
			weight = 10*weight + int(digit-'0')
		}
		if negative {
			weight = -weight
		}
		all = append(all, Member{addrs(string('1' + rune(i)))[0], weight})
	}
	return all
}
