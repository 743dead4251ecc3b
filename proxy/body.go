package proxy

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"sallyport/proxy/http1"
)

// A body is a request's body as it is read: counted, and given up when the client sends nothing for too long.
type body struct {
	io.ReadCloser
	exchange *Exchange
	deadline interface{ SetReadDeadline(time.Time) error } // nil: it has none
	timeout  time.Duration
	extended time.Time   // HTTP/1: when the deadline was moved last
	unasked  bool        // HTTP/1: the client waits for 100 before it sends any
	stall    *stall      // HTTP/2; nil: HTTP/1
	stopped  atomic.Bool // a read has failed, or somebody wants no more of it
	over     atomic.Bool // a read has met its end
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
	b.unasked = r.ProtoMajor == 1 && r.ProtoMinor == 1 && http1.HasToken(r.Header.Get("Expect"), "100-continue")
	r.Body = b
}

func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.stall != nil:
		b.stall.wait()
	case b.deadline != nil:
		b.unasked = false
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
	case b.deadline != nil && err != nil:
		b.stopped.Store(true) // net/http has told the handler that the client left; nothing may follow on the connection
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

// left reports whether some of a body over HTTP/1 has not been read.
func (b *body) left() bool { return b.deadline != nil && b.stall == nil && !b.over.Load() }

const (
	drainTime = 250 * time.Millisecond // for what a handler leaves of a body, however slowly it comes
	drainSize = 256 << 10              // of that, as net/http
)

// drain reads what a handler left of a body over HTTP/1, so that another request can follow on the connection, and reports
// whether there was not too much of it. net/http would do so for as long as the client likes. A client that waits to be
// asked for its body is not asked.
func (b *body) drain() bool {
	if b.stopped.Load() || b.unasked {
		return false
	}
	b.deadline.SetReadDeadline(time.Now().Add(drainTime))
	n, err := io.CopyN(io.Discard, b.ReadCloser, drainSize)
	b.exchange.Received += n
	if err == io.EOF {
		b.over.Store(true)
		b.deadline.SetReadDeadline(time.Time{})
	}
	return err == io.EOF
}

// end is called when the handler has returned.
func (b *body) end() {
	if b.stall != nil {
		b.stall.close()
	}
}
