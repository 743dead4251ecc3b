package proxy

import (
	"net/http"
	"net/url"
)

// Reroute has another path of the request's host answer, as a GET without body: for a page of the host that stands for an
// error. path is an absolute one, without dot segments. It reports false, and does nothing, for a request that was rerouted
// before or has no front behind it.
//
// Whoever guards the host must let the request pass that it has rerouted itself: see [Exchange.Rerouted].
func Reroute(w http.ResponseWriter, r *http.Request, path string) bool {
	e := From(r)
	if e.server == nil || e.rerouted {
		return false
	}
	table := e.server.table.Load()
	if table == nil {
		return false
	}
	e.rerouted, e.Path, e.Target = true, path, (&url.URL{Path: path}).EscapedPath()
	r.Method, r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = http.MethodGet, http.NoBody, 0, nil, nil
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Expect", "Upgrade", "Connection"} {
		r.Header.Del(name)
	}
	r.URL = &url.URL{Path: path}
	r.RequestURI = e.Target
	e.Route, e.Info = nil, nil
	if route, ok := find(table, e.Host, e.Path, e.Target); ok && route != nil {
		e.Route, e.Info = route, InfoOf(route.Handler)
	}
	dispatch(w, r)
	return true
}

// Rerouted reports whether the request is one that [Reroute] has sent here.
func (e *Exchange) Rerouted() bool { return e.rerouted }
