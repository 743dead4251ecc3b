package controller

import (
	"net/http"
	"sync/atomic"

	"sallyport/proxy"
	"sallyport/proxy/feature"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A draft is a route being assembled: known from the translation of its Ingress, with a handler once it has its place in
// the table.
type draft struct {
	match router.Match
	owner *translated // nil: the catch-all of the process's default backend
	field string      // of the path, or of the default backend
	info  proxy.RouteInfo
	last  http.Handler // of the chain

	handler http.Handler     // while the route is in the table, else nil
	served  *proxy.RouteInfo // what handler tells of itself; its observer is retained
	hostTLS bool             // what handler was built for
	fault   *Problem         // why handler only refuses; nil: it does not
	build   uint64           // the last build that found the route in the table
}

// serve gives the draft its handler and says whether it is another one than before. A panic of a feature costs this
// route: it answers 503, never without what guards it.
func (b *Builder) serve(d *draft, hostTLS bool) (changed bool) {
	if d.handler != nil && d.hostTLS == hostTLS {
		return false
	}
	d.hostTLS, d.fault = hostTLS, nil
	defer func() {
		if fault := recover(); fault != nil {
			p := faultOf(Ref{"Ingress", d.info.Namespace, d.info.Ingress}, fault)
			p.Field = d.field
			d.fault, d.handler, changed = &p, proxy.Identify(&d.info, failure{http.StatusServiceUnavailable, proxy.Denied}), true
		}
	}()
	if d.served == nil {
		info := d.info
		if b.options.Retain != nil {
			info.Observer = b.options.Retain(&info)
		}
		d.served = &info
	}
	handler := d.last
	if d.owner != nil && d.owner.features != nil {
		handler = d.owner.features.Handler(feature.Place{Match: d.match, HostTLS: hostTLS}, d.last)
	}
	d.handler = proxy.Identify(d.served, handler)
	return true
}

// retire takes the handler of a draft that has lost its place in the table.
func (b *Builder) retire(d *draft) {
	if d.served != nil && b.options.Release != nil {
		b.options.Release(d.served)
	}
	d.handler, d.served, d.fault = nil, nil, nil
}

// route is the draft as the table has it.
func (d *draft) route() router.Route {
	source := "--default-backend-service"
	if d.owner != nil {
		source = d.owner.source
	}
	return router.Route{Match: d.match, Source: source, Handler: d.handler}
}

// A failure answers every request in the proxy's own name.
type failure struct {
	status int
	reason proxy.Reason
}

func (f failure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	proxy.Fail(w, r, f.status, f.reason)
}

// An unrouted answers what no route takes: from the default backend of the process while that has endpoints, else with
// 404. It is one for all tables, so that the default backend may come and go without another table.
type unrouted struct {
	backend atomic.Pointer[defaultBackend] // nil: none
}

type defaultBackend struct {
	pool      *upstream.Pool
	transport *upstream.Transport
}

func (u *unrouted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b := u.backend.Load(); b != nil && b.pool.Len() > 0 {
		b.transport.ServeHTTP(w, r)
		return
	}
	proxy.Fail(w, r, http.StatusNotFound, proxy.NoRoute)
}
