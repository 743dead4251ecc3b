package upstream

import "sync/atomic"

// hashed picks the endpoint that a key belongs to: see ring. An empty key is a key like any other.
type hashed struct {
	key  func(Pick) uint64
	ring atomic.Pointer[ring]
}

// Pick takes the endpoint of the key, or the next on the ring that fits.
func (p *hashed) Pick(pick Pick) *Endpoint { return p.ring.Load().find(p.key(pick), &pick) }

// Changed makes the ring of other endpoints.
func (p *hashed) Changed(_, now []*Endpoint) { p.ring.Store(newRing(now)) }

// clientKey is the client's address.
func clientKey(pick Pick) uint64 { return hashAddr(pick.Exchange.Client) }

// targetKey is the host and the path.
func targetKey(pick Pick) uint64 {
	return hashText(hashText(0, pick.Exchange.Host), pick.Exchange.Path)
}

// routeKey is what the route says that requests have in common.
func routeKey(pick Pick) uint64 {
	if pick.HashBy == nil {
		return clientKey(pick)
	}
	return hashText(0, pick.HashBy(pick.Request))
}
