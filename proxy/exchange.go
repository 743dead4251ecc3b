package proxy

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"sallyport/router"
)

// An Exchange is one request and its answer as they pass: filled by the front, read by features and the access log,
// completed by the upstream. Handlers get it with [From]. It belongs to the goroutine that serves the request; nothing
// may keep it once the handler has returned.
type Exchange struct {
	Method string         // the request's
	ID     string         // request id: the client's X-Request-ID where it is a sane one, else 32 hex digits
	Start  time.Time      // when the head of the request had been read
	Took   time.Duration  // from Start to the end of the answer; set when the exchange is finished
	Peer   netip.AddrPort // the other end of the connection: by the PROXY header, where there is one
	Client netip.Addr     // the client: Peer's address, or what a trusted Peer says
	Scheme string         // "http" or "https" as the client sees it: the connection's, or what a trusted Peer says
	Port   string         // the port the client reached: "443" on the TLS listener, else the listener's own; or as a PROXY header or a trusted Peer says

	// Host is the request's host in the one form that routes, certificates and policies are compared in: lower case, no
	// port, no trailing dot. Empty for HTTP/1.0 without a Host.
	Host string
	// Path is the decoded path without dot segments that the route was found by.
	Path string
	// Target is what goes upstream in the request line: the bytes the client sent, dot segments resolved.
	Target string
	// UpstreamTarget and UpstreamHost are what the endpoint is told instead of Target and of the request's host, where a
	// feature asks for it. Empty: those.
	UpstreamTarget string
	UpstreamHost   string
	// ErrorPages answers in place of answers with some statuses, where a feature asks for it. Nil: nobody does.
	ErrorPages ErrorPages
	// Cookie is a Set-Cookie field that goes with the endpoint's answer, behind the hooks: what rewrites or hides the fields
	// of endpoints leaves it alone. Empty: none does.
	Cookie string
	// ClientVerify is what came of the client's certificate where the host asks for one: "SUCCESS", "NONE" or "FAILED:" and
	// why. Empty: nobody has looked at it.
	ClientVerify string
	// ServerField has the Server field of endpoints passed on.
	ServerField bool

	// NoLog keeps the exchange out of the access log.
	NoLog bool
	// Everywhere has a word on the header of every answer of the process, before the hooks of the route. Nil: nobody has.
	Everywhere HeaderHook

	Route *router.Route // nil: no route took the request
	Info  *RouteInfo    // what Route belongs to, for log and metrics; nil: the exchange is counted under no route

	// Attempts are the tries at endpoints, oldest first; empty when the request never went upstream.
	Attempts []Attempt
	// Reason says why the proxy made the answer itself, or cut it. Empty: it is the upstream's.
	Reason Reason

	Received int64 // bytes of the request: line, fields and body as read so far
	Sent     int64 // bytes of the answer's body
	Status   int   // of the answer; 0 before its head was written; 499 when the client left first

	server   *Server // nil: the request did not come through the front
	rerouted bool

	fields      int  // of the request's head, as the client sent it
	secure      bool // the connection is one of TLS, which ends here
	multiplexed bool // the connection carries other exchanges beside it: HTTP/2

	attempts [2]Attempt // where Attempts begins, so that the usual exchange allocates none
	hooks    []HeaderHook
	hookRoom [4]HeaderHook // where hooks begins
	context  exchangeContext
}

// count notes a field of the request's head.
func (e *Exchange) count(name, value string) {
	e.fields++
	e.Received += int64(len(name) + len(value) + len(": \r\n"))
}

// A HeaderHook has the last word on the header of an answer, whoever made it.
type HeaderHook interface {
	// SetHeader is called once, right before the head of the final answer is written; e.Status is set. Interim answers and
	// those that switch protocols do not pass here.
	SetHeader(e *Exchange, header http.Header)
}

// OnHeader asks for a hook. Those that asked last are called first, so that who stands further out has the last word. One
// that is built with its route costs no allocation.
func (e *Exchange) OnHeader(h HeaderHook) {
	if e.hooks == nil {
		e.hooks = e.hookRoom[:0]
	}
	e.hooks = append(e.hooks, h)
}

// ErrorPages answers in place of others: see [Exchange].ErrorPages. It is taken from the exchange before it is asked to
// serve, so that its own errors stand.
type ErrorPages interface {
	// Takes reports whether answers with this status are replaced: the endpoint's, or the proxy's own.
	Takes(status int, endpoints bool) bool
	// Serve answers instead. Nothing of the answer that is replaced was written; its header is not in w.
	Serve(w http.ResponseWriter, r *http.Request, status int)
}

// An Attempt is one try at one endpoint.
type Attempt struct {
	Endpoint netip.AddrPort
	Status   int           // of the endpoint's answer; 0 when there was none
	Reason   Reason        // why it failed; empty when it did not
	TLS      string        // what one side has against the other's TLS, in words of crypto/tls or of Peer; empty: nothing
	Reused   bool          // went over a connection that had been used before
	Connect  time.Duration // to connect; 0 when Reused
	Header   time.Duration // from the start of the try to the first byte of the answer's head
	Total    time.Duration // from the start of the try to its end
	Received int64         // bytes of the answer's body
}

// Try begins an attempt at an endpoint and returns it for completion. The pointer is good until the next call.
func (e *Exchange) Try(endpoint netip.AddrPort) *Attempt {
	if e.Attempts == nil {
		e.Attempts = e.attempts[:0]
	}
	e.Attempts = append(e.Attempts, Attempt{Endpoint: endpoint})
	return &e.Attempts[len(e.Attempts)-1]
}

// RouteInfo names what a route belongs to. One is built with each route and shared by its exchanges; it never changes.
type RouteInfo struct {
	Namespace string
	Ingress   string
	Service   string // empty: the route has no Service
	Port      string // of the Service, as the Ingress names it
	Host      string // of the rule; empty: any
	Path      string // of the rule, never the request's
	Field     string // of the Ingress, where the route is asked for: "spec.rules[0].http.paths[1].path"; empty: nowhere
	RegexBy   string // the Ingress, as namespace/name, that makes the host's paths regular expressions; empty: none does
	Pool      string // the port as the Service's pool is called: its name, or its number where it has none; empty: no pool
	NoLog     bool   // the route asked for no access log
	Canary    string // what the canary is called that its requests go to, as namespace-service-port; empty: to Service
	Canaries  []CanaryInfo
	Observer  Observer
}

// A CanaryInfo is an Ingress that takes some of a route's requests to its own Service.
type CanaryInfo struct {
	Ingress string // namespace/name
	Service string
	Port    string  // of the Service, as the Ingress names it
	Pool    string  // the port as the Service's pool is called
	Share   float64 // of the requests that nothing else decides, from 0 to 1
}

// An Observer is told of every finished exchange of a route. It must be quick, must not allocate in the steady state
// and must not keep e.
type Observer interface{ Observe(e *Exchange) }

// Identify is the outermost handler of every route: it says whose the exchange is.
func Identify(info *RouteInfo, next http.Handler) http.Handler { return &identified{info, next} }

// InfoOf returns what a handler made by [Identify] was told, nil for any other: what a page that lists routes shows.
func InfoOf(handler http.Handler) *RouteInfo {
	if h, ok := handler.(*identified); ok {
		return h.info
	}
	return nil
}

type identified struct {
	info *RouteInfo
	next http.Handler
}

func (h *identified) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	From(r).Info = h.info
	h.next.ServeHTTP(w, r)
}

// exchangeContext carries the exchange through the request's context without an allocation of its own.
type exchangeContext struct {
	context.Context
	exchange *Exchange
}

type exchangeKey struct{}

func (c *exchangeContext) Value(key any) any {
	if key == (exchangeKey{}) {
		return c.exchange
	}
	return c.Context.Value(key)
}

// With returns a copy of r whose exchange is e. The front does this once a request; tests of features do it to run one
// alone.
func With(r *http.Request, e *Exchange) *http.Request {
	e.context = exchangeContext{r.Context(), e}
	return r.WithContext(&e.context)
}

// From returns the exchange of a request, never nil: a request that did not come through the front gets a fresh one,
// which nobody reads.
func From(r *http.Request) *Exchange {
	if e, ok := r.Context().Value(exchangeKey{}).(*Exchange); ok {
		return e
	}
	return new(Exchange)
}
