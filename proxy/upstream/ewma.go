package upstream

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
)

// ewma draws two endpoints and takes the one that promises the earlier answer: the lower of latency times the requests that
// will be in flight, for its weight. Of two drawn at random the better is never the worst of all, and requests that come
// together do not all go to whoever was best a moment ago.
//
// What an endpoint's latency was says less and less the longer it was not asked. What is believed of it moves from there to
// the average of the pool, and an endpoint that was never asked is believed to be average. Were it believed to be fast
// instead, as with an average that only decays, one that was slow would be overrun as soon as it was forgotten.
type ewma struct {
	rotating
	slow    slowStart
	average atomic.Uint64 // bits of a float64, in seconds: of what was believed of the endpoints drawn of late
}

const (
	averaged = 64 // draws that the average is made of, roughly
	counted  = 8  // one of so many draws goes into it, as writing it costs more than all else that is done with two endpoints
)

// Pick takes the better of two that fit.
func (p *ewma) Pick(pick Pick) *Endpoint {
	r := p.current()
	if r == nil {
		return nil
	}
	drawn := rand.Uint64()
	a, b := r.two(drawn)
	if a == b || p.slow != 0 || !pick.Fits(a) || !pick.Fits(b) { // hardly ever
		if a = r.any(&pick, p.slow, nil); a == nil || len(r.members) == 1 {
			return a
		}
		if b = r.any(&pick, p.slow, a); b == nil {
			return a
		}
	}
	now, average := lately.Load(), math.Float64frombits(p.average.Load())
	ofA, ofB := a.latency.now(now, average), b.latency.now(now, average)
	if average == 0 {
		average = max(ofA, ofB)
		p.average.Store(math.Float64bits(average))
	}
	if drawn%counted == 0 {
		// Two that do this at once lose one of their draws, which does not matter.
		p.average.Store(math.Float64bits(average + ((ofA+ofB)/2-average)*counted/averaged))
	}
	if delay(b, ofB) < delay(a, ofA) {
		return b
	}
	return a
}

// delay is what a request has to expect.
func delay(e *Endpoint, latency float64) float64 {
	const least = 1e-6 // seconds; with none at all the requests in flight would count for nothing
	return max(latency, least) * float64(e.inFlight.Load()+1) / e.weight()
}
