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
	s := search{policy: p, rotation: r}
	turn, n := r.next(), len(r.members)
	if s.isBetter(turn) && s.take(turn, pick) {
		return turn
	}
	if n > sampled {
		// One draw gives a start and a step. With another start every time, two endpoints that are always busy together are
		// not always in one sample.
		drawn := rand.Uint64()
		at, step := int((drawn>>32)*uint64(n)>>32), 1+int((drawn&math.MaxUint32)*uint64(n-1)>>32)
		for range sampled - 1 {
			if e := r.members[at]; s.isBetter(e) && s.take(e, pick) {
				return e
			}
			if at += step; at >= n {
				at -= n
			}
		}
	}
	if n <= sampled || s.best == nil && s.spare == nil {
		at := int(r.turn.Load() % uint64(n))
		for range n {
			if e := r.members[at]; e != turn && s.isBetter(e) && s.take(e, pick) {
				return e
			}
			if at++; at == n {
				at = 0
			}
		}
	}
	if s.best == nil {
		return s.spare
	}
	return s.best
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

// isBetter reports whether an endpoint would be better than the best one.
func (s *search) isBetter(e *Endpoint) bool {
	if s.best == nil {
		return true
	}
	load, weight := s.measure(e)
	return load*s.weight < s.load*weight
}

// take makes an endpoint the best one if it fits, and reports whether there can be no better one.
func (s *search) take(e *Endpoint, pick Pick) bool {
	if !pick.Fits(e) {
		return false
	}
	if s.policy.slow != 0 && s.policy.declines(e, len(s.rotation.members)) {
		s.spare = e
		return false
	}
	s.best = e
	s.load, s.weight = s.measure(e)
	return s.load == 0
}

func (s *search) measure(e *Endpoint) (load, weight int64) {
	load, weight = e.inFlight.Load(), 1
	if s.rotation.weighted {
		weight = int64(e.weight())
	}
	if s.policy.delay && (load > 0 || !s.policy.idleFirst) {
		load++
	}
	return load, weight
}

// declines is slowStart's for a policy to which a new endpoint, with nothing in flight, is the best of all again and again:
// a tenth of all requests would be too much. It has a tenth of an equal share of them, as long as it wins whenever it does
// not decline; the nearer it comes to its share, the more the requests it has in flight speak for others.
func (p *leastConn) declines(e *Endpoint, among int) bool {
	part := p.slow.of(e)
	return part < 1 && rand.Float64() >= part/(part+float64(among)*(1-part))
}
