package upstream

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"sallyport/proxy"
)

// A Policy decides which endpoint takes an exchange. It belongs to one pool and is called from many goroutines.
type Policy interface {
	// Pick returns one of endpoints, which are at least one, or nil when e has tried them all: e.Attempts says which. One
	// that is set aside is for when there is no other. It allocates nothing.
	Pick(e *proxy.Exchange, endpoints []*Endpoint) *Endpoint

	// Changed is told when the endpoints of the pool became others, so that a policy with a place can keep it.
	Changed(old, now []*Endpoint)
}

// roundRobin gives every endpoint its turn. The zero value begins with the first.
type roundRobin struct {
	turn atomic.Uint64 // taken modulo the number of endpoints
}

// Pick takes the endpoint whose turn it is. One that the exchange tried already is not taken, and one that is set aside
// only if there is no other.
func (p *roundRobin) Pick(e *proxy.Exchange, endpoints []*Endpoint) *Endpoint {
	n := uint64(len(endpoints))
	first := p.turn.Add(1) - 1
	var last *Endpoint
	for i := range n {
		endpoint := endpoints[(first+i)%n]
		if tried(e, endpoint.addr) {
			continue
		}
		if !endpoint.isAside() {
			return endpoint
		}
		if last == nil {
			last = endpoint
		}
	}
	return last
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

func tried(e *proxy.Exchange, addr netip.AddrPort) bool {
	for i := range e.Attempts {
		if e.Attempts[i].Endpoint == addr {
			return true
		}
	}
	return false
}
