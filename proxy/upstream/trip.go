package upstream

import (
	"errors"
	"net/http"
	"time"

	"sallyport/proxy"
)

// A trip is one request on its way to an endpoint and back. It belongs to the handler's goroutine.
type trip struct {
	t *Transport
	w http.ResponseWriter
	r *http.Request
	e *proxy.Exchange

	protocol Protocol  // never AutoHTTP
	target   string    // that the endpoint is told
	upgrade  bool      // the client asks for a WebSocket
	length   int64     // of the body; -1: not known
	small    smallBody // the body, when it was read before anything was sent
	streamed bool      // the body is sent while the answer is awaited
	rewinder Rewinder  // the body, if it can be sent twice; nil: it cannot
	expect   bool      // the client waits for 100 before it sends the body, and the endpoint decides
	invite   bool      // the client waits, and an endpoint of this kind could not say it
	trailers []string  // names of the fields that may be sent behind the body

	before   int       // attempts of e that are not ours
	begun    time.Time // the first try; set only where there is a limit
	tries    int       // that count
	refusals int       // that did not
	paid     bool      // the budget for retries has been charged for the next try
	probe    bool      // the try is to see whether its endpoint is well again

	bond      bond    // of the client, where the route has an Affinity
	host      string  // that the endpoint is told
	line      line    // that the connection must be of
	touched   bool    // some of the body may have been read for a try
	upload    *upload // the body on its way over HTTP/1; nil: none, or not begun
	committed bool    // the head of the final answer went to the client
	hijacked  bool    // the client's connection is ours

	pages proxy.ErrorPages // answers instead of the endpoint; nil: it does not
	page  int              // the status of the endpoint's answer then
}

var noEndpoints = &fault{http.StatusServiceUnavailable, proxy.NoEndpoints, errors.New("the Service has no endpoint that is ready")}

// prepare decides how the request will be sent, and reads a body that is small enough to be sent with the head.
func (x *trip) prepare() *fault {
	x.target = x.e.UpstreamTarget
	if x.target == "" {
		x.target = x.e.Target
	}
	if x.target == "" {
		x.target = x.r.URL.RequestURI()
	}
	if x.protocol = x.t.options.Protocol; x.protocol == AutoHTTP {
		x.protocol = HTTP
		if x.e.Scheme == "https" {
			x.protocol = HTTPS
		}
	}
	x.upgrade = !x.multiplexed() && !x.t.options.HTTP10 && wantsWebSocket(x.r)
	return x.prepareBody()
}

// multiplexed reports whether the endpoint speaks HTTP/2.
func (x *trip) multiplexed() bool { return x.protocol == GRPC || x.protocol == GRPCS }

// maxRefusals bounds the endpoints that may refuse one request. That costs no time, and happens to many at once while a
// Deployment is rolled.
const maxRefusals = 32

// attempts are those of this trip. Another one of the same exchange may have been to the same endpoints before, for
// something else: the page for an answer may come from the Service that gave it.
func (x *trip) attempts() []proxy.Attempt { return x.e.Attempts[x.before:] }

// send tries endpoints until one answers, and relays the answer.
func (x *trip) send() *fault {
	x.before = len(x.e.Attempts)
	if x.t.options.RetryTimeout > 0 {
		x.begun = time.Now()
	}
	last := noEndpoints
	for {
		endpoint, f := x.next()
		if f != nil {
			return f
		}
		if endpoint == nil && last == noEndpoints && x.t.pool.Len() > 0 {
			return overloaded(errTaken)
		}
		if endpoint == nil {
			return last
		}
		f, again := x.try(endpoint)
		if !again {
			return f
		}
		if f != nil {
			last = f
		}
	}
}

// An outcome is what came of one attempt. The zero value is an answer that was dealt with.
type outcome struct {
	fault   *fault // nil: none
	again   bool   // the answer was dropped in favour of another try
	sent    bool   // there was a connection for the request
	started bool   // the endpoint began to answer
	safe    bool   // no endpoint can have acted on the request
	stale   bool   // the connection was not good any more, and nothing was sent
}

// try sends the request to one endpoint: over another connection too if one that had been used before only turned out to
// be closed. Again says that another endpoint may have the request; the fault is nil then if an answer was dropped. The
// place at the endpoint is given up at the end.
func (x *trip) try(endpoint *Endpoint) (f *fault, again bool) {
	x.tellHost(endpoint)
	x.tries++
	defer x.leave(endpoint)
	begun := time.Now()
	if len(x.attempts()) == 0 {
		x.t.pool.care.budget.note(begun)
	}
	if !x.streamed || x.multiplexed() { // an answer is owed
		epoch := endpoint.asked(x.t.pool, begun)
		defer endpoint.silence.withdrawn(epoch)
	}
	for fresh := x.t.options.closes(); ; fresh, begun = true, time.Now() {
		if f := x.rewind(); f != nil {
			return f, false
		}
		a := x.e.Try(endpoint.addr)
		var o outcome
		if x.multiplexed() {
			o = x.call(endpoint, a, begun, fresh)
		} else {
			o = x.carry(endpoint, a, begun, fresh)
		}
		if a.Total == 0 { // see exchange, which has asked the clock already
			a.Total = time.Since(begun)
		}
		if f = o.fault; f != nil {
			a.Reason, a.TLS = f.reason, tlsComplaint(f.err)
		}
		if x.t.pool.timed.Load() {
			endpoint.latency.observe(a, begun.Add(a.Total))
		}
		if f == nil {
			return nil, o.again
		}
		what := afterFault(f)
		ended := f.reason == proxy.UpstreamReset && !o.started
		switch {
		case f.client():
			return f, false
		case !o.sent && errors.As(f.err, new(handshakeError)) && x.clientNamed(): // nor is the endpoint to blame
		case !o.sent:
			x.blame(endpoint, f, o)
			endpoint.setAside(a.Total)
			if f.reason == proxy.ConnectRefused && x.refusals < maxRefusals {
				x.refusals++
				x.tries--
				return f, x.mayMove(what, o.safe) // nobody was asked: the budget is for those who are
			}
		case ended && a.Reused && !fresh && !ofStream(f.err):
			if x.repeatable(o.safe) && (o.safe || x.t.options.Retry.has(what)) {
				continue
			}
			x.blame(endpoint, f, o)
		case ended && x.repeatable(o.safe) && !ofStream(f.err):
			x.blame(endpoint, f, o)
			endpoint.setAside(a.Total) // a program that ends has connections waiting that it never took
		default:
			x.blame(endpoint, f, o)
		}
		// An endpoint that has begun to answer is no stranger to the request: what it failed at then, it may have failed at
		// because of the request, and did.
		if o.started && what != RetryOnInvalidHeader {
			return f, false
		}
		return f, x.movesOn(what, o.safe)
	}
}

// heard is told of the head of an endpoint's answer.
func (x *trip) heard(endpoint *Endpoint, status int, took time.Duration) {
	x.t.pool.heard(endpoint, status, took)
	x.endProbe(endpoint)
}

// tellHost decides what host the endpoint is told, and so what connections will do.
func (x *trip) tellHost(endpoint *Endpoint) {
	switch {
	case x.e.UpstreamHost != "":
		x.host = x.e.UpstreamHost
	case x.r.Host != "":
		x.host = x.r.Host
	default:
		x.host = endpoint.addr.String() // HTTP/1.0 needs none, HTTP/1.1 does (RFC 9112 section 3.2)
	}
	if x.protocol == HTTPS || x.protocol == GRPCS {
		x.line = line{x.t.options.TLS, x.t.options.Peer, serverName(x.t.options.TLS, x.host)}
	}
}
