package upstream

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy"
)

// Health is learned from requests ("passive"), besides what the checks of check.go find out.
//
// An endpoint is set aside when it could not be connected to: for a second others come first. It is ejected when it fails
// in a row: 3 times without a connection, 5 times with a reset, a timeout, or an answer of 502, 503 or 504. Each ejection
// that follows soon upon the last is twice as long, from a second to a minute. A plain 500 is an application's answer to a
// request that it does not like, and says nothing about the endpoint; so is an answer that breaks off.
//
// No client can use that to shut a Service down:
//
//   - at most half of a pool is ejected, so that one endpoint stays whatever happens;
//   - one that answers, but badly, is ejected only while another answers well: where all fail alike, the fault is elsewhere;
//   - one that is ejected is still better than none.
//
// When the time is over one request goes there, others only when that has had an answer; then the endpoint is taken back
// as if it were new (see returned), so that it is not run over.

const (
	leastAside = time.Second // how long an endpoint is passed over, at least
	mostAside  = time.Minute // and at most

	unconnectedInARow = 3 // attempts without a connection that eject an endpoint
	failuresInARow    = 5 // attempts that failed in any way
)

// A standing is why an endpoint is left out.
type standing = uint32

const (
	unconnected standing = iota // it could not be connected to: until there is a connection
	silent                      // it owes answers: until it gives any
	failing                     // until the time is over, and an answer is good
)

// health is whether an endpoint is believed to be well. The zero value is. It is safe for concurrent use.
type health struct {
	until    atomic.Int64  // Unix nanoseconds until which others come first, and then one request at a time; 0: it is as good as any
	unwell   atomic.Bool   // its checks fail: others come first until they pass
	probing  atomic.Bool   // that one request is on its way
	why      atomic.Uint32 // a standing, good while until is not 0
	failures atomic.Int64  // in a row

	mu    sync.Mutex // of changes of until and why; locked after care.ejecting
	times int        // guarded by mu; ejections that followed upon one another
	back  time.Time  // guarded by mu; when it was taken back last
}

// isAside reports whether others come first.
func (e *Endpoint) isAside() bool {
	h := &e.health
	if h.unwell.Load() {
		return true
	}
	until := h.until.Load()
	return until != 0 && (h.probing.Load() || time.Now().UnixNano() < until)
}

// available reports whether a request may go to the endpoint: there is room for it, and it is not to be left alone, unless
// anyhow.
func (e *Endpoint) available(anyhow bool) bool {
	return e.isPlain() || !e.full() && (anyhow || !e.isAside())
}

// isPlain reports whether there is nothing to say against the endpoint, nor a limit to look at: so it is with nearly all of
// them, and picks find it out without a call.
func (e *Endpoint) isPlain() bool {
	return e.limit.Load() == 0 && e.health.until.Load() == 0 && !e.health.unwell.Load()
}

// isEjected reports whether an endpoint is left out for more than that it could not be connected to just now.
func (e *Endpoint) isEjected() bool {
	h := &e.health
	return h.unwell.Load() || h.until.Load() != 0 && h.why.Load() != unconnected
}

// Ejected is the number of endpoints that are left out because they fail, or their checks do.
func (p *Pool) Ejected() int {
	n := 0
	for _, e := range p.members() {
		if e.isEjected() {
			n++
		}
	}
	return n
}

// setAside has others come first for as long as it took to find out that the endpoint cannot be connected to, and for
// leastAside anyhow: Pods refuse connections before the cluster has said that they are gone.
func (e *Endpoint) setAside(took time.Duration) {
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.Load() != 0 && h.why.Load() != unconnected {
		return
	}
	h.why.Store(unconnected)
	h.until.Store(time.Now().Add(max(took, leastAside)).UnixNano())
}

// welcome is told that the endpoint could be connected to: it comes first again, if that was all.
func (e *Endpoint) welcome() {
	h := &e.health
	if h.until.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why.Load() == unconnected {
		h.until.Store(0)
	}
}

// isGatewayStatus reports whether an answer says that something could not be reached, or not now: of an application it is
// what stands in for an answer.
func isGatewayStatus(status int) bool {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// heard is told of the head of an answer, which took so long to come.
func (p *Pool) heard(e *Endpoint, status int, took time.Duration) {
	e.silence.heard(took)
	h := &e.health
	if isGatewayStatus(status) {
		p.failed(e, failuresInARow, true)
		return
	}
	if h.failures.Load() != 0 {
		h.failures.Store(0)
	}
	if h.until.Load() != 0 {
		e.takeBack()
	}
}

// takeBack is for an endpoint that has answered. One that was failing may have been asked before it was ejected: that
// counts for nothing until the time is over.
func (e *Endpoint) takeBack() {
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()
	until, why := h.until.Load(), h.why.Load()
	now := time.Now()
	if until == 0 || why == failing && now.UnixNano() < until {
		return
	}
	h.until.Store(0)
	h.probing.Store(false)
	if why != unconnected {
		h.back = now
		e.returned()
	}
}

// failed is told of an attempt that the endpoint failed at; so many in a row eject it. Compare asks for another endpoint
// that does better.
func (p *Pool) failed(e *Endpoint, inARow int64, compare bool) {
	h := &e.health
	failures := h.failures.Add(1)
	if until := h.until.Load(); until != 0 && h.why.Load() != unconnected {
		if time.Now().UnixNano() >= until {
			p.eject(e, failing, compare) // found out by the one request
		}
		return
	}
	if failures >= inARow {
		p.eject(e, failing, compare)
	}
}

// eject leaves an endpoint out for a time, unless too many are already, and reports whether it does.
func (p *Pool) eject(e *Endpoint, why standing, compare bool) bool {
	p.care.ejecting.Lock()
	defer p.care.ejecting.Unlock()
	members := p.members()
	out, better := 1, false
	for _, other := range members {
		switch {
		case other == e:
		case other.isEjected():
			out++
		case other.health.failures.Load() == 0:
			better = true
		}
	}
	if 2*out > len(members) || compare && !better {
		return false
	}
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.until.Load() == 0 && now.Sub(h.back) > mostAside {
		h.times = 0
	}
	h.why.Store(why)
	h.until.Store(now.Add(min(leastAside<<min(h.times, 16), mostAside)).UnixNano())
	h.times++
	return true
}

// setUnwell is the verdict of the checks.
func (e *Endpoint) setUnwell(unwell bool) {
	if e.health.unwell.Swap(unwell) && !unwell {
		e.returned()
	}
}

// blame has the health of an endpoint reckon with an attempt that failed before an answer began.
func (x *trip) blame(e *Endpoint, f *fault, o outcome) {
	switch {
	case o.started:
	case !o.sent:
		x.t.pool.failed(e, unconnectedInARow, false)
		if f.reason == proxy.ConnectTimeout {
			x.t.pool.unreached(e)
		}
	case f.reason == proxy.UpstreamReset, f.reason == proxy.HeaderTimeout, f.reason == proxy.SendTimeout:
		x.t.pool.failed(e, failuresInARow, true)
	}
}
