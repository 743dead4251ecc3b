package upstream

import (
	"math"
	"math/rand/v2"
)

// leastConn picks the endpoint with the fewest requests in flight for its weight. Of several the one whose turn it is comes
// first, so that a pool at rest is gone round as by round robin.
//
// Up to [sampled] endpoints it looks at all of them. Of more it looks at the one whose turn it is and at others drawn at
// random, [sampled] in all: looking at a thousand counters would take ten times as long as all the rest of a pick. What it
// takes is then among the least busy quarter in nine picks of ten, and among the busier half in one of 256. (Mitzenmacher,
// The power of two choices in randomized load balancing, 1996, has two choices already nearly as good as all.)
type leastConn struct {
	rotating
	slow slowStart

	// The schedulers sed and nq of IPVS are this one with another measure.
	delay     bool // the request that is to come counts too: an idle endpoint of weight 1 is no better than one of 10 with nine
	idleFirst bool // an endpoint with nothing in flight is as good as can be
}

const sampled = 8

// Pick looks for the least busy endpoint that fits.
func (p *leastConn) Pick(pick Pick) *Endpoint {
	r := p.current()
	if r == nil {
		return nil
	}
	at, n := r.next(), len(r.members)
	from, step, count := at+1, 1, n-1
	if n > sampled {
		// One draw gives a start and a step. With another start every time, two endpoints that are always busy together are
		// not always in one sample.
		drawn := rand.Uint64()
		from, step, count = int((drawn>>32)*uint64(n)>>32), 1+int((drawn&math.MaxUint32)*uint64(n-1)>>32), sampled-1
	}
	if !r.weighted {
		if e := least(r.members, at, from, step, count); pick.Fits(e) && (p.slow == 0 || p.slow.of(e) == 1) {
			return e
		}
	}
	s := search{policy: p, rotation: r}
	if s.look(&pick, r.order, at, 0, 1) {
		return s.best
	}
	if n > sampled {
		s.look(&pick, r.members, from, step, count)
	}
	if n <= sampled || s.best == nil && s.spare == nil {
		s.look(&pick, r.members, (at+1)%n, 1, n)
	}
	if s.best == nil {
		return s.spare
	}
	return s.best
}

// least is the endpoint with the fewest requests in flight of one and of a few others, from a second one on in equal steps;
// of several the first. Whether it fits is not looked at, but nearly always it does. It is found without a jump that the
// processor could guess wrong, which makes a pick one of 55 ns where a search takes 80.
func least(members []*Endpoint, first, from, step, count int) *Endpoint {
	var seen [sampled]*Endpoint
	seen[0] = members[first]
	best := seen[0].inFlight.Load() * sampled // the load above the place in seen
	if best == 0 {
		return seen[0]
	}
	for i, at := 1, from; i <= count; i++ {
		if at >= len(members) {
			at -= len(members)
		}
		e := members[at]
		seen[i%sampled] = e
		best = min(best, e.inFlight.Load()*sampled+int64(i))
		at += step
	}
	return seen[best%sampled]
}

// A search is the way to the best endpoint of one pick.
type search struct {
	policy   *leastConn
	rotation *rotation

	best   *Endpoint // nil: none yet
	load   int64     // of best: requests, which count by its weight
	weight int64     // of best
	spare  *Endpoint // declined; better than none
}

// look goes round among some endpoints, from one of them on in equal steps, and makes the best the best one if it fits. It
// reports whether there can be no better one.
func (s *search) look(pick *Pick, among []*Endpoint, from, step, count int) (ideal bool) {
	p := s.policy
	for at := from; count > 0; count-- {
		e := among[at]
		if at += step; at >= len(among) {
			at -= len(among)
		}
		load, weight := e.inFlight.Load(), int64(1)
		if s.rotation.weighted {
			weight = int64(e.weight())
		}
		if p.delay && (load > 0 || !p.idleFirst) {
			load++
		}
		if s.best != nil && load*s.weight >= s.load*weight || e == s.spare || !pick.Fits(e) {
			continue
		}
		if p.slow != 0 && p.declines(e, len(s.rotation.members)) {
			s.spare = e
			continue
		}
		s.best, s.load, s.weight = e, load, weight
		if load == 0 {
			return true
		}
	}
	return false
}

// declines is slowStart's for a policy to which a new endpoint, with nothing in flight, is the best of all again and again:
// a tenth of all requests would be too much. It has a tenth of an equal share of them, as long as it wins whenever it does
// not decline; the nearer it comes to its share, the more the requests it has in flight speak for others.
func (p *leastConn) declines(e *Endpoint, among int) bool {
	part := p.slow.of(e)
	return part < 1 && rand.Float64() >= part/(part+float64(among)*(1-part))
}
