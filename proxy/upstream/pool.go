package upstream

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"sallyport/proxy"
)

// An ID names the Service port a pool belongs to. Port is the Service port's name, or its number where it has none.
type ID struct{ Namespace, Service, Port string }

// String is the ID as logs and messages show it: namespace/service:port.
func (id ID) String() string { return id.Namespace + "/" + id.Service + ":" + id.Port }

// Pools holds the pools of a process by ID. The zero value is empty and ready; it is safe for concurrent use.
type Pools struct {
	mu    sync.Mutex
	pools map[ID]*Pool // guarded by mu
}

// Get returns the pool of id and creates an empty one when there is none.
func (p *Pools) Get(id ID) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool := p.pools[id]
	if pool == nil {
		if p.pools == nil {
			p.pools = make(map[ID]*Pool)
		}
		pool = &Pool{id: id}
		p.pools[id] = pool
	}
	return pool
}

// Forget drops the pool of id and closes its idle connections. Requests that still hold the pool finish; the next Get
// begins a new one.
func (p *Pools) Forget(id ID) {
	p.mu.Lock()
	pool := p.pools[id]
	delete(p.pools, id)
	p.mu.Unlock()
	if pool == nil {
		return
	}
	pool.set.Lock()
	defer pool.set.Unlock()
	pool.careForLocked(nil)
	for _, e := range pool.members() {
		e.retire()
	}
}

// All returns the pools there are, in no order.
func (p *Pools) All() []*Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Pool, 0, len(p.pools))
	for _, pool := range p.pools {
		all = append(all, pool)
	}
	return all
}

// A Pool is the live endpoints of one Service port. It is made by [Pools.Get] and safe for concurrent use; picking from
// it takes no lock.
type Pool struct {
	id        ID
	endpoints atomic.Pointer[[]*Endpoint] // nil: none yet. The slice is never written to once stored.

	set      sync.Mutex             // held by SetMembers, so that two of them cannot make two Endpoints of one address
	policies map[Balance]weakPolicy // guarded by set
	options  ServiceOptions         // guarded by set
	timed    atomic.Bool            // a policy asks for latencies, or did once
	cookies  cookies
	care     care
}

// ID says which Service port the pool belongs to.
func (p *Pool) ID() ID { return p.id }

// Len is the number of endpoints.
func (p *Pool) Len() int { return len(p.members()) }

// Endpoints returns the addresses in the order the policy sees them.
func (p *Pool) Endpoints() []netip.AddrPort {
	members := p.members()
	addrs := make([]netip.AddrPort, len(members))
	for i, e := range members {
		addrs[i] = e.addr
	}
	return addrs
}

func (p *Pool) members() []*Endpoint {
	if list := p.endpoints.Load(); list != nil {
		return *list
	}
	return nil
}

// Set makes addrs the endpoints of the pool, all of one weight: see [Pool.SetMembers].
func (p *Pool) Set(addrs []netip.AddrPort) {
	members := make([]Member, len(addrs))
	for i, addr := range addrs {
		members[i].Addr = addr
	}
	p.SetMembers(members)
}

// SetMembers makes members the endpoints of the pool. Endpoints that stay keep their place and their connections, new ones
// are added after them in the order given, and idle connections of those that go are closed; what is in flight to them
// finishes. An address given twice counts once, with its first weight; addresses that are not valid are left out.
func (p *Pool) SetMembers(members []Member) {
	p.set.Lock()
	defer p.set.Unlock()
	wanted := make(map[netip.AddrPort]int, len(members)) // weights
	for _, m := range members {
		if _, twice := wanted[unmapped(m.Addr)]; m.Addr.IsValid() && !twice {
			wanted[unmapped(m.Addr)] = m.Weight
		}
	}
	old := p.members()
	now := make([]*Endpoint, 0, len(wanted))
	var gone []*Endpoint
	weighed := false // others than before
	for _, e := range old {
		weight, stays := wanted[e.addr]
		if !stays {
			gone = append(gone, e)
			continue
		}
		weighed = e.share.setWeight(weight) || weighed
		now = append(now, e)
		delete(wanted, e.addr)
	}
	stayed := len(now)
	for _, m := range members {
		addr := unmapped(m.Addr)
		weight, is := wanted[addr]
		if !is {
			continue
		}
		e := &Endpoint{addr: addr}
		e.share.setWeight(weight)
		if stayed > 0 {
			e.returned() // to others that are warm; where all are new nobody could take its share meanwhile
		}
		now = append(now, e)
		delete(wanted, addr)
	}
	if slices.Equal(old, now) && !weighed {
		return
	}
	for b, weakly := range p.policies {
		if policy := weakly(); policy != nil {
			policy.Changed(old, now)
		} else {
			delete(p.policies, b)
		}
	}
	p.careForLocked(now)
	p.endpoints.Store(&now)
	p.care.queue.wake()
	for _, e := range gone {
		e.retire()
	}
}

// unmapped gives an IPv4 address written in IPv6 form (::ffff:10.0.0.1) its own form, so that one endpoint has one key.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// again returns the endpoint that was tried longest ago and is still there, nil when there is none. One that could not be
// connected to at all is left alone: it would not be another thing a moment later.
func (p *Pool) again(attempts []proxy.Attempt) *Endpoint {
	var found *Endpoint
	oldest := len(attempts)
	for _, e := range p.members() {
		last, failed := -1, false
		for i := range attempts {
			if attempts[i].Endpoint != e.addr {
				continue
			}
			last = i
			failed = attempts[i].Reason == proxy.ConnectRefused || attempts[i].Reason == proxy.ConnectFailed || attempts[i].Reason == proxy.UpstreamTLS
		}
		if last >= 0 && last < oldest && !failed {
			found, oldest = e, last
		}
	}
	return found
}

// policy returns what picks by a Balance, the same for all who ask while any of them has it.
func (p *Pool) policy(b Balance) Policy {
	b = b.normal()
	p.set.Lock()
	defer p.set.Unlock()
	if weakly := p.policies[b]; weakly != nil {
		if policy := weakly(); policy != nil {
			return policy
		}
	}
	if p.policies == nil {
		p.policies = make(map[Balance]weakPolicy)
	}
	for other, weakly := range p.policies {
		if weakly() == nil {
			delete(p.policies, other)
		}
	}
	if b.Policy == EWMA {
		p.timed.Store(true)
	}
	policy, weakly := newPolicy(b)
	policy.Changed(nil, p.members())
	p.policies[b] = weakly
	return policy
}

// pick chooses an endpoint by a policy, nil when there is none that the exchange has not tried. One that had better be left
// alone is for when there is no other.
func (p *Pool) pick(policy Policy, pick Pick) *Endpoint {
	if pick.Endpoints = p.members(); len(pick.Endpoints) == 0 {
		return nil
	}
	if endpoint := policy.Pick(pick); endpoint != nil {
		return endpoint
	}
	pick.anyhow = true
	return policy.Pick(pick)
}
