package proxy

import (
	"io"
	"net/http"
	"time"
)

// A body is a request's body as it is read: counted, and over HTTP/2 given up when the client sends nothing for too long.
// Over HTTP/1 the server on the wire sees to that.
type body struct {
	io.ReadCloser
	exchange *Exchange
	deadline interface{ SetReadDeadline(time.Time) error } // nil: it has none
	stall    *stall                                        // HTTP/2; nil: HTTP/1
}

// watchBody puts v.body in place of the request's.
func (v *visit) watchBody(s *Server, w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b := &v.body
	b.ReadCloser, b.exchange = r.Body, &v.exchange
	b.deadline, _ = w.(interface{ SetReadDeadline(time.Time) error })
	if r.ProtoMajor > 1 && b.deadline != nil {
		b.stall = &stall{after: s.bodyTimeout(), end: func() { b.deadline.SetReadDeadline(past) }}
	}
	r.Body = b
}

func (b *body) Read(p []byte) (int, error) {
	if b.stall != nil {
		b.stall.wait()
	}
	n, err := b.ReadCloser.Read(p)
	b.exchange.Received += int64(n)
	if b.stall != nil {
		b.stall.done()
	}
	return n, err
}

var past = time.Unix(1, 0)

// stop makes the read that is going on, and all later ones, fail as if the client had been too slow.
func (b *body) stop() error {
	if b.deadline == nil {
		return http.ErrNotSupported
	}
	return b.deadline.SetReadDeadline(past)
}

// end is called when the handler has returned.
func (b *body) end() {
	if b.stall != nil {
		b.stall.close()
	}
}
