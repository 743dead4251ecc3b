package upstream

import (
	"math/rand/v2"
	"sync/atomic"
)

// subsets picks any of the few endpoints that a key belongs to, so that a key with more requests than one endpoint can
// take still meets caches that are warm.
//
// The endpoints of a key are the one that the ring names and those that follow it in the circle. With the circle a b c d e
// and sets of three, keys of b go to b, c or d. ingress-nginx cuts the endpoints into sets by their order instead, so that
// one that comes or goes puts most of the others into other sets; here each endpoint stands in as many sets as a set has
// endpoints, and only those sets change.
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
	n := len(r.circle)
	first := r.of(r.at(routeKey(pick)))
	size := min(p.size, n)
	for range draws {
		if e := r.circle[(first+rand.IntN(size))%n]; pick.Fits(e) {
			return e
		}
	}
	return pick.from(r.circle, first)
}

// Changed makes the ring of other endpoints.
func (p *subsets) Changed(_, now []*Endpoint) { p.ring.Store(newRing(now)) }
