package feature

import (
	"net/http"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// redirects sends every client of the Ingress's paths elsewhere (reference B1). It asks for no Service, no credentials and
// no HTTPS first: who is sent away meets nothing else.
func redirects(a *Annotations, d *Draft) {
	a.Section("Redirects", ReachPaths, "Every request is answered with a redirect to exactly this address: path and query of the request are not appended, "+
		"which $request_uri does. It comes before the redirect to HTTPS, authentication and limits. temporal-redirect wins where both are set. "+
		"Unlike in ingress-nginx, variables may stand in the address, though none by which a client would choose the host, and a bad address means no redirect rather than no Ingress.")
	temporal := a.address("temporal-redirect", "where clients are sent for the time being")
	temporalCode := a.IntBetween("temporal-redirect-code", http.StatusFound, 300, 307, "the status of that redirect")
	permanent := a.address("permanent-redirect", "where clients are sent for good")
	permanentCode := a.IntBetween("permanent-redirect-code", http.StatusMovedPermanently, 300, 308, "the status of that redirect")
	relative := a.Shared().Bool("relative-redirects", false, "whether a redirect to a path is sent without scheme and host")
	to, code := temporal, temporalCode
	if to == nil {
		to, code = permanent, permanentCode
	}
	if to == nil {
		return
	}
	r := &redirect{to: to, code: code, relative: relative}
	d.Use(func(http.Handler) http.Handler { return r })
}

// address reads a URL with variables, or a path of the same host. Nil: it is absent, or bad.
func (a *Annotations) address(name, usage string) *value.URL {
	d := Declaration{Name: name, Values: "an address, or a path of the same host; variables are allowed", Usage: usage}
	return read(a, d, nil, func(text string) (*value.URL, string) {
		u, err := value.ParseURL(text, value.Relative)
		if err != nil {
			return nil, "expected an address as in https://example.org/path: " + err.Error()
		}
		return u, ""
	})
}

// A redirect answers every request.
type redirect struct {
	to       *value.URL
	code     int
	relative bool
}

func (h *redirect) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	location, err := h.to.Expand(r, nil)
	if err != nil {
		proxy.Fail(w, r, http.StatusBadRequest, proxy.BadRequest)
		return
	}
	if e := proxy.From(r); strings.HasPrefix(location, "/") && !h.relative && e.Host != "" {
		location = e.Scheme + "://" + bracketed(e.Host) + location
	}
	redirectTo(w, r, h.code, location)
}

// redirectTo answers with a redirect in the proxy's own name.
func redirectTo(w http.ResponseWriter, r *http.Request, code int, location string) {
	proxy.From(r).Reason = proxy.Redirect
	w.Header().Set("Location", location)
	w.WriteHeader(code)
}
