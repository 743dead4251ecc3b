// Package feature is what a route does besides forwarding, asked for by annotations of its Ingress.
//
// A feature is one file with one function, and one line in [All]. The function reads its annotations, then writes what
// it wants to the draft:
//
//	// appRoot sends a visitor of "/" to the page the application calls home.
//	func appRoot(a *Annotations, d *Draft) {
//		home := a.String("app-root", "", "where a request for / is redirected")
//		if home == "" || a.Failed() {
//			return
//		}
//		d.Use(func(next http.Handler) http.Handler { ... })
//	}
//
// # The rule of order
//
// [All] is the order in which a request meets the features; it is behaviour, and it is readable in one place. What
// stands first is outermost.
//
// # Reach
//
// What is written to the draft reaches the paths of the Ingress, to its Host the whole host, to its Service the Service
// ports that the Ingress names. Access control is a [Check], given to [Draft.Guard].
//
// # Annotations
//
// Names are read under ingress.kubernetes.io/ and under nginx.ingress.kubernetes.io/; the former wins where both are
// present. One call declares a name, its default and its meaning, reads the value and checks it. A feature reads all its
// annotations before it decides anything, so that the list of known names can be made by running All over nothing: see
// [Declarations].
//
// A bad value of something that shapes traffic is a [Problem], and the default is used. What guards a route fails
// closed: a mistake in its value or its name, or a guard that we do not have, makes the routes of the Ingress answer 503.
//
// # What it does not do
//
// It does not choose among Ingresses, nor know of hosts beyond what [Place] tells. Whose word counts where several
// Ingresses share a host or a Service is for the controller to decide.
package feature

import (
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"sallyport/proxy/upstream"
)

// All are the features, in the order in which a request meets them.
var All = []func(*Annotations, *Draft){
	// Who has the last word on every answer, and what no request gets past.
	clients, tlsToClients, wordBlocklist, accessLog, responseHeaders, errorPages,
	// What is asked for the host as a whole, outside of everything that is asked for paths.
	sslPassthrough, acme, serverAlias, clientAuth, fromToWWW, blocks, appRoot,
	// What browsers ask before they ask.
	cors,
	// What no request gets past, whoever sends it.
	bodySize,
	// What sends the client elsewhere before anyone is asked who they are.
	redirects,
	rewrite, // an absolute target; a path is only noted
	tlsRedirect,
	// Whether there is anything to get at.
	liveEndpoints,
	// How much of it one client may have.
	limits, bandwidth,
	// Who may have it: addresses first, which a client cannot change, then credentials.
	accessLists, externalAuth, basicAuth, satisfy,
	// What shapes the request on its way to an endpoint, and the answer on its way back.
	requestBuffering, standIn,
	upstreamVhost, proxySetHeaders, hideHeaders, proxyRedirect, proxyCookie,
	// What gets a copy of it.
	mirror,
	// How requests are sent.
	timeouts, retries, loadBalance, affinity, backendProtocol, endpointTLS, serviceUpstream, healthChecks, endpointLimits, withoutEffect,
	// Whose endpoints get it.
	canary,
}

// Middleware wraps a handler.
type Middleware = func(http.Handler) http.Handler

// Settings are facts about the process that features need.
type Settings struct {
	// HTTPPort and HTTPSPort are where clients reach the listeners, for redirects that name them. Zero means 80 and 443.
	HTTPPort  int
	HTTPSPort int
	// Passthrough allows Ingresses to have TLS connections passed on.
	Passthrough bool
	// DefaultBackend returns the backend that answers what no route takes, nil while it has no endpoints. Nil: there is none.
	DefaultBackend func() *Backend
	// RefuseAddress says what is at an address to which nobody may have copies of requests sent, "" for nothing of that kind.
	// Nil: they may be sent to every address.
	RefuseAddress func(netip.Addr) string
	// Upstream is how requests are sent where neither the Ingress nor the ConfigMap says otherwise.
	Upstream upstream.Options
}

// Input is what the features of one Ingress are made of.
type Input struct {
	Namespace, Name string // of the Ingress
	Annotations     map[string]string
	Config          *Config // of the controller; nil: none
	Objects         Objects // nil: none is known, and none is missed
	Memory          *Memory // of the draft before this one; nil: there was none
	Settings        Settings
	AnyNamespace    bool // objects of other namespaces may be named, whatever Config says
}

// Parse runs every feature over the annotations of one Ingress. The draft is never nil; with problems of access control
// among them it denies. Problems of the ConfigMap are not among them: see [NewConfig].
func Parse(in Input) (*Draft, []Problem) {
	a := newAnnotations(in)
	d := &Draft{Settings: in.Settings, Upstream: in.Settings.Upstream, memory: in.Memory.next()}
	a.run(d, All)
	a.reportInert(d)
	a.reportUnread()
	a.close(d)
	a.closeHosts(d)
	if in.Config != nil && in.Config.denies {
		d.Deny()
	}
	if d.Denied() {
		d.memory.keep() // until the mistake is mended
	}
	return d, slices.DeleteFunc(a.problems, func(p Problem) bool { return p.Config })
}

func (a *Annotations) run(d *Draft, features []func(*Annotations, *Draft)) {
	for _, apply := range features {
		a.failed, a.section = false, Section{}
		apply(a, d)
	}
	a.close(d)
}

// close denies the routes where something that guards them is wrong.
func (a *Annotations) close(d *Draft) {
	if slices.ContainsFunc(a.problems, func(p Problem) bool { return p.Denies }) {
		d.Deny()
	}
}

// Declarations are the annotations and keys that the features read, in the order of All.
func Declarations() []Declaration {
	a := newAnnotations(Input{})
	a.collect = true
	a.run(new(Draft), All)
	return a.declared
}

// annotationNames are the names of the annotations that the features read.
var annotationNames = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool)
	for _, d := range Declarations() {
		if d.Annotation {
			names[d.Name] = true
		}
	}
	return names
})
