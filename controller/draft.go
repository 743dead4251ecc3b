package controller

import (
	"net/http"
	"slices"
	"sync/atomic"

	"sallyport/proxy"
	"sallyport/proxy/feature"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A draft is a route being assembled: known from the translation of its Ingress, with a handler once it has its place in
// the table.
type draft struct {
	match   router.Match
	owner   *translated // nil: the catch-all of the process's default backend
	field   string      // of the path, or of the default backend
	info    proxy.RouteInfo
	refused bool           // the path is to be an expression and is none; the route only closes what it may have guarded
	last    http.Handler   // of the chain
	pool    *upstream.Pool // where last leads; nil: nowhere

	protocol upstream.Protocol // in which it does

	form routeForm // as the host has it

	handler http.Handler       // while the route is in the table, else nil
	served  *proxy.RouteInfo   // what handler tells of itself; its observer is retained
	split   []*proxy.RouteInfo // that for requests which go to canaries
	built   routeForm          // what handler was built for
	fault   *Problem           // why handler only refuses; nil: it does not
	build   uint64             // the last build that found the route in the table
}

// A routeForm is what a host makes of a route, beside what its own Ingress says.
type routeForm struct {
	hostTLS  bool
	match    router.Match        // as the table has it
	regexBy  *translated         // the Ingress because of which it is a regular expression; nil: it is none
	hosts    []*translated       // Ingresses that want something of the whole host, oldest first
	canaries []beside            // that take some of its requests
	clients  *feature.ClientAuth // what is asked of clients about certificates; nil: nothing
}

func (f routeForm) equal(o routeForm) bool {
	return f.hostTLS == o.hostTLS && f.clients == o.clients && f.match == o.match && f.regexBy == o.regexBy && slices.Equal(f.hosts, o.hosts) && slices.Equal(f.canaries, o.canaries)
}

// serve gives the draft its handler and says whether it is another one than before. A panic of a feature costs this
// route: it answers 503, never without what guards it.
func (b *Builder) serve(d *draft) (changed bool) {
	if d.handler != nil && d.built.equal(d.form) {
		return false
	}
	d.built, d.fault = d.form, nil
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
	regexBy := ""
	if by := d.form.regexBy; by != nil {
		regexBy = by.source
	}
	if all := d.form.canaryInfos(); regexBy != d.served.RegexBy || !slices.Equal(all, d.served.Canaries) {
		info := *d.served // which others may be reading
		info.RegexBy, info.Canaries = regexBy, all
		d.served = &info
	}
	d.handler = proxy.Identify(d.served, d.chain(b.split(d)))
	return true
}

// chain is the draft's handler, which ends in last: what its own Ingress asks for, around it what is asked for the host,
// and around all what is asked of clients about certificates.
func (d *draft) chain(last http.Handler) http.Handler {
	handler := last
	place := feature.Place{
		Match: router.Match{Host: d.match.Host, Path: d.match.Path, Type: d.form.match.Type}, HostTLS: d.form.hostTLS, Info: d.served, Pool: d.pool, Protocol: d.protocol,
	}
	if d.owner != nil && d.owner.features != nil {
		handler = d.owner.features.Handler(place, handler)
	}
	for _, t := range slices.Backward(d.form.hosts) {
		handler = t.features.Host.Handler(place, handler)
	}
	if d.form.clients != nil {
		handler = d.form.clients.Around(place, handler)
	}
	return handler
}

// retire takes the handler of a draft that has lost its place in the table.
func (b *Builder) retire(d *draft) {
	if d.served != nil && b.options.Release != nil {
		b.options.Release(d.served)
	}
	b.release(d.split)
	d.handler, d.served, d.split, d.fault = nil, nil, nil, nil
}

// route is the draft as the table has it under a host's name.
func (d *draft) route(host string) router.Route {
	source := "--default-backend-service"
	if d.owner != nil {
		source = d.owner.source
	}
	match := d.form.match
	match.Host = host
	return router.Route{Match: match, Source: source, Handler: d.handler}
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

// live is the default backend while it has endpoints, else nil.
func (u *unrouted) live() *feature.Backend {
	if b := u.backend.Load(); b != nil && b.pool.Len() > 0 {
		return &feature.Backend{Handler: b.transport, Pool: b.pool}
	}
	return nil
}

func (u *unrouted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b := u.backend.Load(); b != nil && b.pool.Len() > 0 {
		b.transport.ServeHTTP(w, r)
		return
	}
	proxy.Fail(w, r, http.StatusNotFound, proxy.NoRoute)
}
