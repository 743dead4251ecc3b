package upstream

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// An outgoing is a request body on its way over HTTP/2, read by a goroutine of net/http's.
type outgoing struct {
	x    *trip
	from io.Reader
	send *gap // for what was read to be sent: net/http reads on when it has
	read *gap // for the answer, which is not owed while the body is not sent

	trailer http.Header           // the request's for the endpoint, filled when the body was read
	fault   atomic.Pointer[fault] // why it could not be read

	mu    sync.Mutex // held while it is read
	ended bool       // nothing more is to be read
	whole bool       // it was read to its end
	kept  []byte     // what was read, while it is little
	much  bool       // more than kept
}

func (o *outgoing) Read(p []byte) (n int, err error) {
	o.send.want(false)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return 0, http.ErrBodyReadAfterClose
	}
	if o.whole {
		return 0, io.EOF
	}
	defer func() {
		if p := recover(); p != nil { // of whoever wrapped the body; it would take the process down
			o.fault.Store(panicked(p))
			n, err = 0, io.ErrUnexpectedEOF
		}
	}()
	n, err = o.from.Read(p)
	o.keep(p[:n])
	switch {
	case err == io.EOF:
		o.whole = true
		for name := range o.trailer {
			o.trailer[name] = o.x.r.Trailer[name]
		}
		o.read.hold(false)
	case err != nil:
		o.fault.Store(bodyFault(o.x.r.Context(), err))
	default:
		o.send.want(true)
	}
	return n, err
}

// Close is net/http's. When and how the client's body ends is for end.
func (o *outgoing) Close() error { return nil }

// keep notes the beginning of a body that comes without its length, as those of gRPC do: a whole one can be sent again.
func (o *outgoing) keep(p []byte) {
	if o.much = o.much || len(o.kept)+len(p) > maxSmall; o.much {
		o.kept = nil
		return
	}
	o.kept = append(o.kept, p...)
}

// settle gives a read that failed a moment to say so: see upload.settle.
func (o *outgoing) settle() {
	deadline := time.Now().Add(settleTime)
	for o.fault.Load() == nil && time.Now().Before(deadline) {
		if o.mu.TryLock() {
			o.mu.Unlock()
			return
		}
		<-time.After(time.Millisecond)
	}
}

// uploading reports whether the body was not read to its end yet.
func (o *outgoing) uploading() bool {
	if o == nil {
		return false
	}
	if !o.mu.TryLock() {
		return true
	}
	defer o.mu.Unlock()
	return !o.whole
}

// end stops the reading and waits for its end.
func (o *outgoing) end() {
	if o == nil {
		return
	}
	o.send.stop()
	streamed := o.x.streamed
	if streamed && o.uploading() {
		o.x.stopBody()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if streamed && o.x.rewinder == nil && o.whole && !o.much && len(o.trailer) == 0 {
		// All of it is here, and can be sent with the next try.
		o.x.small.bytes, o.x.length, o.x.streamed, o.x.touched = o.kept, int64(len(o.kept)), false, false
	}
}
