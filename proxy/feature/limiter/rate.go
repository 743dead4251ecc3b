package limiter

import (
	"sync"
	"time"
)

// A bucket is a leaky one: each request pours in one unit, it leaks at the rate of the limit, and a request that would
// bring it above the burst is refused and pours nothing. The first request into an empty bucket rides on the leak itself,
// so that a rate of 1 a second with a burst of 5 takes 6 requests at once and refuses the seventh.
//
// What is kept is not the level but the moment at which the bucket will be empty, which needs no update while nobody asks:
//
//	            1 a second, burst 5
//	time        0   0   0   0   0   0   0        0.4      1
//	empty at    1   2   3   4   5   6   (6)      (6)      7
//	            ok  ok  ok  ok  ok  ok  refused  refused  ok
//
// A request passes when the bucket is at most the burst away from being empty: 6 s - 1 s = 5 s is, 6 s - 0.4 s is not.

// A Limit is a rate and how far a client may run ahead of it.
type Limit struct {
	// Requests is how many may be asked for in each Per. Below 1 counts as 1.
	Requests int
	// Per is a second where it is not positive.
	Per time.Duration
	// Burst is how many requests above the rate are served at once. Negative means none.
	Burst int
}

// horizon is the longest that a bucket takes to run empty, so that no sum overflows: some 100 years.
const horizon = int64(100 * 365 * 24 * time.Hour)

// interval is the time in which one request leaks, in nanoseconds.
func (l Limit) interval() int64 {
	per := int64(l.Per)
	if per <= 0 {
		per = int64(time.Second)
	}
	return min(max(per/int64(max(l.Requests, 1)), 1), horizon)
}

// tolerance is how far from empty a bucket may be for a request to pass, in nanoseconds.
func (l Limit) tolerance() int64 {
	burst, interval := int64(max(l.Burst, 0)), l.interval()
	if burst > horizon/interval {
		return horizon
	}
	return burst * interval
}

// MaxLimits is how many limits one Rate can hold.
const MaxLimits = 2

// DefaultCapacity is how many clients a Rate remembers. With the size of a bucket it bounds the memory of one Rate to
// [MaxBytes].
const DefaultCapacity = 65_536

// A Rate says which requests exceed the rate of their client.
type Rate struct {
	limits [MaxLimits]struct{ interval, tolerance int64 }
	count  int // of limits
	start  time.Time

	mu    sync.Mutex // guards what follows
	table table
}

// NewRate makes a Rate for up to capacity clients, DefaultCapacity where that is not positive. A request passes when all
// limits let it, of which there may be MaxLimits, and is counted by none of them otherwise.
func NewRate(capacity int, limits ...Limit) *Rate {
	if len(limits) > MaxLimits {
		panic("limiter: more limits than a bucket has room for")
	}
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	r := &Rate{count: len(limits), start: time.Now(), table: table{capacity: capacity}}
	for i, l := range limits {
		r.limits[i].interval, r.limits[i].tolerance = l.interval(), l.tolerance()
	}
	return r
}

// Allow counts one request of a client and reports whether it passes; if not, a request passes after retryAfter, as long
// as nobody else spends that share. Now is what time.Now says: the clock on the wall may be set meanwhile.
func (r *Rate) Allow(key Key, now time.Time) (ok bool, retryAfter time.Duration) {
	at := int64(now.Sub(r.start))
	r.mu.Lock()
	defer r.mu.Unlock()

	b := r.table.find(key, at)
	wait := int64(0)
	for i := range r.count {
		wait = max(wait, b.empty[i]-r.limits[i].tolerance-at)
	}
	if wait > 0 {
		return false, time.Duration(wait)
	}
	for i := range r.count {
		b.empty[i] = max(b.empty[i], at) + r.limits[i].interval
		r.table.empty = max(r.table.empty, b.empty[i])
	}
	return true, 0
}
