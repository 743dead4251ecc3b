package upstream

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy"
)

// A pool can have a limit of what an endpoint has in flight at a time, tunnels included. Where all are full a request
// waits, in a line of bounded length and for a bounded time; who is at its head has the next place. A pool without a limit
// knows nothing of it: no request looks further than at a zero.

// full reports whether the endpoint has no place.
func (e *Endpoint) full() bool {
	limit := e.limit.Load()
	return limit != 0 && e.inFlight.Load() >= limit
}

// enter takes a place, if there is one.
func (e *Endpoint) enter() bool {
	limit := e.limit.Load()
	if limit == 0 {
		e.inFlight.Add(1)
		return true
	}
	for {
		n := e.inFlight.Load()
		if n >= limit {
			return false
		}
		if e.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// limited reports whether there is a limit.
func (p *Pool) limited() bool { return p.care.queue.limits.Load() != nil }

// isFull reports whether an endpoint that is as good as any has no place.
func (p *Pool) isFull() bool {
	if !p.limited() {
		return false
	}
	for _, e := range p.members() {
		if e.full() && !e.isAside() {
			return true
		}
	}
	return false
}

// limits are those of a pool that has some.
type limits struct {
	pending int // requests that wait
	timeout time.Duration
}

// A queue is the line of requests that wait for a place at an endpoint. The zero value is empty.
type queue struct {
	limits atomic.Pointer[limits] // nil: nothing is limited, nobody waits
	length atomic.Int64

	mu   sync.Mutex
	line []*waiter // guarded by mu; the first is next
}

// A waiter is a request in the line. It is woken when it may find a place.
type waiter struct{ woken chan struct{} }

// busy reports whether somebody waits.
func (q *queue) busy() bool { return q.length.Load() != 0 }

// wake has the first in the line look for a place.
func (q *queue) wake() {
	if q.length.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked()
}

func (q *queue) wakeLocked() {
	if len(q.line) > 0 {
		select {
		case q.line[0].woken <- struct{}{}:
		default: // it is about to look
		}
	}
}

// join puts a request at the end of the line, unless that is as long as it may be.
func (q *queue) join(most int) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.line) >= most {
		return nil
	}
	w := &waiter{make(chan struct{}, 1)}
	q.line = append(q.line, w)
	q.length.Store(int64(len(q.line)))
	if len(q.line) == 1 {
		q.wakeLocked() // a place may have become free before anybody waited
	}
	return w
}

// leave takes a request out of the line, and lets the next one look.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.line {
		if q.line[i] == w {
			q.line = append(q.line[:i], q.line[i+1:]...)
			break
		}
	}
	q.length.Store(int64(len(q.line)))
	q.wakeLocked()
}

var (
	errLine    = errors.New("all endpoints are full, and the line of waiting requests is too")
	errWaiting = errors.New("all endpoints stayed full for too long")
	errTaken   = errors.New("an answer was dropped in favour of another try, for which no endpoint has a place now")
)

func overloaded(err error) *fault {
	return &fault{http.StatusServiceUnavailable, proxy.Overloaded, err}
}

// wait is next for a request that must wait for a place.
func (x *trip) wait() (*Endpoint, *fault) {
	p := x.t.pool
	q := &p.care.queue
	l := q.limits.Load()
	if l == nil {
		return x.pick(), nil // they were lifted just now; those in the line are about to leave it
	}
	w := q.join(max(l.pending, 0))
	if w == nil {
		return nil, overloaded(errLine)
	}
	defer q.leave(w)
	late := time.NewTimer(l.timeout)
	defer late.Stop()
	ctx := x.r.Context()
	for {
		// A place may be free; the client leaves; the time is over.
		select {
		case <-w.woken:
			if endpoint := x.pick(); endpoint != nil || p.Len() == 0 {
				return endpoint, nil
			}
		case <-ctx.Done():
			return nil, left(ctx.Err())
		case <-late.C:
			return nil, overloaded(errWaiting)
		}
	}
}
