// Package limiter counts what clients ask for, and says when one asks for more than its share.
//
//	perSecond := limiter.NewRate(0, limiter.Limit{Requests: 10, Per: time.Second, Burst: 50})
//	if ok, retryAfter := perSecond.Allow(limiter.Address(client), time.Now()); !ok {
//		// refuse; retryAfter is when a request would pass
//	}
//
//	inFlight := limiter.NewConcurrent(5)
//	key := limiter.Address(client)
//	if !inFlight.Acquire(key) {
//		// refuse
//	}
//	defer inFlight.Release(key)
//
// A [Rate] limits requests in time, a [Concurrent] those under way. Both are for any number of goroutines, and exact
// among them: of requests that come at one moment, as many pass as the limit says.
//
// # Memory
//
// A client costs nothing until it asks, and nobody can make a limiter grow without bound: a Rate has a fixed capacity and
// forgets the client that it has not seen for the longest time, and a Concurrent remembers those in flight alone. What a
// Rate forgets is in the client's favour: it starts with an empty bucket. A client with many addresses gains by that as
// much as it does by having them: see [Network].
//
// # What it does not do
//
// It does not share counts between processes: each replica allows the whole rate. It does not read requests, choose the
// key or write answers.
package limiter

import (
	"hash/maphash"
	"net/netip"
)

// A Key is whom a limiter counts. Keys of one limiter should all be made by one of [Address], [Network] and [Text].
type Key [16]byte

// Address is the key of a client by its whole address. An IPv4 address and the same one mapped into IPv6 are one client;
// zones do not count.
func Address(a netip.Addr) Key { return a.As16() }

// Network is the key of a client by its IPv4 address or by the /64 network of its IPv6 address, which is the least that a
// customer of a network is given. By [Address] such a customer has 2^64 shares, and can fill a limiter with clients
// until it has forgotten everybody else.
func Network(a netip.Addr) Key {
	key := a.As16()
	if a.Is6() && !a.Is4In6() {
		clear(key[8:])
	}
	return key
}

// seeds are of this process, so that nobody outside it can find two texts with one key.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// Text is the key of anything else by which clients are told apart, such as the value of a header. It is made of 128 bits
// of hashes, so that the length of the text costs no memory.
func Text(s string) (key Key) {
	for i, seed := range seeds {
		h := maphash.String(seed, s)
		for j := range 8 {
			key[8*i+j] = byte(h >> (8 * j))
		}
	}
	return key
}
