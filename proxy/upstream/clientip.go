package upstream

import (
	"sync"
	"time"
)

// clientIP keeps each client address at the endpoint that it was sent to, until nothing has come from it for a time: what
// a Service asks for with sessionAffinity: ClientIP. Other than kube-proxy it does so for the client, not for whoever
// opened the connection, and for every request anew.
//
// An address that is not remembered goes where hashing has it, so that replicas mostly agree and that a client who has
// been forgotten is mostly sent back. What memory adds is that nobody moves because an endpoint was added.
//
//	10.0.0.1, 10.0.0.2      client x, by its hash, goes to 10.0.0.2, and is remembered
//	10.0.0.3 is added       x, whose hash now leads to 10.0.0.3, stays
//	10.0.0.2 goes           x goes to 10.0.0.3, and is remembered there
//
// An endpoint that does not fit is no reason to forget it: the request goes elsewhere, and the client comes back.
//
// The memory is bounded: the address that was not seen for the longest time is forgotten first.
type clientIP struct {
	stay   time.Duration
	hashed hashed

	most    int // clients remembered
	mu      sync.Mutex
	members map[uint64]*Endpoint // guarded by mu; by the hash of their addresses
	at      map[address]uint32   // guarded by mu; where in clients
	clients []regular            // guarded by mu; the first is nobody and joins the ends of a ring in the order last seen
}

// An address is a whole one. That in IPv4 and the same mapped into IPv6 are one.
type address [16]byte

// A regular is a client that is remembered. It holds no pointer, so that the collector does not walk what may be
// mostClients of them.
type regular struct {
	client       address
	endpoint     uint64 // the hash of its address
	seen         int64  // Unix nanoseconds
	newer, older uint32
}

const (
	usualStay = 3 * time.Hour // as the API has it

	// mostClients is how many addresses a Service port remembers: some 6 MiB.
	mostClients = 1 << 16
)

func newClientIP(stay time.Duration) *clientIP {
	if stay <= 0 {
		stay = usualStay
	}
	return &clientIP{stay: stay, hashed: hashed{key: clientKey}, most: mostClients}
}

// Pick takes the endpoint that the client was sent to last, or else one by its address, which is remembered.
func (p *clientIP) Pick(pick Pick) *Endpoint {
	client := pick.Exchange.Client
	now := time.Now().UnixNano()
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.findLocked(client.As16(), now)
	if known != nil {
		if home := p.members[known.endpoint]; home != nil {
			if pick.Fits(home) {
				return home
			}
			return p.hashed.Pick(pick)
		}
	}
	endpoint := p.hashed.Pick(pick)
	if endpoint == nil || !client.IsValid() {
		return endpoint
	}
	if known == nil {
		known = p.addLocked(client.As16(), now)
	}
	known.endpoint = hashAddrPort(endpoint.addr)
	return endpoint
}

// Changed takes the endpoints that there are now. What was remembered of others stays for when they return.
func (p *clientIP) Changed(old, now []*Endpoint) {
	p.hashed.Changed(old, now)
	members := make(map[uint64]*Endpoint, len(now))
	for _, e := range now {
		members[hashAddrPort(e.addr)] = e
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = members
}

// findLocked returns what is remembered of a client, which has now been seen. Nil: nothing is.
func (p *clientIP) findLocked(client address, now int64) *regular {
	n := p.at[client]
	if n == 0 {
		return nil
	}
	c := &p.clients[n]
	old := now-c.seen > int64(p.stay)
	c.seen = now
	p.unlinkLocked(n)
	p.linkLocked(n)
	if old {
		c.endpoint = 0
	}
	return c
}

// addLocked makes room for a client: that of the one seen least recently, if its time is over or there is no other.
func (p *clientIP) addLocked(client address, now int64) *regular {
	if p.at == nil {
		p.at, p.clients = make(map[address]uint32), make([]regular, 1)
	}
	n := p.clients[0].newer
	if n != 0 && (now-p.clients[n].seen > int64(p.stay) || len(p.clients) > p.most) {
		p.unlinkLocked(n)
		delete(p.at, p.clients[n].client)
	} else {
		n = uint32(len(p.clients))
		p.clients = append(p.clients, regular{})
	}
	p.clients[n] = regular{client: client, seen: now}
	p.at[client] = n
	p.linkLocked(n)
	return &p.clients[n]
}

// linkLocked puts a client at the recent end of the ring.
func (p *clientIP) linkLocked(n uint32) {
	recent := p.clients[0].older
	p.clients[n].newer, p.clients[n].older = 0, recent
	p.clients[0].older, p.clients[recent].newer = n, n
}

func (p *clientIP) unlinkLocked(n uint32) {
	newer, older := p.clients[n].newer, p.clients[n].older
	p.clients[newer].older, p.clients[older].newer = older, newer
}
