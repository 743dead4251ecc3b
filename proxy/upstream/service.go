package upstream

import (
	"sync"
	"time"
)

// ServiceOptions are what holds for the endpoints of a pool, whichever route leads there. They are comparable; the zero
// value asks for nothing.
type ServiceOptions struct {
	// Check is how endpoints are asked whether they are well.
	Check Check

	// EndpointConnections is how many requests and tunnels an endpoint has in flight at most; 0: no limit.
	EndpointConnections int
	// Pending is how many requests wait at most when all endpoints have that many, and PendingTimeout how long each does.
	Pending        int
	PendingTimeout time.Duration
}

// care is what a pool does for its endpoints besides picking them. The zero value is ready.
type care struct {
	budget   budget
	queue    queue
	connects slowest    // connections to the endpoints
	ejecting sync.Mutex // held while it is decided that an endpoint is left out, so that not all are
	checks   checks     // guarded by Pool.set
}

// Configure makes o the options of the pool.
func (p *Pool) Configure(o ServiceOptions) {
	p.set.Lock()
	defer p.set.Unlock()
	if p.options == o {
		return
	}
	p.options = o
	var l *limits
	if o.EndpointConnections > 0 {
		l = &limits{pending: o.Pending, timeout: o.PendingTimeout}
	}
	p.care.queue.limits.Store(l)
	p.careForLocked(p.members())
	p.care.queue.wake()
}

// careForLocked has the options hold for the endpoints, which are to be those of the pool.
func (p *Pool) careForLocked(endpoints []*Endpoint) {
	for _, e := range endpoints {
		e.limit.Store(int64(p.options.EndpointConnections))
	}
	p.care.checks.watch(p.options.Check, endpoints)
}
