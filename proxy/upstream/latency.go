package upstream

import (
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"sallyport/proxy"
)

// latency is how fast an endpoint has answered of late: the time from the start of a try to the head of the answer, as an
// average in which a second counts for 1/e of one that is ten seconds younger. The zero value knows nothing. It is safe for
// concurrent use.
type latency struct {
	packed atomic.Uint64 // bits of a float32, in seconds, above the tick it is of; 0: nothing is known
}

const (
	decay = 10 * time.Second

	// worst bounds what failures make of an endpoint, in seconds.
	worst = 60
)

// clockStart is what ticks count from.
var clockStart = time.Now()

// tickLength is 65.536 µs: short beside a request, and 2^32 of them are more than three days.
const tickLength = 1 << 16 * time.Nanosecond

// ticks is the time as latencies keep it. It goes round; only differences mean something.
func ticks(now time.Time) uint32 { return uint32(uint64(now.Sub(clockStart)) / uint64(tickLength)) }

// lately is the tick of the last attempt that any endpoint was observed in. Reading the clock costs as much as all the rest
// of a pick (50 ns of 100), and averages of ten seconds do not need it to be exact.
var lately atomic.Uint32

// observe is told of an attempt that is over, and when it was.
func (l *latency) observe(a *proxy.Attempt, at time.Time) {
	switch a.Reason {
	case proxy.BadBody, proxy.BodyTimeout, proxy.BodyTooLarge:
		return // the client's doing
	case proxy.BufferFailed, proxy.Panic:
		return // ours
	}
	now := ticks(at)
	if lately.Load() != now {
		lately.Store(now)
	}
	for {
		before := l.packed.Load()
		value, tick, known := unpack(before)
		var sample float64
		switch {
		case a.Reason == proxy.ClientClosed && a.Status == 0:
			// How long the answer would have taken nobody knows, but longer than this.
			if sample = a.Total.Seconds(); sample <= value {
				return
			}
		case failed(a):
			// What fails at once is not fast. If it were, it would draw all requests to itself.
			if sample = min(max(a.Total.Seconds(), 2*value), worst); !known && a.Total < time.Second {
				return // what an endpoint is when it is not known is for the policy to say
			}
		case a.Header > 0:
			sample = a.Header.Seconds()
		default:
			return
		}
		if known {
			weight := faded(tick, now)
			sample = value*weight + sample*(1-weight)
		}
		if l.packed.CompareAndSwap(before, pack(sample, now)) {
			return
		}
	}
}

// failed reports whether an attempt says nothing good of its endpoint: it broke, or the answer is that there is none.
func failed(a *proxy.Attempt) bool {
	return a.Reason != "" && a.Reason != proxy.ClientClosed || a.Status >= 500 || a.Status == http.StatusTooManyRequests
}

// now is what is to be expected of the endpoint, in seconds: its own average, the less the longer ago it is from, and for
// the rest that of others.
func (l *latency) now(tick uint32, others float64) float64 {
	value, of, known := unpack(l.packed.Load())
	if !known {
		return others
	}
	if others == 0 {
		return value
	}
	return others + (value-others)*faded(of, tick)
}

// faded is what is left of an average after a time, at most 1.
func faded(then, now uint32) float64 {
	age := now - then
	if age > math.MaxUint32-uint32(time.Second/tickLength) {
		return 1 // whoever was here first read the clock later
	}
	return math.Exp(-float64(age) / float64(decay/tickLength))
}

func pack(seconds float64, tick uint32) uint64 {
	value := math.Float32bits(float32(max(seconds, math.SmallestNonzeroFloat32)))
	return uint64(value)<<32 | uint64(tick)
}

func unpack(packed uint64) (seconds float64, tick uint32, known bool) {
	return float64(math.Float32frombits(uint32(packed >> 32))), uint32(packed), packed>>32 != 0
}
