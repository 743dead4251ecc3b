package feature

import (
	"net/http"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A Place is where a route stands in the table: what a feature can only know once all Ingresses have been seen.
type Place struct {
	Match router.Match
	// HostTLS says that the host has a certificate entry, whichever Ingress brought it (reference A9).
	HostTLS bool
}

// A Draft is the routes of one Ingress being assembled. The zero Draft adds nothing to them.
type Draft struct {
	Settings Settings
	Host     HostDraft
	Service  ServiceDraft

	layers     layers
	guard      *guard // nil: nothing guards the routes
	satisfyAny bool   // one passed check of guard is enough
	denied     bool
}

// Use wraps every route of the Ingress with the same middleware.
func (d *Draft) Use(m Middleware) { d.layers.add(m) }

// UseAt wraps every route of the Ingress with middleware made for its place. A nil Middleware wraps nothing.
func (d *Draft) UseAt(m func(Place) Middleware) { d.layers = append(d.layers, m) }

// Deny makes every route of the Ingress answer 503: something that guards them cannot be had.
func (d *Draft) Deny() { d.denied = true }

// Denied reports whether Deny was called.
func (d *Draft) Denied() bool { return d.denied }

// Handler is the chain of one route, which ends in last.
func (d *Draft) Handler(at Place, last http.Handler) http.Handler {
	if d.denied {
		return http.HandlerFunc(deny)
	}
	return d.layers.wrap(at, last)
}

func deny(w http.ResponseWriter, r *http.Request) {
	proxy.Fail(w, r, http.StatusServiceUnavailable, proxy.Denied)
}

// A HostDraft is what an Ingress asks for the whole of its hosts: their routes from every Ingress, and the answer for
// paths that no route takes.
type HostDraft struct{ layers layers }

// Use wraps everything the hosts answer.
func (h *HostDraft) Use(m Middleware) { h.layers.add(m) }

// Handler is next with what was asked for the host around it; next itself where nothing was.
func (h *HostDraft) Handler(at Place, next http.Handler) http.Handler { return h.layers.wrap(at, next) }

// A ServiceDraft is what an Ingress asks for the Service ports it names, whichever route leads to them.
type ServiceDraft struct {
	// Policy makes what picks an endpoint, one for each pool. Nil means that the Ingress asked for none.
	Policy func() upstream.Policy
}

// layers are middleware, outermost first.
type layers []func(Place) Middleware

func (l *layers) add(m Middleware) { *l = append(*l, func(Place) Middleware { return m }) }

func (l layers) wrap(at Place, handler http.Handler) http.Handler {
	for i := len(l) - 1; i >= 0; i-- {
		if m := l[i](at); m != nil {
			handler = m(handler)
		}
	}
	return handler
}
