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
	case proxy.ConnectRefused, proxy.ConnectFailed, proxy.UpstreamReset:
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

// movesOn reports whether there is another try after what came of this one.
func (x *trip) movesOn(what RetryOn, safe bool) bool {
	o := &x.t.options
	return o.Retry.has(what) && x.repeatable(safe) && x.tries < o.Tries &&
		(o.RetryTimeout <= 0 || time.Since(x.begun) < o.RetryTimeout)
}

// next is the endpoint for the next try: one that the request has not been to, by the pool's policy, else the one it was
// at longest ago.
func (x *trip) next() *Endpoint {
	if endpoint := x.t.pool.pick(x.t.policy, Pick{Exchange: x.e, Request: x.r, HashBy: x.t.options.HashBy}); endpoint != nil {
		return endpoint
	}
	return x.t.pool.again(x.e.Attempts[x.before:])
}
