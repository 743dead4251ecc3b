package upstream

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"
)

// A Member is an address of a pool with its weight.
type Member struct {
	Addr netip.AddrPort
	// Weight is the endpoint's share beside the weights of the others. 0 means 1, and so does less.
	Weight int
}

// A share is how much an endpoint takes beside the others. The zero value is a full share of weight 1.
type share struct {
	weight atomic.Int32 // 0: 1
	began  atomic.Int64 // when it joined endpoints that were there, or came back to them, in Unix nanoseconds; 0: long ago
}

// maxWeight keeps sums of weights small.
const maxWeight = 1 << 16

// setWeight reports whether the weight is another one now.
func (s *share) setWeight(weight int) bool {
	w := int32(min(max(weight, 1), maxWeight))
	return max(s.weight.Swap(w), 1) != w
}

func (e *Endpoint) weight() float64 { return float64(max(e.share.weight.Load(), 1)) }

// returned is told that the endpoint is to be used again after it was not. Where a route has a slow start, one begins.
func (e *Endpoint) returned() { e.share.began.Store(time.Now().UnixNano()) }

// A slowStart spares endpoints that are new: a program that has just begun has cold caches and code that is not compiled
// yet, and would be the slowest of all under a full share. Zero spares none.
type slowStart time.Duration

const (
	firstShare = 0.1 // of what the endpoint will have in the end; none at all, and it would never get warm

	// LongestSlowStart is the longest that a slow start may take.
	LongestSlowStart = time.Hour
)

// of is the part of its share that an endpoint has now, at most 1.
func (s slowStart) of(e *Endpoint) float64 {
	if s == 0 {
		return 1
	}
	began := e.share.began.Load()
	if began == 0 {
		return 1
	}
	age := time.Duration(time.Now().UnixNano() - began)
	if age >= time.Duration(s) {
		if age > LongestSlowStart {
			e.share.began.CompareAndSwap(began, 0) // nobody needs to look at the clock for it any more
		}
		return 1
	}
	return firstShare + (1-firstShare)*max(0, float64(age)/float64(s))
}

// declines reports whether the endpoint is to be passed over although it is its turn, as is for all but a part of its
// turns. A policy that finds no other takes it all the same.
func (s slowStart) declines(e *Endpoint) bool {
	part := s.of(e)
	return part < 1 && rand.Float64() >= part
}
