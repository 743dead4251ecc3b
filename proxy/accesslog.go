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
	waiting atomic.Int64 // bytes in queue
	dropped atomic.Uint64
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

const (
	queuedLines   = 8192
	queuedBytes   = 8 << 20         // and no more than that, however long clients make their lines
	keptLine      = 4 << 10         // bytes of a buffer that is worth keeping
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

// Log queues the line of a finished exchange. After Close the line is lost, and counted.
func (l *AccessLog) Log(r *http.Request, e *Exchange) {
	select {
	case <-l.stop:
		l.dropped.Add(1)
		return
	default:
	}
	line := lines.Get().(*[]byte)
	*line = l.format((*line)[:0], r, e)
	n := int64(len(*line))
	if l.waiting.Add(n) <= queuedBytes {
		select {
		case l.queue <- line:
			return
		default:
		}
	}
	l.waiting.Add(-n)
	l.dropped.Add(1)
	recycle(line)
}

func recycle(line *[]byte) {
	if cap(*line) <= keptLine {
		lines.Put(line)
	}
}

// Dropped is how many lines were lost because nobody took them in time, or because they could not be written.
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
			l.writeFrom(buffer, line)
		case <-l.stop:
			for {
				select {
				case line := <-l.queue:
					l.writeFrom(buffer, line)
				default:
					return
				}
			}
		}
	}
}

// writeFrom writes a line, and as many of those that wait behind it as fit into the buffer.
func (l *AccessLog) writeFrom(buffer []byte, line *[]byte) {
	for n := uint64(1); ; n++ {
		buffer = append(buffer, *line...)
		l.waiting.Add(-int64(len(*line)))
		recycle(line)
		if len(buffer) < writeTogether {
			select {
			case line = <-l.queue:
				continue
			default:
			}
		}
		if _, err := l.out.Write(buffer); err != nil {
			l.dropped.Add(n) // the last of them may be there in part; nobody is left to tell
		}
		return
	}
}
