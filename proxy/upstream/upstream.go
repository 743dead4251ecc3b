package upstream

import (
	"net/http"

	"sallyport/proxy"
)

// New returns the back of a route: it sends requests to the endpoints of pool.
func New(pool *Pool, o Options) *Transport {
	return &Transport{pool: pool, policy: pool.policy(o.Balance), options: o.withDefaults()}
}

// A Transport sends the requests of one route. It is the last handler of the route's chain and never changes.
type Transport struct {
	pool    *Pool
	policy  Policy
	options Options // with defaults
}

// Pool is where the requests go.
func (t *Transport) Pool() *Pool { return t.pool }

// ServeHTTP sends r to an endpoint and relays the answer, or answers with [proxy.Fail]. It panics with
// [http.ErrAbortHandler] when an answer that has begun cannot be finished.
func (t *Transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := trip{t: t, w: w, r: r, e: proxy.From(r)}
	f := x.prepare()
	if f == nil {
		f = x.send()
	}
	x.small.free()
	switch {
	case f != nil:
		x.fail(f)
	case x.pages != nil:
		x.servePage()
	}
}

// fail tells the client as well as is still possible.
func (x *trip) fail(f *fault) {
	if !x.committed {
		if f.reason == proxy.Overloaded {
			x.w.Header().Set("Retry-After", "1")
		}
		proxy.Fail(x.w, x.r, f.status, f.reason)
		return
	}
	x.e.Reason = f.reason
	if x.hijacked {
		return // both connections are closed already
	}
	if !f.client() {
		x.flush() // what came before the fault is the endpoint's word; whether net/http still held it is chance
	}
	panic(http.ErrAbortHandler)
}
