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
// one of the log's own; between the two stands a bounded queue. Who reads slowly, or not at all, loses lines, which are
// counted, and never holds up a request.
type AccessLog struct {
	out     io.Writer
	format  func([]byte, *http.Request, *Exchange) []byte
	queue   chan *[]byte
	dropped atomic.Uint64
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

const (
	queuedLines   = 8192
	writeTogether = 64 << 10        // bytes gathered for one write
	lastWords     = 2 * time.Second // for the lines that are queued when the log is closed
)

var lines = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// NewAccessLog starts a log in a format, [TextLog] or [JSONLog].
func NewAccessLog(out io.Writer, format string) *AccessLog {
	l := &AccessLog{
		out: out, format: appendText, queue: make(chan *[]byte, queuedLines),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if format == JSONLog {
		l.format = appendJSON
	}
	go l.write()
	return l
}

// Log queues the line of a finished exchange. After Close it does nothing.
func (l *AccessLog) Log(r *http.Request, e *Exchange) {
	line := lines.Get().(*[]byte)
	*line = l.format((*line)[:0], r, e)
	select {
	case l.queue <- line:
	default:
		l.dropped.Add(1)
		lines.Put(line)
	}
}

// Dropped is how many lines were lost because nobody took them in time.
func (l *AccessLog) Dropped() uint64 { return l.dropped.Load() }

// Close writes what is queued, as far as somebody takes it soon, and ends the log.
func (l *AccessLog) Close() {
	l.once.Do(func() { close(l.stop) })
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	select {
	case <-l.done:
	case <-patience.C:
	}
}

func (l *AccessLog) write() {
	defer close(l.done)
	buffer := make([]byte, 0, writeTogether)
	// What can happen: a line is queued, with others behind it; or the log is closed, with lines still queued.
	for {
		select {
		case line := <-l.queue:
			buffer = l.gather(buffer[:0], line)
			l.out.Write(buffer) // there is nobody left to tell of an error
		case <-l.stop:
			for {
				select {
				case line := <-l.queue:
					l.out.Write(l.gather(buffer[:0], line))
				default:
					return
				}
			}
		}
	}
}

// gather appends a line and those that wait behind it.
func (l *AccessLog) gather(buffer []byte, line *[]byte) []byte {
	for {
		buffer = append(buffer, *line...)
		lines.Put(line)
		if len(buffer) >= writeTogether {
			return buffer
		}
		select {
		case line = <-l.queue:
		default:
			return buffer
		}
	}
}
