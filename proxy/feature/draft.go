package feature

import (
	"net/http"

	"sallyport/proxy"
	"sallyport/router"
)

// A Place is where a route stands in the table: what a feature can only know once all Ingresses have been seen.
type Place struct {
	Match router.Match
	// HostTLS says that the host has a certificate entry, whichever Ingress brought it (reference A9).
	HostTLS bool
}

// A Draft is the routes of one Ingress being assembled.
type Draft struct {
	Settings Settings

	layers []func(Place) Middleware // outermost first
	denied bool
}

// Use wraps every route of the Ingress with the same middleware.
func (d *Draft) Use(m Middleware) { d.UseAt(func(Place) Middleware { return m }) }

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
	handler := last
	for i := len(d.layers) - 1; i >= 0; i-- {
		if m := d.layers[i](at); m != nil {
			handler = m(handler)
		}
	}
	return handler
}

func deny(w http.ResponseWriter, r *http.Request) {
	proxy.Fail(w, r, http.StatusServiceUnavailable, proxy.Denied)
}
