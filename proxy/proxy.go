// Package proxy is the front: it takes requests, says what is known about them, finds their route and keeps the books.
//
//	front := &proxy.Server{Handshake: handshake, Admits: admits}
//	front.SetTable(table)
//	go front.Serve(plain)
//	go front.ServeTLS(secure)
//	...
//	front.Drain()
//	front.Shutdown(ctx)
//
// # A request's way
//
//  1. Its connection says who the client is, where load balancers speak the PROXY protocol (listener.go).
//  2. proxy/http1 reads it from the wire, net/http where it is HTTP/2. Everything about that is in http.go and secure.go.
//  3. An [Exchange] begins: one value that holds everything anybody will know about this request.
//  4. It is admitted or refused: method, host and target must each have one reading (admit.go, host.go, target.go).
//  5. What the client says about itself is replaced by what is known (forwarded.go).
//  6. The table is loaded, once, and asked for the route; its handler answers: features, then proxy/upstream.
//  7. The exchange is told to the route's [Observer] and to the access log, whatever happened before.
//
// A table that is swapped meanwhile changes nothing for a request that has its route, and closes no connection.
//
// # What it does not do
//
// It chooses no endpoint and speaks to none: that is proxy/upstream. It knows no annotation: that is proxy/feature. It
// knows nothing of Kubernetes.
package proxy

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"sallyport/proxy/clienthello"
	"sallyport/router"
)

// A Server is the front. Set its fields before the first call of a method and leave them alone after; the zero Server
// works, and answers 503 until it has a table.
type Server struct {
	// Log gets what operators should know. Nil: slog.Default().
	Log *slog.Logger
	// AccessLog gets a line for every exchange. Nil: none.
	AccessLog *AccessLog
	// Handshake chooses how to shake hands with a client: with a configuration that speaks [Protocols], and that is never
	// written to again. met is what the connection is good for by that, as Admits is asked. Nil: ServeTLS cannot be used.
	Handshake func(*tls.ClientHelloInfo) (config *tls.Config, met any, err error)
	// Admits reports whether requests for a host, which is in its one form, may come over a connection that has met this.
	// They are answered 421 otherwise (RFC 9110 section 15.5.20). Nil: all may.
	Admits func(met any, host string) bool
	// Answer returns what a certificate authority that asks for a token at a host is answered, if the token is known (RFC 8555
	// section 8.3). Nothing stands before it: no redirect, no credentials, no list. Nil: no token is known.
	Answer func(host, token string) (string, bool)
	// Trusted are the networks of peers whose X-Forwarded-* fields are believed: load balancers in front. Empty: nobody's,
	// but for those that [Server.SetClients] names.
	Trusted []netip.Prefix
	// Observer is told of exchanges that belong to no route. Nil: nobody is.
	Observer Observer
	// BodyTimeout is the gap allowed between two reads of a request's body, and between two writes of an answer that the
	// client takes. Zero: 60 s.
	BodyTimeout time.Duration
	// MaxConnections bounds the connections that clients have open at a time, MaxConnectionsPerAddress those of one address,
	// or of one /64 network of IPv6. One too many is reset. Zero: no limit.
	MaxConnections           int
	MaxConnectionsPerAddress int

	table       atomic.Pointer[router.Table]
	passthrough atomic.Pointer[Passthrough] // nil: no host's connections are passed on
	hellos      clienthello.Reader
	belief      atomic.Pointer[belief] // nil: that of the zero Clients, which nobody needed yet
	refusals    refusals               // for want of a PROXY header
	crowd       crowd
	crowded     refusals                     // of the crowd
	unsecured   refusals                     // of endpoints, over TLS
	floods      atomic.Uint64                // connections that were closed for one
	around      atomic.Pointer[http.Handler] // nil: dispatch alone
	draining    atomic.Bool
	life        life
}

// SetTable puts another table in place. Requests that have their route keep it.
func (s *Server) SetTable(t *router.Table) { s.table.Store(t) }

// SetAround has a middleware stand around the answers of all routes, and around that of none. Nil: nothing does.
func (s *Server) SetAround(m func(http.Handler) http.Handler) {
	if m == nil {
		s.around.Store(nil)
		return
	}
	handler := m(http.HandlerFunc(dispatch))
	s.around.Store(&handler)
}

// Table is the table in place; nil before the first.
func (s *Server) Table() *router.Table { return s.table.Load() }

// ServeHTTP answers a request that came over a listener of this process's own. Requests that come over Serve and
// ServeTLS know their listener; here it is taken from the request's context.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number := 80
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		number = local.Port
	}
	d := newDoor(s, "http", number)
	if r.TLS != nil {
		d = newDoor(s, "https", number)
	}
	d.ServeHTTP(w, r)
}

// A door is one listener as the requests through it see it.
type door struct {
	server *Server
	scheme string // of the connection
	port   string // as clients are told: "443" for HTTPS, whatever the listener's own
	number int    // the listener's own
}

func newDoor(s *Server, scheme string, number int) *door {
	if scheme == "https" {
		return &door{s, scheme, "443", number}
	}
	return &door{s, scheme, strconv.Itoa(number), number}
}

// reached is the scheme and the port that the client asked for, as far as its connection tells. The local address has
// another port than the listener where a PROXY header says what the client connected to (listener.go): 443 is then the port
// of a load balancer that has taken the TLS off.
func (d *door) reached(r *http.Request) (scheme, port string) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	switch {
	case !ok || local.Port == d.number:
		return d.scheme, d.port
	case local.Port == 443:
		return "https", "443"
	}
	return d.scheme, strconv.Itoa(local.Port)
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, r := d.open(w, r)
	defer d.server.finish(v, r)
	d.server.answer(v, r)
}

// refuse answers what was no request on the wire.
func (d *door) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	v, r := d.open(w, r)
	defer d.server.finish(v, r)
	d.server.log().Debug("refused what is no request", "client", r.RemoteAddr, "status", status, "error", err)
	d.server.identify(v, r)
	reason := BadRequest
	switch status {
	case http.StatusRequestTimeout:
		reason = HeadTimeout
	case http.StatusRequestURITooLong:
		reason = TargetTooLong
	}
	Fail(&v.response, r, status, reason)
}

// answer admits the request, finds its route and lets that answer.
func (s *Server) answer(v *visit, r *http.Request) {
	w, e := &v.response, &v.exchange
	s.identify(v, r)
	if status, reason := admit(e, r); reason != "" {
		if status == http.StatusUpgradeRequired {
			w.Header().Set("Sec-Websocket-Version", "13")
		}
		if !e.multiplexed {
			w.Header().Set("Connection", "close") // what follows on the connection may be part of the same mischief
		}
		Fail(w, r, status, reason)
		return
	}
	if r.TLS != nil && !s.admits(r, e.Host) {
		if !e.multiplexed {
			w.Header().Set("Connection", "close")
		}
		Fail(w, r, http.StatusMisdirectedRequest, Misdirected)
		return
	}
	r.Host = v.host
	if p := s.passthrough.Load(); p != nil && r.TLS != nil && p.passage(e.Host) != nil {
		Fail(w, r, http.StatusMisdirectedRequest, Misdirected) // its TLS is not ours to end, whatever name the handshake had
		return
	}
	v.identifyTarget(r.Header)
	if e.Target == "*" { // OPTIONS about the server as a whole (RFC 9110 section 9.3.7)
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
		return
	}
	if s.answerAuthority(w, r) {
		return
	}
	table := s.table.Load()
	if table == nil {
		w.Header().Set("Retry-After", "1")
		Fail(w, r, http.StatusServiceUnavailable, NotReady)
		return
	}
	route, ok := find(table, e.Host, e.Path, e.Target)
	if !ok {
		if !e.multiplexed {
			w.Header().Set("Connection", "close")
		}
		Fail(w, r, http.StatusBadRequest, AmbiguousPath)
		return
	}
	if route != nil {
		e.Route, e.Info = route, InfoOf(route.Handler)
	}
	if around := s.around.Load(); around != nil {
		(*around).ServeHTTP(w, r)
		return
	}
	dispatch(w, r)
}

// dispatch lets the route of a request answer.
func dispatch(w http.ResponseWriter, r *http.Request) {
	if route := From(r).Route; route != nil {
		route.Handler.ServeHTTP(w, r)
		return
	}
	Fail(w, r, http.StatusNotFound, NoRoute)
}

// finish keeps the books, also when a handler panicked: http.ErrAbortHandler is how a handler cuts an answer that it
// cannot finish, anything else is a fault of ours, which costs this request and no other.
func (s *Server) finish(v *visit, r *http.Request) {
	e := &v.exchange
	fault := recover()
	if fault != nil && fault != http.ErrAbortHandler {
		s.reportPanic(fault, e)
		if !v.response.wrote && !v.response.hijacked {
			Fail(&v.response, r, http.StatusInternalServerError, Panic)
			fault = nil
		} else {
			e.Reason, fault = Panic, http.ErrAbortHandler
		}
	}
	switch {
	case e.Status != 0:
	case r.Context().Err() != nil:
		e.Status, e.Reason = StatusClientClosed, ClientClosed
	case fault == nil && !v.response.hijacked:
		e.Status = http.StatusOK // the server on the wire writes it
	}
	v.response.settle()
	v.body.end()
	v.tell(s, r)
	v.response.leave() // last: who waits for the end of everything waits for its line in the log too
	if fault != nil {
		panic(fault)
	}
	if e.Reason != Panic {
		v.over()
	}
}

// reportPanic logs a fault of ours with its stack, and no value that a client sent.
func (s *Server) reportPanic(fault any, e *Exchange) {
	source := ""
	if e.Route != nil {
		source = e.Route.Source
	}
	s.log().Error("panic while serving a request", "fault", fmt.Sprint(fault), "route", source, "request", e.ID, "stack", string(debug.Stack()))
}

// complain tells why there is no TLS with an endpoint: its certificate expires for everybody at once, and who looks for the
// cause of a 502 looks here. Anybody can cause any number of those.
func (s *Server) complain(e *Exchange) {
	if len(e.Attempts) == 0 || e.Attempts[len(e.Attempts)-1].TLS == "" {
		return
	}
	if others, due := s.unsecured.due(); due {
		last, source := &e.Attempts[len(e.Attempts)-1], ""
		if e.Route != nil {
			source = e.Route.Source
		}
		s.log().Warn("no TLS with an endpoint", "route", source, "host", e.Host, "endpoint", last.Endpoint.String(), "why", last.TLS[:min(len(last.TLS), maxLogged)], "others", others)
	}
}

func (v *visit) tell(s *Server, r *http.Request) {
	e := &v.exchange
	e.Took = time.Since(e.Start)
	s.complain(e)
	observer := s.Observer
	if e.Info != nil && e.Info.Observer != nil {
		observer = e.Info.Observer
	}
	if observer != nil {
		observer.Observe(e)
	}
	if s.AccessLog != nil && !e.NoLog && (e.Info == nil || !e.Info.NoLog) {
		s.AccessLog.Log(r, e)
	}
}

func (s *Server) log() *slog.Logger {
	if s.Log != nil {
		return s.Log
	}
	return slog.Default()
}

func (s *Server) bodyTimeout() time.Duration {
	if gap := s.believed().Patience.Gap; gap != 0 {
		return gap
	}
	if s.BodyTimeout != 0 {
		return s.BodyTimeout
	}
	return 60 * time.Second
}
