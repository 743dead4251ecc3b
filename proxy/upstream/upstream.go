package upstream

import (
	"net/http"
	"time"

	"sallyport/proxy"
)

// Options are what a route may say about how its requests are sent. Times are gaps between two signs of life, never
// totals: a body may take as long as it takes while it moves. Zero means the default, negative no limit.
type Options struct {
	ConnectTimeout  time.Duration // to make a connection; default 5 s
	SendTimeout     time.Duration // between two writes that the endpoint accepts; default 60 s
	ReadTimeout     time.Duration // until the head of the answer once the request is sent, and between two reads; default 60 s
	ContinueTimeout time.Duration // how long an upload with Expect: 100-continue waits for the endpoint's word; default 1 s
	TunnelTimeout   time.Duration // how long an upgraded connection may be silent in both directions; default 1 h
	Tries           int           // endpoints a request is tried at when connecting fails; default 3. Those that refuse at once do not count
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&o.ConnectTimeout, 5 * time.Second},
		{&o.SendTimeout, 60 * time.Second},
		{&o.ReadTimeout, 60 * time.Second},
		{&o.ContinueTimeout, time.Second},
		{&o.TunnelTimeout, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	if o.Tries == 0 {
		o.Tries = 3
	}
	return o
}

// New returns the back of a route: it sends requests to the endpoints of pool.
func New(pool *Pool, o Options) *Transport { return &Transport{pool: pool, options: o.withDefaults()} }

// A Transport sends the requests of one route. It is the last handler of the route's chain and never changes.
type Transport struct {
	pool    *Pool
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
	if f != nil {
		x.fail(f)
	}
}

// fail tells the client as well as is still possible.
func (x *trip) fail(f *fault) {
	if !x.committed {
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
