package upstream

import (
	"slices"
	"sync/atomic"
)

// roundRobin gives every endpoint its turn. The zero value begins with the first.
type roundRobin struct {
	turn atomic.Uint64 // taken modulo the number of endpoints
}

// Pick takes the endpoint whose turn it is, or the next after it that fits.
func (p *roundRobin) Pick(pick Pick) *Endpoint {
	n := uint64(len(pick.Endpoints))
	first := p.turn.Add(1) - 1
	for i := range n {
		if endpoint := pick.Endpoints[(first+i)%n]; pick.Fits(endpoint) {
			return endpoint
		}
	}
	return nil
}

// Changed moves the turn to where the endpoint that would have been next now stands, or else the nearest after it that
// stayed. Counting on modulo another length would jump: the one just asked might be asked again, others left out.
func (p *roundRobin) Changed(old, now []*Endpoint) {
	n := uint64(len(old))
	turn := p.turn.Load()
	for i := range n {
		if at := slices.Index(now, old[(turn+i)%n]); at >= 0 {
			p.turn.Store(uint64(at))
			return
		}
	}
	p.turn.Store(0)
}
