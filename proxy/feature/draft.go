package feature

import (
	"net/http"
	"slices"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A Place is where a route stands in the table: what a feature can only know once all Ingresses have been seen.
type Place struct {
	// Match is the route's. Its type is Regex where the host's routes of the Ingress's namespace are regular expressions.
	Match router.Match
	// HostTLS says that the host has a certificate entry, whichever Ingress brought it (reference A9).
	HostTLS bool
	// Info names what the route belongs to. Nil: nobody knows.
	Info *proxy.RouteInfo
	// Pool is where the route leads. Nil: to no Service that exists, or to none at all.
	Pool *upstream.Pool
	// Protocol is how the endpoints there are spoken to.
	Protocol upstream.Protocol
}

// A Draft is the routes of one Ingress being assembled. The zero Draft adds nothing to them.
type Draft struct {
	Settings Settings
	Host     HostDraft

	// Service is what the Ingress asks for the Service ports it names, whichever route leads to them. Of several Ingresses
	// that ask something of a Service port the oldest counts.
	Service upstream.ServiceOptions
	// Upstream is how requests are sent. Features write to it; it begins with the settings'.
	Upstream upstream.Options
	// ProtocolGiven says that the Protocol of Upstream is the Ingress's own word. Without it the Service's counts.
	ProtocolGiven bool
	// PicksItself says that how endpoints are picked is the Ingress's own word. Without it the Service's counts, then the
	// ConfigMap's.
	PicksItself bool
	// ServiceUpstream leads requests to the address of each Service instead of its endpoints.
	ServiceUpstream bool
	// NoLog keeps the routes out of the access log.
	NoLog bool
	// Canary makes the Ingress a canary: it has no routes, and takes requests of others'. Nil: it is an Ingress like any other.
	Canary *Canary

	layers     layers
	spread     func(path string) bool // the path asks for regular expressions; nil: none does
	guard      *guard                 // nil: nothing guards the routes
	satisfyAny bool                   // one passed check of guard is enough
	everywhere []Middleware           // outermost first
	toTLS      toTLS                  // the redirect to HTTPS, whether the routes want it or not
	denied     bool
	memory     *Memory
}

// Use wraps every route of the Ingress with the same middleware.
func (d *Draft) Use(m Middleware) { d.layers.add(m) }

// UseAt wraps every route of the Ingress with middleware made for its place. A nil Middleware wraps nothing.
func (d *Draft) UseAt(m func(Place) Middleware) { d.layers = append(d.layers, m) }

// OnHeader has a hook called for every answer of the routes, from whoever it is: see [proxy.Exchange].
func (d *Draft) OnHeader(h proxy.HeaderHook) {
	d.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proxy.From(r).OnHeader(h)
			next.ServeHTTP(w, r)
		})
	})
}

// Everywhere wraps every answer of the process, whatever route it is from, or none. It counts in the draft of the ConfigMap.
func (d *Draft) Everywhere(m Middleware) { d.everywhere = append(d.everywhere, m) }

// Around is next with that around it.
func (d *Draft) Around(next http.Handler) http.Handler {
	for _, m := range slices.Backward(d.everywhere) {
		next = m(next)
	}
	return next
}

// SpreadRegex says which of the Ingress's paths make every path of their host, of the Ingresses of one namespace, a
// regular expression (reference A4.2).
func (d *Draft) SpreadRegex(wanted func(path string) bool) { d.spread = wanted }

// SpreadsRegex reports whether a path of the Ingress does so.
func (d *Draft) SpreadsRegex(path string) bool { return d.spread != nil && d.spread(path) }

// Deny makes every route of the Ingress answer 503: something that guards them cannot be had.
func (d *Draft) Deny() { d.denied = true }

// Guards reports whether something keeps clients out of the routes, or is to.
func (d *Draft) Guards() bool { return d.denied || d.guard != nil }

// Denied reports whether Deny was called.
func (d *Draft) Denied() bool { return d.denied }

// Memory is what the features have learned, for the draft that comes after this one.
func (d *Draft) Memory() *Memory { return d.memory }

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
type HostDraft struct {
	// Aliases are further names under which the host is served: host names, "*.example.org", or "~" and a regular
	// expression. A name that some Ingress has as a host is not taken. Of several Ingresses with aliases for a host the
	// oldest counts.
	Aliases []string
	// ACME has certificates ordered for the hosts that have TLS and none; ACMEByName says that the Ingress itself asks for it.
	ACME, ACMEByName bool
	// WWW sends the clients of the host's twin, with or without "www.", here.
	WWW *WWWRedirect
	// Passthrough leaves the TLS connections of the host to its endpoints. Nil: TLS ends here.
	Passthrough *Passthrough
	// Suites are those of TLS 1.2 that handshakes for the hosts may use. Nil: the usual ones. Of several Ingresses with such
	// for a host the oldest counts.
	Suites []uint16

	// Clients is what is asked of the hosts' clients about a certificate of theirs. Nil: nothing. Whose word counts, and what
	// becomes of Ingresses that disagree, is for the controller to say, which puts it around every route of a host.
	Clients *ClientAuth

	layers layers
}

// A WWWRedirect answers for the twin of a host. Nil: nothing does.
type WWWRedirect struct {
	// To makes what answers every request of the twin; host is the one that clients are sent to.
	To func(host string) http.Handler
}

// Use wraps everything the hosts answer.
func (h *HostDraft) Use(m Middleware) { h.layers.add(m) }

// Wraps reports whether anything was asked for the host.
func (h *HostDraft) Wraps() bool { return len(h.layers) > 0 || h.Clients != nil }

// Handler is next with what was asked for the host around it; next itself where nothing was.
func (h *HostDraft) Handler(at Place, next http.Handler) http.Handler { return h.layers.wrap(at, next) }

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
