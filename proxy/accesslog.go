package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The formats of an access log.
const (
	TextLog = "text" // the default line of ingress-nginx
	JSONLog = "json" // one object a line
)

// An AccessLog writes a line for each exchange. Lines are made on the goroutine that serves the request and written by
// one of the log's own, which takes what has gathered meanwhile: a line after a pause at once, others together. Between the
// two stands a bounded buffer. Who reads slowly, or not at all, loses lines, which are counted, and never holds up a
// request.
type AccessLog struct {
	out     io.Writer
	format  func([]byte, *http.Request, *Exchange) []byte
	dropped atomic.Uint64
	some    chan struct{} // has a place: text is no longer empty
	much    chan struct{} // has a place: text need not gather any longer
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when nothing more is written

	mu      sync.Mutex
	text    []byte // lines that wait
	lines   uint64 // as many
	waiting int    // bytes of lines that wait, and of those that are being written
	closed  bool
}

const (
	queuedBytes   = 8 << 20               // that wait, no more, however long clients make their lines
	keptLine      = 4 << 10               // bytes of a buffer that is worth keeping
	keptText      = 256 << 10             // bytes of one for many lines
	writeTogether = 64 << 10              // bytes that are worth a write
	gatherTime    = 50 * time.Millisecond // between writes of fewer
	lastWords     = 2 * time.Second       // for the lines that wait when the log is closed
)

var lines = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// NewAccessLog starts a log in a format, [TextLog] or [JSONLog].
func NewAccessLog(out io.Writer, format string) *AccessLog {
	l := &AccessLog{
		out: out, format: appendText, some: make(chan struct{}, 1), much: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if format == JSONLog {
		l.format = appendJSON
	}
	go l.write()
	return l
}

// Log takes the line of a finished exchange. After Close the line is lost, and counted.
func (l *AccessLog) Log(r *http.Request, e *Exchange) {
	line := lines.Get().(*[]byte)
	*line = l.format((*line)[:0], r, e)
	if !l.take(*line) {
		l.dropped.Add(1)
	}
	if cap(*line) <= keptLine {
		lines.Put(line)
	}
}

func (l *AccessLog) take(line []byte) bool {
	l.mu.Lock()
	if l.closed || l.waiting+len(line) > queuedBytes {
		l.mu.Unlock()
		return false
	}
	before := len(l.text)
	l.text = append(l.text, line...)
	after := len(l.text)
	l.lines++
	l.waiting += len(line)
	l.mu.Unlock()
	switch {
	case before == 0:
		signal(l.some)
	case before < writeTogether && after >= writeTogether:
		signal(l.much)
	}
	return true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Dropped is how many lines were lost because nobody took them in time, or because they could not be written.
func (l *AccessLog) Dropped() uint64 { return l.dropped.Load() }

// Close writes what waits, as far as somebody takes it soon, and ends the log.
func (l *AccessLog) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stop)
	}
	l.mu.Unlock()
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	select {
	case <-l.done:
	case <-patience.C:
	}
}

func (l *AccessLog) write() {
	defer close(l.done)
	var spare []byte
	gather := time.NewTimer(0)
	defer gather.Stop()
	for {
		select {
		case <-l.some:
		case <-l.stop:
			l.writeFrom(spare)
			return
		}
		select {
		case <-gather.C:
		case <-l.much:
		case <-l.stop:
		}
		spare = l.writeFrom(spare)
		gather.Reset(gatherTime)
	}
}

// writeFrom writes the lines that wait, while others gather in spare, and returns what is spare then.
func (l *AccessLog) writeFrom(spare []byte) []byte {
	l.mu.Lock()
	text, lines := l.text, l.lines
	l.text, l.lines = spare[:0], 0
	l.mu.Unlock()
	if len(text) == 0 {
		return text
	}
	if _, err := l.out.Write(text); err != nil {
		l.dropped.Add(lines) // the last of them may be there in part; nobody is left to tell
	}
	l.mu.Lock()
	l.waiting -= len(text)
	l.mu.Unlock()
	if cap(text) > keptText {
		return nil
	}
	return text
}
