package upstream

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"sallyport/proxy/http1"
)

var errDeadline = os.ErrDeadlineExceeded

// An upload is a request body on its way to the endpoint, in a goroutine of its own: the endpoint may answer before it
// has read everything, and both sides may stream for as long as they like.
type upload struct {
	c        *conn
	r        *http.Request
	held     []byte                // what is to be sent, if it is here; nil: the body of r
	trailers []string              // names of fields that may be sent behind the body
	done     chan struct{}         // closed when the goroutine has ended
	read     atomic.Bool           // the client has sent everything; true before the last of it goes to the endpoint
	whole    bool                  // everything was sent; good once done is closed
	fault    atomic.Pointer[fault] // why it ended early; nil when the endpoint only stopped reading: its answer tells more
}

// startUpload begins to send the body over c, or what is left of one that is here.
func (x *trip) startUpload(c *conn, held []byte) {
	x.touched = held == nil
	if held == nil && x.rewinder == nil && x.r.ProtoMajor == 1 {
		// Without this net/http reads the rest of the body before it writes an answer, and an early answer would
		// wait for the upload that it is meant to spare the client. Only HTTP/1 needs it; where the writer does
		// not know it, nothing is read behind our back either.
		http.NewResponseController(x.w).EnableFullDuplex()
	}
	c.watch()
	c.sending.Store(true)
	x.upload = &upload{c: c, r: x.r, held: held, trailers: x.trailers, done: make(chan struct{})}
	go x.upload.run()
}

// uploading reports whether some of the body has not been sent, or not even been asked for.
func (x *trip) uploading() bool {
	if x.upload == nil {
		return x.streamed
	}
	select {
	case <-x.upload.done:
		return !x.upload.whole
	default:
		return true
	}
}

// waits reports whether the client may still be sending a body that nobody will read. An endpoint that answers what it has
// read to the end is often sooner than the goroutine that has sent it is done.
func (x *trip) waits() bool {
	return x.rewinder == nil && x.uploading() && (x.upload == nil || !x.upload.read.Load())
}

// endUpload stops the upload if it is still going and waits for its end. It reports whether the endpoint got a whole
// request, so that the connection can carry another.
func (x *trip) endUpload(c *conn) (whole bool) {
	if x.upload == nil {
		return !x.streamed
	}
	u := x.upload
	switch {
	case !x.uploading():
	case u.read.Load():
		// The last bytes are on their way, or the endpoint does not want them. The client need not wait to see which.
		if !u.settle(time.Millisecond) && x.committed {
			x.flush()
		}
		if !u.settle(settleTime) {
			c.abort()
		}
	default:
		c.abort() // wakes a write
		x.stopBody()
	}
	<-u.done
	return u.whole
}

// stopBody wakes a read of the body, for good.
func (x *trip) stopBody() {
	if x.rewinder != nil {
		return // which is never waited for
	}
	if http.NewResponseController(x.w).SetReadDeadline(time.Unix(1, 0)) != nil {
		x.r.Body.Close()
	}
}

// run sends the body and ends.
func (u *upload) run() {
	defer close(u.done)
	defer func() {
		u.c.sentAt.Store(time.Now().UnixNano())
		u.c.sending.Store(false)
	}()
	defer func() {
		if p := recover(); p != nil { // of whoever wrapped the body; it would take the process down
			u.stop(panicked(p))
		}
	}()
	if u.held != nil {
		u.read.Store(true)
		u.whole = u.write(u.held)
		return
	}
	buffer := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buffer)
	if u.r.ContentLength >= 0 {
		u.fixed(buffer[:])
	} else {
		u.chunked(buffer[:])
	}
}

// stop notes why the upload ends and closes the connection, which wakes whoever waits for the answer.
func (u *upload) stop(f *fault) {
	u.fault.Store(f)
	u.c.abort()
}

// settleTime is how long an upload may take to end, when nothing but its end is waited for.
const settleTime = 250 * time.Millisecond

// settle gives the upload a moment to end, and to say why, and reports whether it has. When net/http cannot read on, it cancels
// the request's context before it returns from the read, so that a body that only stalled looks at first as if the client
// had left.
func (u *upload) settle(moment time.Duration) bool {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-u.done:
		return true
	case <-timer.C:
		return false
	}
}

// write sends p. An endpoint that has closed or reset the connection may have answered before, so the answer is left to
// be read; one that stalled is given up.
func (u *upload) write(p []byte) bool {
	_, err := u.c.Write(p)
	if err == nil {
		return true
	}
	if errors.Is(err, errDeadline) {
		u.stop(sendFault(u.r.Context(), err))
	}
	return false
}

func (u *upload) fixed(buffer []byte) {
	for left := u.r.ContentLength; left > 0; {
		n, err := u.r.Body.Read(buffer[:min(left, int64(len(buffer)))])
		if left -= int64(n); left == 0 {
			u.read.Store(true)
		}
		if n > 0 && !u.write(buffer[:n]) {
			return
		}
		if err != nil && left > 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			u.stop(bodyFault(u.r.Context(), err))
			return
		}
	}
	u.whole = true
}

// sizeRoom is the room before a chunk for its size line: the digits of copySize, CR and LF.
const sizeRoom = 6

func (u *upload) chunked(buffer []byte) {
	for {
		n, err := u.r.Body.Read(buffer[sizeRoom : len(buffer)-2])
		if err == io.EOF {
			u.read.Store(true)
		}
		if n > 0 && !u.write(chunk(buffer, n)) {
			return
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			u.stop(bodyFault(u.r.Context(), err))
			return
		}
	}
	u.whole = u.write(u.appendLast(buffer[:0]))
}

// chunk puts the size line before the n bytes that stand in buffer at sizeRoom and CRLF behind them.
func chunk(buffer []byte, n int) []byte {
	var digits [8]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	start := sizeRoom - 2 - len(size)
	copy(buffer[start:], size)
	copy(buffer[sizeRoom-2:], "\r\n")
	end := sizeRoom + n
	copy(buffer[end:], "\r\n")
	return buffer[start : end+2]
}

// appendLast appends the last chunk and the trailer, which is in r.Trailer once the body was read to its end.
func (u *upload) appendLast(b []byte) []byte {
	b = append(b, "0\r\n"...)
	for _, name := range u.trailers {
		for _, value := range u.r.Trailer[name] {
			b = http1.AppendField(b, name, value)
		}
	}
	return http1.AppendEnd(b)
}
