package upstream

import (
	"net/http"
	"net/netip"
	"time"
	"weak"

	"sallyport/proxy"
)

// A Balance says how the endpoints for the requests of a route are picked. Routes of a pool with the same Balance share
// what was learned by picking: positions, rings. The zero Balance is round robin.
type Balance struct {
	Policy PolicyName
	// Subset is how many endpoints share a key with [HashSubset]; 0 means 3.
	Subset int
	// SlowStart is the time in which an endpoint that joined the others, or came back to them, grows from a tenth of its
	// share to all of it. Policies that hash know none. Zero: it has its share at once.
	SlowStart time.Duration
	// Stay is how long after its last request a client belongs to an endpoint with [ClientIP]; 0 means 3 hours.
	Stay time.Duration
}

// normal is the balance without what does not count, so that routes that mean the same share a position.
func (b Balance) normal() Balance {
	switch b.Policy {
	case RoundRobin:
		b.Policy = ""
	case HashSubset:
		if b.Subset <= 0 {
			b.Subset = usualSubset
		}
	}
	if b.Policy != HashSubset {
		b.Subset = 0
	}
	if b.Policy.Hashes() || b.Policy == ClientIP {
		b.SlowStart = 0
	}
	if b.Policy != ClientIP {
		b.Stay = 0
	}
	return b
}

// A PolicyName says which policy picks.
type PolicyName string

// The policies. Where endpoints have weights, all of them give an endpoint its share by its weight.
const (
	RoundRobin    PolicyName = "round_robin" // each in its turn (roundrobin.go)
	LeastConn     PolicyName = "least_conn"  // the one with the fewest requests in flight (leastconn.go)
	ShortestDelay PolicyName = "sed"         // likewise, the request itself counted in
	NeverQueue    PolicyName = "nq"          // an idle one, else as sed
	EWMA          PolicyName = "ewma"        // the faster of two (ewma.go)
	Random        PolicyName = "random"      // any (random.go)
	HashClient    PolicyName = "sh"          // by the client's address (hash.go)
	HashTarget    PolicyName = "dh"          // by host and path
	HashKey       PolicyName = "chash"       // by what the route says; by the client's address where it says nothing
	HashSubset    PolicyName = "chashsubset" // likewise, and any of a few (subset.go)

	// ClientIP is for Services that ask for it, and no word of load-balance: the one the client was sent to last (clientip.go).
	ClientIP PolicyName = "client-ip"
)

// PolicyWord returns the policy that a word stands for: its own name, or that of a scheduler of IPVS that does the same.
func PolicyWord(word string) (name PolicyName, known bool) {
	switch name := PolicyName(word); name {
	case RoundRobin, LeastConn, ShortestDelay, NeverQueue, EWMA, Random, HashClient, HashTarget, HashKey, HashSubset:
		return name, true
	}
	switch word {
	case "rr", "wrr":
		return RoundRobin, true
	case "lc", "wlc":
		return LeastConn, true
	}
	return "", false
}

// Hashes reports whether the policy sends a key to the same endpoint every time.
func (n PolicyName) Hashes() bool {
	return n == HashClient || n == HashTarget || n == HashKey || n == HashSubset
}

// A Pick is what a policy is asked for: an endpoint for one try of an exchange.
type Pick struct {
	Exchange *proxy.Exchange
	Request  *http.Request
	// Endpoints are those of the pool, at least one. The slice is never written to, and is another one after every change.
	Endpoints []*Endpoint
	// HashBy is the route's word on what requests have in common that go to one endpoint. Nil: it has none.
	HashBy func(*http.Request) string

	before int  // attempts of the exchange that count for nothing: they were another trip's
	anyhow bool // an endpoint that had better be left alone is better than none
}

// Fits reports whether an endpoint may be picked: it has not been tried, there is room at it for another request, and
// it is not to be left alone. A policy that finds none is asked once more, and then endpoints that are to be left alone fit
// too.
func (p *Pick) Fits(endpoint *Endpoint) bool {
	return len(p.Exchange.Attempts) == p.before && endpoint.isPlain() || p.fits(endpoint)
}

func (p *Pick) fits(endpoint *Endpoint) bool {
	return endpoint.available(p.anyhow) && (len(p.Exchange.Attempts) == p.before || !tried(p.Exchange.Attempts[p.before:], endpoint.addr))
}

// from returns the first endpoint that fits, beginning with one of them and going round; nil when none does.
func (p *Pick) from(endpoints []*Endpoint, first int) *Endpoint {
	for i := range endpoints {
		if e := endpoints[(first+i)%len(endpoints)]; p.Fits(e) {
			return e
		}
	}
	return nil
}

// A Policy decides which endpoint takes an exchange. It belongs to one pool and is called from many goroutines.
type Policy interface {
	// Pick returns one of the endpoints that fit, nil when there is none. It allocates nothing.
	Pick(Pick) *Endpoint

	// Changed is told when the endpoints of the pool are about to be others, or their weights, so that a policy with a place
	// can keep it. It is called by one goroutine at a time, while others pick.
	Changed(old, now []*Endpoint)
}

// newPolicy makes the policy of a Balance; round robin for a name that is none.
func newPolicy(b Balance) (Policy, weakPolicy) {
	slow := slowStart(b.SlowStart)
	switch b.Policy {
	case LeastConn, ShortestDelay, NeverQueue:
		return weakly(&leastConn{slow: slow, delay: b.Policy != LeastConn, idleFirst: b.Policy != ShortestDelay})
	case EWMA:
		return weakly(&ewma{slow: slow})
	case ClientIP:
		return weakly(newClientIP(b.Stay))
	case Random:
		return weakly(&random{slow: slow})
	case HashClient:
		return weakly(&hashed{key: clientKey})
	case HashTarget:
		return weakly(&hashed{key: targetKey})
	case HashKey:
		return weakly(&hashed{key: routeKey})
	case HashSubset:
		return weakly(&subsets{size: b.Subset})
	}
	return weakly(&roundRobin{slow: slow})
}

// A weakPolicy is a policy for as long as some route has it, nil from then on: a pool must know its policies, to tell them of
// changes, and those that no table leads to any more are to go all the same.
type weakPolicy func() Policy

func weakly[T any, P interface {
	*T
	Policy
}](p P) (Policy, weakPolicy) {
	pointer := weak.Make((*T)(p))
	return p, func() Policy {
		if policy := pointer.Value(); policy != nil {
			return P(policy)
		}
		return nil
	}
}

func tried(attempts []proxy.Attempt, addr netip.AddrPort) bool {
	for i := range attempts {
		if attempts[i].Endpoint == addr {
			return true
		}
	}
	return false
}
