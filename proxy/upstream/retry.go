package upstream

import (
	"net/http"
	"time"

	"sallyport/proxy"
)

// RetryOn is a set of the things after which a request goes to another endpoint.
type RetryOn uint16

// What can be in the set. The bits for statuses are about answers of endpoints: such an answer is dropped while there is
// another try, the last one is relayed.
const (
	RetryOnError         RetryOn = 1 << iota // no connection, or one that ended before the answer began
	RetryOnTimeout                           // nothing in time: no connection, no taking of the request, no answer
	RetryOnInvalidHeader                     // an answer that is no HTTP, or whose head is too big
	RetryOn500
	RetryOn502
	RetryOn503
	RetryOn504
	RetryOn403
	RetryOn404
	RetryOn429
	RetryNonIdempotent // POST, LOCK and PATCH too, though the endpoint may have acted on them already
	RetryOff           // nothing at all, whatever else is in the set
)

// RetryWord returns what a word of the annotation proxy-next-upstream stands for.
func RetryWord(word string) (on RetryOn, known bool) {
	switch word {
	case "error":
		return RetryOnError, true
	case "timeout":
		return RetryOnTimeout, true
	case "invalid_header":
		return RetryOnInvalidHeader, true
	case "http_500":
		return RetryOn500, true
	case "http_502":
		return RetryOn502, true
	case "http_503":
		return RetryOn503, true
	case "http_504":
		return RetryOn504, true
	case "http_403":
		return RetryOn403, true
	case "http_404":
		return RetryOn404, true
	case "http_429":
		return RetryOn429, true
	case "non_idempotent":
		return RetryNonIdempotent, true
	case "off":
		return RetryOff, true
	}
	return 0, false
}

// has reports whether on holds one of the bits of what.
func (on RetryOn) has(what RetryOn) bool { return on&RetryOff == 0 && on&what != 0 }

// afterFault is the bit that an attempt's fault falls under, 0 when it falls under none.
func afterFault(f *fault) RetryOn {
	switch f.reason {
	case proxy.ConnectRefused, proxy.ConnectFailed, proxy.UpstreamTLS, proxy.UpstreamReset:
		return RetryOnError
	case proxy.ConnectTimeout, proxy.SendTimeout, proxy.HeaderTimeout:
		return RetryOnTimeout
	case proxy.UpstreamInvalid, proxy.UpstreamTooBig:
		return RetryOnInvalidHeader
	}
	return 0
}

// afterStatus is the bit that an endpoint's answer falls under, 0 when it falls under none.
func afterStatus(status int) RetryOn {
	switch status {
	case http.StatusInternalServerError:
		return RetryOn500
	case http.StatusBadGateway:
		return RetryOn502
	case http.StatusServiceUnavailable:
		return RetryOn503
	case http.StatusGatewayTimeout:
		return RetryOn504
	case http.StatusForbidden:
		return RetryOn403
	case http.StatusNotFound:
		return RetryOn404
	case http.StatusTooManyRequests:
		return RetryOn429
	}
	return 0
}

// harmless reports whether the request may be sent again though an endpoint may have acted on it (reference A14: those that
// nginx calls idempotent). Idempotency-Key does not count: any client could send it. A WebSocket handshake opens something.
func (x *trip) harmless() bool {
	if x.upgrade {
		return false
	}
	switch x.r.Method {
	case http.MethodPost, http.MethodPatch, "LOCK":
		return x.t.options.Retry.has(RetryNonIdempotent)
	}
	return true
}

// repeatable reports whether the request can be sent again at all. Safe says that no endpoint can have acted on it.
func (x *trip) repeatable(safe bool) bool {
	return !x.committed && (safe || x.harmless()) && (!x.touched || x.rewinder != nil)
}

// mayMove reports whether there may be another try after what came of this one, whatever the budget.
func (x *trip) mayMove(what RetryOn, safe bool) bool {
	o := &x.t.options
	return o.Retry.has(what) && x.repeatable(safe) && x.tries < o.Tries && (o.RetryTimeout <= 0 || time.Since(x.begun) < o.RetryTimeout)
}

// movesOn reports whether there is another try after what came of this one, and charges the budget for it.
func (x *trip) movesOn(what RetryOn, safe bool) bool {
	if !x.mayMove(what, safe) {
		return false
	}
	if x.paid {
		x.paid = false
		return true
	}
	return x.t.pool.care.budget.spend(time.Now(), x.t.options.RetryBudget)
}

// movable reports whether the request may go to another endpoint while this one's answer is awaited.
func (x *trip) movable() bool {
	o := &x.t.options
	return o.Retry.has(RetryOnTimeout) && o.RetryTimeout <= 0 && x.tries < o.Tries && x.harmless() && (!x.streamed || x.rewinder != nil)
}

// hurry is how long a connection may take, at least, before another endpoint is tried.
const hurry = 500 * time.Millisecond

// connectTimeout is how long a connection may take. While there are other endpoints to go to it need not be more than a few
// times what connections to the pool's endpoints take: one that is longer in the making leads to a dead host.
func (x *trip) connectTimeout(endpoint *Endpoint) time.Duration {
	o := &x.t.options
	usual := x.t.pool.care.connects.of(time.Now())
	limit := max(hurry, 4*usual)
	if usual == 0 || o.ConnectTimeout > 0 && o.ConnectTimeout <= limit || x.tries >= o.Tries || !o.Retry.has(RetryOnTimeout) {
		return o.ConnectTimeout
	}
	for _, other := range x.t.pool.members() {
		if other != endpoint && other.available(false) && !tried(x.attempts(), other.addr) {
			return limit
		}
	}
	return o.ConnectTimeout
}

// next is the endpoint for the next try, with a place at it: one that the request has not been to, by the pool's policy,
// else the one it was at longest ago. Nil: there is none. A request that has not been anywhere waits for a place where all
// are taken.
func (x *trip) next() (*Endpoint, *fault) {
	p := x.t.pool
	first := x.tries == 0 && x.refusals == 0
	if first && p.care.queue.busy() {
		return x.wait() // others were here before
	}
	if endpoint := x.pick(); endpoint != nil {
		return endpoint, nil
	}
	if first && p.limited() && p.Len() > 0 {
		return x.wait()
	}
	if endpoint := p.again(x.attempts()); endpoint != nil && x.enter(endpoint, true) {
		return endpoint, nil
	}
	return nil, nil
}

// pick is an endpoint that the request has not been to, with a place at it, or nil.
func (x *trip) pick() *Endpoint {
	p := x.t.pool
	var last *Endpoint
	for range maxPicks {
		endpoint := x.choose()
		if endpoint == nil || endpoint.isAside() && p.isFull() {
			return nil // one that is left out is not better than one that will have room
		}
		if x.enter(endpoint, endpoint == last) {
			return endpoint
		}
		last = endpoint
	}
	return nil
}

// maxPicks bounds how often the place at an endpoint may be taken by somebody else between the pick and the entry.
const maxPicks = 8

// enter takes a place at an endpoint, unless it has none left, or another request was a moment faster in finding out
// whether the endpoint is well again. Anyhow says that the latter does not matter.
func (x *trip) enter(endpoint *Endpoint, anyhow bool) bool {
	h := &endpoint.health
	probe := false
	if until := h.until.Load(); until != 0 && time.Now().UnixNano() >= until {
		if probe = h.probing.CompareAndSwap(false, true); !probe && !anyhow {
			return false
		}
	}
	if !endpoint.enter() {
		if probe {
			h.probing.Store(false)
		}
		return false
	}
	x.probe = probe
	return true
}

// leave gives the place up.
func (x *trip) leave(endpoint *Endpoint) {
	x.endProbe(endpoint)
	endpoint.inFlight.Add(-1)
	if endpoint.limit.Load() != 0 {
		x.t.pool.care.queue.wake()
	}
}

// endProbe lets the next one see whether the endpoint is well again.
func (x *trip) endProbe(endpoint *Endpoint) {
	if x.probe {
		x.probe = false
		endpoint.health.probing.Store(false)
	}
}
