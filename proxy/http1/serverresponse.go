package http1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A response is the answer to one request of a connection. It belongs to the connection and is used again.
//
// What is written collects in one buffer, the head first, so that an answer of ordinary size goes out in one write. A piece
// that does not fit goes out from where it is, behind what was collected.
type response struct {
	c      *conn
	header http.Header
	fields []field // of header, to sort
	out    *[outSize]byte
	n      int // bytes of out that are collected
	held   int // bytes of a body whose framing is not decided, at out[holdAt:]

	mu      sync.Mutex // guards status, asked: the body may be read, and asked for, in another goroutine
	status  int        // 0: not yet
	length  int64      // that was declared; -1: none was
	sent    int64      // bytes of the body
	mode    framing
	asked   bool // 100 was sent
	close   bool // the connection ends behind the answer
	failed  bool // a write has failed
	flushed bool // some of the answer is on its way
	over    bool
	trailer []string // announced
}

// A field is a field of a header, with all its values.
type field struct {
	name   string
	values []string
}

// framing is how a client finds the end of the answer's body.
type framing uint8

const (
	frameNone    framing = iota // there is no body: none is sent, whatever is written
	frameLength                 // Content-Length
	frameChunked                // Transfer-Encoding
	frameClose                  // the connection's end
	frameOpen                   // not decided: nothing has been sent yet
)

// outSize is enough for the head and body of most answers.
const outSize = 8 << 10

// The first bytes of a body of unknown length are held back at the end of the buffer: if there are no more, their number is
// its length.
const (
	holdSize = 2 << 10
	holdAt   = outSize - holdSize
	holdGap  = 128 // what decide may add to the head
)

var outBuffers = sync.Pool{New: func() any { return new([outSize]byte) }}

func (w *response) begin(c *conn) {
	header := w.header
	if header == nil {
		header = make(http.Header) // a map of up to eight, as most answers are content with, is a faster one
	}
	clear(header)
	w.c, w.header, w.trailer = c, header, w.trailer[:0]
	w.n, w.held, w.status, w.length, w.sent, w.mode = 0, 0, 0, -1, 0, frameNone
	w.asked, w.failed, w.flushed, w.over = false, false, false, false
	w.close = c.request.Close || c.server.draining.Load() || c.lastRequest()
}

// release gives the buffer back.
func (w *response) release() {
	if w.out != nil {
		outBuffers.Put(w.out)
		w.out = nil
	}
}

func (w *response) Header() http.Header { return w.header }

// WriteHeader sends an interim answer, or collects the head of the final one.
func (w *response) WriteHeader(status int) {
	switch {
	case w.over || w.status != 0 || w.c.hijacked:
		return
	case status < 100 || status > 999:
		panic("http1: status " + strconv.Itoa(status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.mu.Lock()
		w.interim(status)
		w.mu.Unlock()
		return
	}
	w.mu.Lock()
	w.status = status
	w.mu.Unlock()
	if w.out == nil {
		w.out = outBuffers.Get().(*[outSize]byte)
	}
	w.writeHead()
}

// interim sends an answer before the final one, which clients of HTTP/1.0 do not know (RFC 9110 section 15.2).
func (w *response) interim(status int) {
	if w.c.request.Minor == 0 {
		return
	}
	if status == http.StatusContinue {
		if w.asked {
			return
		}
		w.asked = true
		w.c.body.waiting.Store(false)
	}
	b := appendStatus(make([]byte, 0, 512), status)
	if status != http.StatusContinue {
		b, _ = w.appendFields(b)
	}
	if err := w.c.write(AppendEnd(b), nil); err != nil {
		w.failed = true
	}
}

// invite asks the client for its body, when nothing has been said yet.
func (w *response) invite() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 && !w.asked {
		w.interim(http.StatusContinue)
	}
	w.c.body.waiting.Store(false)
	if w.failed {
		return io.ErrClosedPipe
	}
	return nil
}

func appendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	if text := http.StatusText(status); text != "" {
		b = append(b, text...)
	} else {
		b = append(b, "status"...)
	}
	return append(b, "\r\n"...)
}

// A meaning is what a header says about the message and the connection, as writeHead needs it.
type meaning struct {
	length, connection, trailer []string
	dated                       bool
}

// appendFields appends the header in the order of its names. What frames the message or concerns the connection is
// written by writeHead.
func (w *response) appendFields(b []byte) ([]byte, meaning) {
	var m meaning
	w.fields = w.fields[:0]
	for name, values := range w.header {
		switch name {
		case "Content-Length":
			m.length = values
			continue
		case "Connection":
			m.connection = values
			continue
		case "Transfer-Encoding", "Keep-Alive", "Proxy-Connection":
			continue
		case "Trailer":
			m.trailer = values
		case "Date":
			m.dated = true
		}
		if !strings.HasPrefix(name, http.TrailerPrefix) {
			w.fields = append(w.fields, field{name, values})
		}
	}
	slices.SortFunc(w.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	for i := range w.fields {
		for _, value := range w.fields[i].values {
			b = AppendField(b, w.fields[i].name, value)
		}
	}
	return b, m
}

// writeHead collects the head but for what frames the body, where that is to be seen.
func (w *response) writeHead() {
	c := w.c
	b, m := w.appendFields(appendStatus(w.out[:0], w.status))
	if !m.dated {
		b = append(append(append(b, "Date: "...), *c.server.date.Load()...), "\r\n"...)
	}
	for _, value := range m.connection {
		w.close = w.close || HasToken(value, "close")
	}
	for _, line := range m.trailer {
		for line != "" {
			var name string
			name, line = NextToken(line)
			if name = http.CanonicalHeaderKey(name); ValidToken(name) && !ForbiddenTrailer(name) {
				w.trailer = append(w.trailer, name)
			}
		}
	}
	w.close = w.close || c.unread() || c.server.draining.Load()
	if len(m.length) == 1 {
		w.length = parseLength(m.length[0])
	}
	switch {
	case w.status == http.StatusSwitchingProtocols:
		w.mode = frameNone
		b = w.appendConnection(b)
	case w.status == http.StatusNoContent:
		w.mode = frameNone
		b = AppendEnd(w.appendConnection(b))
	case c.request.Method == http.MethodHead || w.status == http.StatusNotModified:
		w.mode = frameNone
		if w.length >= 0 {
			b = AppendLength(b, w.length)
		}
		b = AppendEnd(w.appendConnection(b))
	case w.length >= 0:
		w.mode = frameLength
		b = AppendEnd(w.appendConnection(AppendLength(b, w.length)))
	case len(w.trailer) > 0 && c.request.Minor == 1:
		w.mode = frameChunked
		b = AppendEnd(w.appendConnection(append(b, "Transfer-Encoding: chunked\r\n"...)))
	default:
		w.mode = frameOpen
	}
	w.keep(b)
}

// appendConnection says what becomes of the connection where that is not what the version says by itself.
func (w *response) appendConnection(b []byte) []byte {
	switch {
	case w.status == http.StatusSwitchingProtocols:
		b = append(b, "Connection: Upgrade\r\n\r\n"...)
	case w.close && w.c.request.Minor == 1:
		b = append(b, "Connection: close\r\n"...)
	case !w.close && w.c.request.Minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return b
}

// keep makes b what is collected. A head may be longer than the buffer.
func (w *response) keep(b []byte) {
	if len(b) <= outSize {
		w.n = len(b)
		return
	}
	w.n = 0
	w.send(b, nil)
}

// decide frames a body of a length that nobody declared. Whole says that what is held is all of it.
func (w *response) decide(whole bool) {
	held := w.out[holdAt : holdAt+w.held]
	w.held = 0
	b := w.out[:w.n]
	switch {
	case whole:
		w.mode, w.length = frameLength, int64(len(held))
		b = AppendEnd(w.appendConnection(AppendLength(b, w.length)))
	case w.c.request.Minor == 1:
		w.mode = frameChunked
		b = AppendEnd(w.appendConnection(append(b, "Transfer-Encoding: chunked\r\n"...)))
	default:
		w.mode, w.close = frameClose, true
		b = AppendEnd(w.appendConnection(b))
	}
	w.keep(b)
	if len(held) > 0 {
		w.put(held)
	}
}

// hold keeps a piece of the body back, where there is room.
func (w *response) hold(p []byte) bool {
	if w.n+holdGap > holdAt || w.held+len(p) > holdSize {
		return false
	}
	w.held += copy(w.out[holdAt+w.held:], p)
	return true
}

func (w *response) Write(p []byte) (int, error) {
	if w.c.hijacked {
		return 0, http.ErrHijacked
	}
	if w.over {
		return 0, io.ErrClosedPipe
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if w.mode == frameOpen {
		if w.hold(p) {
			return len(p), nil
		}
		w.decide(false)
	}
	if w.mode == frameNone {
		if w.c.request.Method == http.MethodHead {
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if w.mode == frameLength && w.sent+int64(len(p)) > w.length {
		n, err := w.put(p[:w.length-w.sent])
		if err == nil {
			err = http.ErrContentLength
		}
		return n, err
	}
	return w.put(p)
}

// put takes a piece of a body whose framing is decided.
func (w *response) put(p []byte) (int, error) {
	if w.mode == frameChunked {
		return w.chunk(p)
	}
	return w.collect(p)
}

// collect takes bytes of the body, and sends them where they do not fit.
func (w *response) collect(p []byte) (int, error) {
	w.sent += int64(len(p))
	if len(p) == 0 {
		return 0, w.err()
	}
	if w.n+len(p) <= outSize {
		w.n += copy(w.out[w.n:], p)
		return len(p), w.err()
	}
	head := w.out[:w.n]
	w.n = 0
	w.send(head, p)
	if err := w.err(); err != nil {
		return 0, err
	}
	return len(p), nil
}

const chunkRoom = 16 + 2 // of a size line with its CRLF

// chunk is collect for a chunked body. The CRLF behind a chunk stands before the next.
func (w *response) chunk(p []byte) (int, error) {
	if w.n+chunkRoom+2 > outSize {
		w.Flush()
	}
	if w.sent > 0 {
		w.n += copy(w.out[w.n:], "\r\n")
	}
	b := strconv.AppendUint(w.out[:w.n], uint64(len(p)), 16)
	w.n = len(append(b, "\r\n"...))
	return w.collect(p)
}

func (w *response) send(head, rest []byte) {
	if w.failed {
		return
	}
	w.flushed = true
	if w.c.write(head, rest) != nil {
		w.failed = true
	}
}

func (w *response) err() error {
	if w.failed {
		if w.c.expired.Load() {
			return errLate
		}
		return io.ErrClosedPipe
	}
	return nil
}

// Flush sends what is collected.
func (w *response) Flush() { w.FlushError() }

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	if w.c.hijacked || w.over {
		return nil
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.mode == frameOpen {
		w.decide(false)
	}
	if w.n > 0 {
		head := w.out[:w.n]
		w.n = 0
		w.send(head, nil)
	}
	return w.err()
}

// finish ends the answer and reports whether the connection may go on.
func (w *response) finish() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.mode == frameOpen {
		w.decide(true)
	}
	if w.mode == frameChunked {
		w.endChunks()
	}
	if w.n > 0 {
		head := w.out[:w.n]
		w.n = 0
		w.send(head, nil)
	}
	w.over = true
	if w.mode == frameLength && w.sent < w.length {
		w.close = true // the client sees that something is missing
	}
	w.release()
	return !w.close && !w.failed
}

// endChunks collects the end of a chunked body, with the trailer.
func (w *response) endChunks() {
	b := make([]byte, 0, 256)
	if w.sent > 0 {
		b = append(b, "\r\n"...)
	}
	b = append(b, "0\r\n"...)
	for _, name := range w.trailer {
		for _, value := range w.header[name] {
			b = AppendField(b, name, value)
		}
	}
	for name, values := range w.header {
		bare, ok := strings.CutPrefix(name, http.TrailerPrefix)
		if !ok || ForbiddenTrailer(bare) {
			continue
		}
		for _, value := range values {
			b = AppendField(b, http.CanonicalHeaderKey(bare), value)
		}
	}
	b = AppendEnd(b)
	if w.n+len(b) > outSize {
		w.FlushError()
	}
	if w.n+len(b) <= outSize {
		w.n += copy(w.out[w.n:], b)
		return
	}
	w.send(b, nil)
}

// abort leaves the answer as it is: the client sees that something is missing, or gets no answer at all.
func (w *response) abort() {
	w.over = true
	w.release()
}

// Hijack is for http.Hijacker: what was collected is sent before. Within a pass it is not supported, that is, for requests in
// the clear that neither ask for another protocol nor have a body.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	switch {
	case w.c.hijacked:
		return nil, nil, http.ErrHijacked
	case w.c.pass.on:
		return nil, nil, http.ErrNotSupported
	}
	if w.status != 0 && w.n > 0 {
		head := w.out[:w.n]
		w.n = 0
		w.send(head, nil)
	}
	w.release()
	return w.c.hijack()
}

// EnableFullDuplex is for http.ResponseController. A body may always be read while the answer is written.
func (w *response) EnableFullDuplex() error { return nil }

// SetReadDeadline is for http.ResponseController. A time that has passed ends the reading of the body for good.
func (w *response) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) {
		if w.c.complete.Load() {
			return nil // it would be the next request that cannot be read
		}
		w.c.body.failed.Store(true)
	}
	return w.c.net.SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.c.timed.Store(true)
	return w.c.net.SetWriteDeadline(t)
}
