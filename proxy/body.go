package proxy

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// A body is a request's body as it is read: counted, and given up when the client sends nothing for too long.
type body struct {
	io.ReadCloser
	exchange *Exchange
	deadline interface{ SetReadDeadline(time.Time) error } // nil: it has none
	timeout  time.Duration
	extended time.Time   // HTTP/1: when the deadline was moved last
	stall    *stall      // HTTP/2; nil: HTTP/1
	stopped  atomic.Bool // somebody wants no more of it
	over     atomic.Bool // a read has met its end, or failed
}

// watchBody puts v.body in place of the request's.
func (v *visit) watchBody(s *Server, w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b := &v.body
	b.ReadCloser, b.exchange, b.timeout = r.Body, &v.exchange, s.bodyTimeout()
	b.deadline, _ = w.(interface{ SetReadDeadline(time.Time) error })
	if r.ProtoMajor > 1 && b.deadline != nil {
		b.stall = &stall{after: b.timeout, end: func() { b.deadline.SetReadDeadline(past) }}
	}
	r.Body = b
}

func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.stall != nil:
		b.stall.wait()
	case b.deadline != nil:
		b.extend()
	}
	n, err := b.ReadCloser.Read(p)
	b.exchange.Received += int64(n)
	switch {
	case b.stall != nil:
		b.stall.done()
	case b.deadline != nil && err == io.EOF:
		// The body is over, the answer may take long, and net/http reads on to notice a client that leaves: with the
		// deadline still set it would take every client for gone after a while.
		b.over.Store(true)
		b.deadline.SetReadDeadline(time.Time{})
	}
	return n, err
}

// extend gives the client another while, where its last one is partly over.
func (b *body) extend() {
	now := time.Now()
	if now.Sub(b.extended) <= min(extendEvery, b.timeout/2) {
		return
	}
	b.extended = now
	b.deadline.SetReadDeadline(now.Add(b.timeout))
	if b.stopped.Load() { // before the deadline was moved, or while it was
		b.deadline.SetReadDeadline(past)
	}
}

var past = time.Unix(1, 0)

// stop makes the read that is going on, and all later ones, fail as if the client had been too slow.
func (b *body) stop() error {
	if b.deadline == nil {
		return http.ErrNotSupported
	}
	b.stopped.Store(true)
	return b.deadline.SetReadDeadline(past)
}

// answered is called when an answer over HTTP/1 begins, now and then while it goes on, and when the handler has returned.
// What the handler leaves of a body net/http reads before it writes the answer, so that the next request can follow; it
// would wait for as long as the client likes.
func (b *body) answered() {
	if b.deadline == nil || b.stall != nil || b.over.Load() || b.stopped.Load() {
		return
	}
	b.deadline.SetReadDeadline(time.Now().Add(b.timeout / 2)) // the other half is left for the answer
	if b.over.Load() {                                        // before the deadline was set, or while it was
		b.deadline.SetReadDeadline(time.Time{})
	}
}

// end is called when the handler has returned.
func (b *body) end() {
	if b.stall != nil {
		b.stall.close()
	}
}
