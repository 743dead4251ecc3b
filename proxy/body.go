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
	extended time.Time
	stopped  atomic.Bool // somebody wants no more of it
}

// watchBody puts v.body in place of the request's.
func (v *visit) watchBody(s *Server, w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	v.body.ReadCloser, v.body.exchange, v.body.timeout = r.Body, &v.exchange, s.bodyTimeout()
	v.body.deadline, _ = w.(interface{ SetReadDeadline(time.Time) error })
	r.Body = &v.body
}

func (b *body) Read(p []byte) (int, error) {
	if now := time.Now(); b.deadline != nil && now.Sub(b.extended) > min(extendEvery, b.timeout/2) {
		b.extended = now
		b.deadline.SetReadDeadline(now.Add(b.timeout))
		if b.stopped.Load() { // before the deadline was moved, or while it was
			b.deadline.SetReadDeadline(past)
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.exchange.Received += int64(n)
	if err != nil && b.deadline != nil {
		// The body is over, the answer may take long, and net/http reads on to notice a client that leaves: with the
		// deadline still set it would take every client for gone after a while.
		b.deadline.SetReadDeadline(time.Time{})
	}
	return n, err
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
