package feature

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// Errors that a Service answers in place of others (reference A7), and what is answered where there is nobody to ask.
//
// Three features share the annotation default-backend, because a request meets them at three places: error pages are
// outermost, so that whatever fails has them; that nobody is there is said before limits and credentials are asked about;
// and the Service that stands in for another is asked last, so that nobody gets to it who would not get to the other.

// errorPages puts the answers of a Service for errors in place of errors.
func errorPages(a *Annotations, d *Draft) {
	a.Section("Error pages", ReachPaths, "Answers with one of the statuses, the endpoint's and the proxy's own, are dropped, and the default backend is asked instead: for /, "+
		"with the method of the request and without its body, its credentials, its cookies and its conditions, which ingress-nginx passes on. X-Code has the status, X-Format what the client accepts, "+
		"X-Original-URI what it asked for, and X-Namespace, X-Ingress-Name, X-Service-Name and X-Service-Port say where. What the default backend answers "+
		"goes to the client, its status included; but whoever was refused for want of permission is told so by the status, whatever the page says. "+
		"The list of an Ingress takes the place of that of the ConfigMap, and 418 there turns error pages off for practical purposes; an Ingress with "+
		"auth-url, auth-signin and no list of its own has none. Where there is no default backend with endpoints answers are left as they are; those of ingress-nginx become 404. "+
		"The default backend also stands in for a Service without endpoints: it gets the request as it is, once the client may have it, with X-Code: 503.")
	statuses := a.Shared().statuses("custom-http-errors", "the statuses that the default backend answers")
	passes := a.Shared().Bool("disable-proxy-intercept-errors", false, "whether answers of endpoints are left alone, and only the proxy's own errors have pages")
	backend := a.Backend("default-backend", "the Service that answers errors, and for Services without endpoints; the process's own where there is none")
	if a.Has("auth-url") && a.Has("auth-signin") && !a.Has("custom-http-errors") {
		statuses = nil // nginx: a location with an error_page of its own inherits none
	}
	if len(statuses) == 0 {
		return
	}
	process := d.Settings.defaultBackend()
	if backend == nil && process == nil {
		return
	}
	d.UseAt(func(at Place) Middleware {
		p := &pages{info: at.Info, passes: passes, own: backend, process: process}
		for _, status := range statuses {
			p.statuses[status-leastStatus] = true
		}
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proxy.From(r).ErrorPages = p
				next.ServeHTTP(w, r)
			})
		}
	})
}

// defaultBackend returns that of the process when it is called, nil where that has none now. Nil: it never has one.
func (s Settings) defaultBackend() func() *Backend { return s.DefaultBackend }

// Statuses that can have pages: of the ConfigMap, and of an Ingress from 400 on.
const leastStatus, mostStatus = 300, 599

// statuses reads a list of statuses.
func (a *Annotations) statuses(name, usage string) []int {
	d := Declaration{Name: name, Values: "a list of statuses from 400 to 599, separated by commas; from 300 in the ConfigMap", Usage: usage}
	_, _, own := a.find(name)
	least := leastStatus
	if own {
		least = 400
	}
	statuses := read(a, d, nil, func(value string) ([]int, string) {
		list, expected := parseList(value, "statuses")
		statuses := make([]int, 0, len(list))
		for _, item := range list {
			status, err := strconv.Atoi(item)
			if err != nil || status < leastStatus || status > mostStatus {
				return nil, fmt.Sprintf("%s is no status from %d to %d", shown(item), least, mostStatus)
			}
			statuses = append(statuses, status)
		}
		return statuses, expected
	})
	if own && len(statuses) > 0 && slices.Min(statuses) < 400 && !a.Failed() {
		a.Refuse(name, "expected statuses from 400 to 599")
		return nil
	}
	return statuses
}

// pages are the error pages of one route.
type pages struct {
	statuses [mostStatus - leastStatus + 1]bool
	passes   bool            // answers of endpoints are left alone
	own      *Backend        // of the route; nil: none
	process  func() *Backend // asked where own has no endpoints; nil: there is none
	info     *proxy.RouteInfo
}

// backend is who can be asked now; nil: nobody.
func (p *pages) backend() *Backend {
	if p.own.lives() {
		return p.own
	}
	if p.process != nil {
		if b := p.process(); b.lives() {
			return b
		}
	}
	return nil
}

// lives reports whether there is somebody to ask.
func (b *Backend) lives() bool { return b != nil && b.Pool != nil && b.Pool.Len() > 0 }

func (p *pages) Takes(status int, endpoints bool) bool {
	return status >= leastStatus && status <= mostStatus && p.statuses[status-leastStatus] && !(endpoints && p.passes) && p.backend() != nil
}

func (p *pages) Serve(w http.ResponseWriter, r *http.Request, status int) {
	e := proxy.From(r)
	e.ErrorPages = nil
	backend := p.backend()
	if backend == nil { // it was there a moment ago
		proxy.Fail(w, r, status, e.Reason)
		return
	}
	ask := new(http.Request)
	*ask = *r
	ask.Header = p.header(e, r, status)
	ask.URL = &url.URL{Path: "/"}
	ask.Body, ask.ContentLength, ask.TransferEncoding, ask.Trailer = http.NoBody, 0, nil, nil
	e.UpstreamTarget, e.UpstreamHost = "/", ""
	page := &page{ResponseWriter: w, r: r, e: e, why: e.Reason}
	if refusal(e.Reason) {
		page.status = status
	}
	backend.ServeHTTP(page, ask)
	if page.dropped {
		proxy.Fail(w, r, status, cmp.Or(page.why, e.Reason))
	}
}

// header is what the default backend gets to know. It is not the Service that the client meant to talk to, so it gets
// nothing to identify the client by, and since the page is a whole one, nothing that asks for a part of it.
func (p *pages) header(e *proxy.Exchange, r *http.Request, status int) http.Header {
	header := make(http.Header, len(r.Header)+8)
	for name, values := range r.Header {
		switch name {
		case "Authorization", "Cookie", "Proxy-Authorization", "Connection", "Upgrade", "Expect", "Range", "Trailer",
			"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range":
		default:
			if !strings.HasPrefix(name, "Content-") {
				header[name] = values
			}
		}
	}
	header.Set("X-Original-Uri", cmp.Or(e.Target, r.RequestURI))
	setCode(header, p.info, status)
	return header
}

// setCode says what went wrong and where. What is not known the client has not said either.
func setCode(header http.Header, info *proxy.RouteInfo, status int) {
	if info == nil {
		info = new(proxy.RouteInfo)
	}
	for _, field := range [...]struct{ name, value string }{
		{"X-Code", strconv.Itoa(status)},
		{"X-Format", header.Get("Accept")},
		{"X-Namespace", info.Namespace},
		{"X-Ingress-Name", info.Ingress},
		{"X-Service-Name", info.Service},
		{"X-Service-Port", info.Port},
	} {
		if field.value == "" {
			delete(header, field.name)
		} else {
			header[field.name] = []string{field.value}
		}
	}
}

// refusal reports whether a client was refused for want of permission. That answer is final: were a page's status to take
// its place, whoever asks the proxy for leave, as another proxy's auth-url does, would take 200 for a yes (CVE-2026-24513).
func refusal(reason proxy.Reason) bool {
	switch reason {
	case proxy.Unauthenticated, proxy.AuthForbidden, proxy.AuthFailed, proxy.AddressDenied, proxy.Blocked:
		return true
	}
	return false
}

// A page is the answer of a default backend on its way to the client.
type page struct {
	http.ResponseWriter
	r       *http.Request
	e       *proxy.Exchange
	why     proxy.Reason // of the error; empty: the endpoint made it
	status  int          // that stays; 0: the page's own does
	dropped bool         // there is no page: the default backend failed
}

// WriteHeader lets only an answer of the default backend through. What the proxy would say about it in its own name is
// dropped: the client is to learn what became of its request, not of the page.
func (p *page) WriteHeader(status int) {
	switch {
	case status < 200:
	case p.e.Reason != p.why && p.r.Context().Err() == nil:
		p.dropped = true
		return
	case p.status != 0:
		status = p.status
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *page) Write(b []byte) (int, error) {
	if p.dropped {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

func (p *page) Flush() {
	if !p.dropped {
		http.NewResponseController(p.ResponseWriter).Flush()
	}
}

// Unwrap is for http.ResponseController.
func (p *page) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// liveEndpoints answers 503 at once where neither the Service nor the default backend has an endpoint (reference A10,
// stage 12): nobody need say who they are to learn that.
func liveEndpoints(a *Annotations, d *Draft) {
	backend := a.defaultBackend()
	d.UseAt(func(at Place) Middleware {
		if at.Pool == nil && (at.Info == nil || at.Info.Service == "") {
			return nil // it leads to no Service
		}
		return func(next http.Handler) http.Handler { return &living{next, at.Pool, backend} }
	})
}

// defaultBackend is what errorPages reads, and reports.
func (a *Annotations) defaultBackend() *Backend {
	_, service, ok := a.find("default-backend")
	if service = strings.TrimSpace(service); !ok || !isName(service) || a.in.Objects == nil {
		return nil
	}
	return a.in.Objects.Backend(a.in.Namespace, service)
}

type living struct {
	next    http.Handler
	pool    *upstream.Pool // nil: the Service does not exist
	backend *Backend       // nil: none
}

func (l *living) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case l.pool != nil && l.pool.Len() > 0, l.backend.lives():
		l.next.ServeHTTP(w, r)
	case l.pool == nil:
		proxy.Fail(w, r, http.StatusServiceUnavailable, proxy.NoService)
	default:
		proxy.Fail(w, r, http.StatusServiceUnavailable, proxy.NoEndpoints)
	}
}

// standIn asks the default backend where the Service has no endpoints.
func standIn(a *Annotations, d *Draft) {
	backend := a.defaultBackend()
	if backend == nil {
		return
	}
	d.UseAt(func(at Place) Middleware {
		if at.Pool == nil && (at.Info == nil || at.Info.Service == "") {
			return nil
		}
		return func(next http.Handler) http.Handler { return &substitute{next, at.Pool, backend, at.Info} }
	})
}

type substitute struct {
	next    http.Handler
	pool    *upstream.Pool // nil: the Service does not exist
	backend *Backend
	info    *proxy.RouteInfo
}

func (s *substitute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.pool != nil && s.pool.Len() > 0 || !s.backend.lives() {
		s.next.ServeHTTP(w, r)
		return
	}
	e := proxy.From(r)
	e.ErrorPages = nil // what it says stands, also of an error
	e.UpstreamTarget = ""
	setCode(r.Header, s.info, http.StatusServiceUnavailable)
	s.backend.ServeHTTP(w, r)
}
