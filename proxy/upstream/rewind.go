package upstream

import (
	"errors"
	"io"
	"net/http"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// A Rewinder is a request body that is wholly here, in memory or in a file, and can be read again. Reading it must not wait
// for the client. Only a request with such a body can be sent again once some of it was sent.
type Rewinder interface {
	// Rewind goes back to the beginning.
	Rewind() error
	// Bytes is the whole body, which stays as it is until the request is over; nil: not all of it is in memory. What was
	// read before does not matter to it, nor it to what is read after.
	Bytes() []byte
}

// A smallBody is a request body that is here before the request is sent.
type smallBody struct {
	bytes  []byte          // nil: none
	buffer *[maxSmall]byte // that holds them; nil: a Rewinder does
}

const (
	// maxSmall is the size up to which a body is read first, the amount that ingress-nginx keeps in memory.
	maxSmall = 8 << 10

	// maxTogether is the size up to which a body that is in memory goes out with the head, in one write. Most sockets take as
	// much at once.
	maxTogether = 32 << 10

	// maxHTTP10 is the size up to which a body of unknown length is read first for an endpoint that must be told one.
	maxHTTP10 = 1 << 20
)

func (s *smallBody) read(body io.Reader, n int) error {
	s.buffer = smallBodies.Get().(*[maxSmall]byte)
	_, err := io.ReadFull(body, s.buffer[:n])
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	s.bytes = s.buffer[:n]
	return err
}

func (s *smallBody) free() {
	if s.buffer != nil {
		smallBodies.Put(s.buffer)
		s.buffer, s.bytes = nil, nil
	}
}

var errLengthRequired = errors.New("the endpoint speaks HTTP/1.0 and must be told the length of a body, which is too long to be counted here")

// prepareBody decides how the body will be sent, and reads one that is small enough to be sent with the head.
func (x *trip) prepareBody() *fault {
	r := x.r
	x.length = r.ContentLength
	if x.length == 0 || r.Body == nil || r.Body == http.NoBody {
		x.length = 0
		return nil
	}
	counted := x.length < 0 && x.t.options.HTTP10 && !x.multiplexed()
	if counted {
		return x.count()
	}
	if x.rewinder, _ = r.Body.(Rewinder); x.rewinder == nil {
		waits := r.ProtoAtLeast(1, 1) && http1.HasToken(r.Header.Get("Expect"), "100-continue")
		x.expect = waits && !x.t.options.HTTP10 && !x.multiplexed()
		x.invite = waits && !x.expect && r.ProtoMajor == 1
	} else if held := x.rewinder.Bytes(); int64(len(held)) == x.length && len(held) <= maxTogether {
		x.small.bytes = held
		return nil
	}
	if x.expect || x.length < 0 || x.length > maxSmall {
		x.streamed = true
		return nil
	}
	if x.t.pool.Len() == 0 {
		return noEndpoints // an endpoint that appears now must not get the request without its body
	}
	if err := x.small.read(r.Body, int(x.length)); err != nil {
		return bodyFault(r.Context(), err)
	}
	return nil
}

// count reads a whole body to learn its length.
func (x *trip) count() *fault {
	if x.t.pool.Len() == 0 {
		return noEndpoints
	}
	body, err := io.ReadAll(io.LimitReader(x.r.Body, maxHTTP10+1))
	switch {
	case err != nil:
		return bodyFault(x.r.Context(), err)
	case len(body) > maxHTTP10:
		return &fault{http.StatusLengthRequired, proxy.BadRequest, errLengthRequired}
	}
	x.length, x.small.bytes = int64(len(body)), body
	return nil
}

// rewind goes back to the beginning of a body of which some was read for an earlier try.
func (x *trip) rewind() *fault {
	x.upload = nil
	if !x.touched {
		return nil
	}
	x.touched = false
	if err := x.rewinder.Rewind(); err != nil {
		return &fault{http.StatusInternalServerError, proxy.Panic, err}
	}
	return nil
}
