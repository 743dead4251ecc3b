package upstream

import (
	"net/http"
	"net/netip"

	"sallyport/proxy"
)

// A Balance says how the endpoints for the requests of a route are picked. Routes of a pool with the same Balance share
// what was learned by picking: positions, rings. The zero Balance is round robin.
type Balance struct {
	Policy PolicyName
	// Subset is how many endpoints share a key with [HashSubset].
	Subset int
}

// A PolicyName says which policy picks.
type PolicyName string

// A Pick is what a policy is asked for: an endpoint for one try of an exchange.
type Pick struct {
	Exchange *proxy.Exchange
	Request  *http.Request
	// Endpoints are those of the pool, at least one. The slice is never written to, and is another one after every change.
	Endpoints []*Endpoint
	// HashBy is the route's word on what requests have in common that go to one endpoint. Nil: it has none.
	HashBy func(*http.Request) string

	anyhow bool // an endpoint that had better be left alone is better than none
}

// Fits reports whether an endpoint may be picked: the exchange has not tried it, and it is not to be left alone. A policy
// that finds none is asked once more, and then endpoints that are to be left alone fit too.
func (p Pick) Fits(endpoint *Endpoint) bool {
	return (p.anyhow || !endpoint.isAside()) && !tried(p.Exchange, endpoint.addr)
}

// A Policy decides which endpoint takes an exchange. It belongs to one pool and is called from many goroutines.
type Policy interface {
	// Pick returns one of the endpoints that fit, nil when there is none. It allocates nothing.
	Pick(Pick) *Endpoint

	// Changed is told when the endpoints of the pool became others, so that a policy with a place can keep it.
	Changed(old, now []*Endpoint)
}

// newPolicy makes the policy of a Balance.
func newPolicy(b Balance) Policy { return new(roundRobin) }

func tried(e *proxy.Exchange, addr netip.AddrPort) bool {
	for i := range e.Attempts {
		if e.Attempts[i].Endpoint == addr {
			return true
		}
	}
	return false
}
