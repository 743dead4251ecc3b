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

	set      sync.Mutex         // held by Set, so that two of them cannot make two Endpoints of one address
	policies map[Balance]Policy // guarded by set
	options  ServiceOptions     // guarded by set
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

// Set makes addrs the endpoints of the pool. Endpoints that stay keep their place and their connections, new ones are
// added after them in the order given, and idle connections of those that go are closed; what is in flight to them
// finishes. An address given twice counts once; addresses that are not valid are left out.
func (p *Pool) Set(addrs []netip.AddrPort) {
	p.set.Lock()
	defer p.set.Unlock()
	wanted := make(map[netip.AddrPort]bool, len(addrs))
	for _, a := range addrs {
		if a.IsValid() {
			wanted[unmapped(a)] = true
		}
	}
	old := p.members()
	now := make([]*Endpoint, 0, len(wanted))
	var gone []*Endpoint
	for _, e := range old {
		if !wanted[e.addr] {
			gone = append(gone, e)
			continue
		}
		now = append(now, e)
		delete(wanted, e.addr)
	}
	for _, a := range addrs {
		if a = unmapped(a); wanted[a] {
			now = append(now, &Endpoint{addr: a})
			delete(wanted, a)
		}
	}
	if slices.Equal(old, now) {
		return
	}
	p.endpoints.Store(&now)
	for _, policy := range p.policies {
		policy.Changed(old, now)
	}
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
			failed = attempts[i].Reason == proxy.ConnectRefused || attempts[i].Reason == proxy.ConnectFailed
		}
		if last >= 0 && last < oldest && !failed {
			found, oldest = e, last
		}
	}
	return found
}

// policy returns what picks by a Balance, the same for all who ask.
func (p *Pool) policy(b Balance) Policy {
	p.set.Lock()
	defer p.set.Unlock()
	policy := p.policies[b]
	if policy == nil {
		if p.policies == nil {
			p.policies = make(map[Balance]Policy)
		}
		policy = newPolicy(b)
		policy.Changed(nil, p.members())
		p.policies[b] = policy
	}
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
