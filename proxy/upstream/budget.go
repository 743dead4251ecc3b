package upstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// A budget keeps an outage from being multiplied: with three tries for each request, endpoints that are down because of
// too many requests would get three times as many. Of the requests of the last ten seconds to a pool a share may be sent
// again, and beyond it ten a second, so that a Service that is seldom asked has its retries too. Where the budget is spent
// the client is told of the first fault.
//
// Endpoints that refuse a connection, and connections that turn out to be closed, cost nothing: no request reached anybody.
// The zero value is ready; it is safe for concurrent use.
type budget struct {
	seconds [budgetWindow]budgetSecond // by Unix second modulo their number
	mu      sync.Mutex                 // of spending
}

const (
	budgetWindow = 10 // seconds
	budgetFloor  = 10 // retries a second
)

// budgetSecond is what happened in one second. A count that comes in the moment in which the second begins may get lost.
type budgetSecond struct{ second, requests, retries atomic.Int64 }

// at is the second of a moment.
func (b *budget) at(now time.Time) *budgetSecond {
	second := now.Unix()
	s := &b.seconds[uint64(second)%budgetWindow]
	if old := s.second.Load(); old < second && s.second.CompareAndSwap(old, second) {
		s.requests.Store(0)
		s.retries.Store(0)
	}
	return s
}

// note counts a request.
func (b *budget) note(now time.Time) { b.at(now).requests.Add(1) }

// spend counts a retry, and reports whether there may be one. Percent is the share; less than 0 is none.
func (b *budget) spend(now time.Time, percent int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	this := b.at(now)
	var requests, retries int64
	for i := range b.seconds {
		if s := &b.seconds[i]; s.second.Load() > now.Unix()-budgetWindow {
			requests += s.requests.Load()
			retries += s.retries.Load()
		}
	}
	if retries >= requests*int64(max(percent, 0))/100+budgetFloor*budgetWindow {
		return false
	}
	this.retries.Add(1)
	return true
}
