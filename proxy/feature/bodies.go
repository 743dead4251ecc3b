package feature

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// bodySize refuses request bodies over a limit (reference B3 #33): at once where the client says how long its body is,
// else when the limit is passed.
func bodySize(a *Annotations, d *Draft) {
	a.Section("Size of request bodies", ReachPaths, "A body that is said to be longer is refused with 413 before anything else is asked, "+
		"credentials among it; one of unknown length once it has become too long. The limit holds for the whole of a gRPC stream too, as in ingress-nginx.")
	most := a.Shared().Size("proxy-body-size", 1<<20, "the size of the largest request body; 0 means no limit")
	if most <= 0 {
		return
	}
	d.Use(func(next http.Handler) http.Handler { return &bodyLimit{next, most} })
}

type bodyLimit struct {
	next http.Handler
	most int64
}

func (l *bodyLimit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.ContentLength > l.most:
		proxy.Fail(w, r, http.StatusRequestEntityTooLarge, proxy.BodyTooLarge)
		return
	case r.ContentLength < 0 && r.Body != nil: // one of known length cannot become longer
		r.Body = &limitedBody{ReadCloser: r.Body, left: l.most, most: l.most}
	}
	l.next.ServeHTTP(w, r)
}

// limitedBody is what http.MaxBytesReader makes, without the writer: what becomes of the connection is the front's to say.
type limitedBody struct {
	io.ReadCloser
	left, most int64
	over       bool
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, &http.MaxBytesError{Limit: b.most}
	}
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1] // one byte more tells a body that ends here from one that does not
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) <= b.left {
		b.left -= int64(n)
		return n, err
	}
	n, b.left, b.over = int(b.left), 0, true
	return n, &http.MaxBytesError{Limit: b.most}
}

// requestBuffering reads a body whole before an endpoint hears of the request (reference A14): a client that sends slowly
// holds no connection to an endpoint, one that leaves reaches none, and the request can be sent again.
func requestBuffering(a *Annotations, d *Draft) {
	a.Section("Buffering of request bodies", ReachPaths, "Off streams the body to the endpoint as it comes, which is what uploads with progress and "+
		"conversations in both directions need; a request is then not repeated once some of its body was sent. gRPC is always streamed.")
	wanted := a.Shared().OnOff("proxy-request-buffering", true, "whether a request body is read whole before the endpoint is asked")
	memory := a.Shared().Size("client-body-buffer-size", 8<<10, "how much of a request body is kept in memory, where the rest goes to a temporary file; more than 1m counts as 1m")
	if !wanted {
		return
	}
	d.UseAt(func(at Place) Middleware {
		if isGRPC(d.Upstream) || isGRPC(upstream.Options{Protocol: at.Protocol}) {
			return nil // its streams end when both sides have said what they had to say
		}
		return func(next http.Handler) http.Handler { return &bodyBuffer{next, int(min(memory, maxMemory))} }
	})
}

const (
	maxMemory  = 1 << 20  // of one body: what a client sends is not to fill the memory of the process
	usualBody  = 8 << 10  // that a buffer begins with
	keptBody   = 64 << 10 // of a buffer that is worth keeping
	pieceSize  = 32 << 10 // that is moved to the file at a time
	filePrefix = "sallyport-body-"
)

type bodyBuffer struct {
	next   http.Handler
	memory int
}

func (m *bodyBuffer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		m.next.ServeHTTP(w, r)
		return
	}
	b := heldBodies.Get().(*heldBody)
	defer b.free()
	if err := b.fill(r.Body, m.memory); err != nil {
		status, reason := bodyFault(r.Context(), err)
		proxy.Fail(w, r, status, reason)
		return
	}
	r.Body = b
	// Once read to its end the body has its true length, which endpoints understand better than chunks. Fields behind it
	// can only be sent after chunks.
	if len(r.Trailer) == 0 {
		r.ContentLength, r.TransferEncoding = b.length(), nil
		if r.ContentLength == 0 {
			r.Body = http.NoBody
		}
	}
	m.next.ServeHTTP(w, r)
	r.Body = http.NoBody
}

// heldBodies keeps the buffers of bodies that are over.
var heldBodies = sync.Pool{New: func() any { return &heldBody{memory: make([]byte, 0, usualBody)} }}

// A heldBody is a body that was read whole. It can be read any number of times.
type heldBody struct {
	memory  []byte   // what came first
	file    *os.File // what came after it; nil: nothing did. It has no name, so nothing is left of it whatever happens
	spilled int64    // bytes in file
	at      int64    // where Read goes on
}

// fill reads body to its end; most is how many bytes of it stay in memory. The buffer grows with what has come, never by
// what was announced.
func (b *heldBody) fill(body io.Reader, most int) error {
	for len(b.memory) < most {
		if len(b.memory) == cap(b.memory) {
			b.memory = append(make([]byte, 0, min(2*cap(b.memory), most)), b.memory...)
		}
		n, err := body.Read(b.memory[len(b.memory):min(cap(b.memory), most)])
		b.memory = b.memory[:len(b.memory)+n]
		if err != nil {
			return unlessEOF(err)
		}
	}
	return b.spill(body)
}

func (b *heldBody) spill(body io.Reader) error {
	piece := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(piece)
	for {
		n, err := body.Read(piece[:])
		if n > 0 {
			if err := b.write(piece[:n]); err != nil {
				reportFull(err)
				return &bufferError{err}
			}
		}
		if err != nil {
			return unlessEOF(err)
		}
	}
}

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

func (b *heldBody) write(p []byte) error {
	if b.file == nil {
		file, err := os.CreateTemp("", filePrefix)
		if err != nil {
			return err
		}
		b.file = file
		if err := os.Remove(file.Name()); err != nil {
			return err
		}
	}
	n, err := b.file.Write(p)
	b.spilled += int64(n)
	return err
}

func unlessEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (b *heldBody) length() int64 { return int64(len(b.memory)) + b.spilled }

func (b *heldBody) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if inMemory := int64(len(b.memory)); b.at < inMemory {
		n = copy(p, b.memory[b.at:])
	} else if b.at < b.length() {
		p = p[:min(int64(len(p)), b.length()-b.at)]
		if n, err = b.file.ReadAt(p, b.at-inMemory); n == len(p) {
			err = nil
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	b.at += int64(n)
	if err == nil && b.at == b.length() {
		err = io.EOF
	}
	return n, err
}

// Rewind makes the body begin anew, for a request that is sent again: see upstream.Rewinder.
func (b *heldBody) Rewind() error {
	b.at = 0
	return nil
}

// Bytes is the body if no file holds some of it: see upstream.Rewinder.
func (b *heldBody) Bytes() []byte {
	if b.file != nil {
		return nil
	}
	return b.memory
}

// Close does nothing: whoever sends the body may want it again.
func (b *heldBody) Close() error { return nil }

// free gives everything back. Nobody may read any more.
func (b *heldBody) free() {
	if b.file != nil {
		b.file.Close()
	}
	*b = heldBody{memory: b.memory[:0]}
	if cap(b.memory) <= keptBody {
		heldBodies.Put(b)
	}
}

// A bufferError says that a body could not be kept, which is no fault of the client's.
type bufferError struct{ error }

func (e *bufferError) Unwrap() error { return e.error }

// bodyFault says what to answer when a body cannot be read to its end.
func bodyFault(ctx context.Context, err error) (status int, reason proxy.Reason) {
	var ours *bufferError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &ours):
		return http.StatusInternalServerError, proxy.BufferFailed
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, proxy.BodyTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, proxy.BodyTimeout
	case ctx.Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
		return proxy.StatusClientClosed, proxy.ClientClosed
	}
	return http.StatusBadRequest, proxy.BadBody
}

// reportEvery is how often the log says that bodies cannot be kept.
const reportEvery = time.Minute

var reportedFull atomic.Int64 // Unix nanoseconds; 0: never

func reportFull(err error) {
	now, last := time.Now().UnixNano(), reportedFull.Load()
	if last != 0 && now-last < int64(reportEvery) || !reportedFull.CompareAndSwap(last, now) {
		return
	}
	slog.Error("a request body cannot be buffered, so the request is answered 500; is there room for temporary files?", "folder", os.TempDir(), "error", err)
}
