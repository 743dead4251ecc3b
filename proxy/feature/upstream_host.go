package feature

import (
	"net/http"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// upstreamVhost is the host that endpoints are told (reference B2 #21). What X-Forwarded-Host says stays the client's.
func upstreamVhost(a *Annotations, d *Draft) {
	a.Section("Host at the endpoints", ReachPaths, "The name is what endpoints see in Host, or in :authority with gRPC. X-Forwarded-Host keeps the host that the client asked for.")
	host := a.template("upstream-vhost", "a host, with variables", "the host that endpoints are told in place of the client's")
	if host == nil {
		return
	}
	if text, ok := host.Literal(); ok {
		if !isAuthority(text) {
			a.Refuse("upstream-vhost", "expected a host, perhaps with a port")
			return
		}
	}
	d.Use(func(next http.Handler) http.Handler { return &toHost{next, host} })
}

// template reads a text with variables. Nil: it is absent, or bad.
func (a *Annotations) template(name, values, usage string, allow ...value.Option) *value.Template {
	d := Declaration{Name: name, Values: values, Usage: usage}
	return read(a, d, nil, func(text string) (*value.Template, string) {
		if expected := oneLine(text); expected != "" {
			return nil, expected
		}
		t, err := value.Parse(text, allow...)
		if err != nil {
			return nil, err.Error()
		}
		return t, ""
	})
}

type toHost struct {
	next http.Handler
	host *value.Template
}

func (h *toHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, err := h.host.ExpandField(r, nil)
	if err != nil || host != "" && !isAuthority(host) {
		proxy.Fail(w, r, http.StatusBadRequest, proxy.BadRequest) // of what the client sent no host can be made
		return
	}
	proxy.From(r).UpstreamHost = host
	h.next.ServeHTTP(w, r)
}

// isAuthority reports whether a host can stand in Host: with a byte that ends it somewhere else for some servers, an
// endpoint might see another one than we say.
func isAuthority(host string) bool {
	_, ok := proxy.NormalHost(host)
	return ok
}
