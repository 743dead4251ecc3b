package upstream

import (
	"math/rand/v2"
	"sync/atomic"
)

// subsets picks any of the few endpoints that a key belongs to, so that a key with more requests than one endpoint can
// take still meets caches that are warm.
//
// The endpoints of a key are the one that the ring names and those that come next on it. With the points 10 b, 35 a, 60 b,
// 90 c and sets of two, a key at 5 goes to b or a, one at 50 to b or c. ingress-nginx cuts the endpoints into sets by their
// order instead, so that one that comes or goes puts most of the others into other sets; here it is one of n that a set has
// or has not, and no request moves that it does not win or lose.
type subsets struct {
	size int
	ring atomic.Pointer[ring]
}

const usualSubset = 3

// Pick draws one of the key's endpoints that fits; where none does, it takes the next in the circle.
func (p *subsets) Pick(pick Pick) *Endpoint {
	r := p.ring.Load()
	if r == nil || len(r.points) == 0 {
		return nil
	}
	point := r.at(routeKey(pick))
	size := min(p.size, len(r.circle))
	for range draws {
		if e := r.circle[r.next(point, rand.IntN(size))]; pick.Fits(e) {
			return e
		}
	}
	return pick.from(r.circle, r.of(point))
}

// Changed makes the ring of other endpoints.
func (p *subsets) Changed(_, now []*Endpoint) { p.ring.Store(newRing(now)) }
