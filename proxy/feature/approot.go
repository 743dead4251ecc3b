package feature

import (
	"net/http"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// appRoot sends a visitor of "/" to the page the application calls home (reference B1).
func appRoot(a *Annotations, d *Draft) {
	a.Section("Application root", ReachHosts, "The path / of the hosts is redirected with 302, whichever Ingress it is from, and before anything else: "+
		"before the redirect to HTTPS, authentication and limits. The query is dropped. Of several Ingresses with one for a host, the oldest counts.")
	d.Host.root(read(a, Declaration{Name: "app-root", Values: "a path; variables are allowed", Usage: "where a request for / is redirected"}, nil,
		func(text string) (*value.URL, string) {
			const expected = "expected a path as in /home"
			u, err := value.ParseURL(text, value.Relative)
			switch {
			case !strings.HasPrefix(text, "/"):
				return nil, expected + ", which begins with a slash"
			case text == "/", strings.HasPrefix(text, "/?"), strings.HasPrefix(text, "/#"):
				return nil, "expected another path than / itself, which would be redirected for ever"
			case err != nil:
				return nil, expected + ": " + err.Error()
			}
			return u, ""
		}))
}

func (h *HostDraft) root(home *value.URL) {
	if home == nil {
		return
	}
	h.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := proxy.From(r)
			if e.Path != "/" {
				next.ServeHTTP(w, r)
				return
			}
			location, err := home.Expand(r, nil)
			if err != nil {
				proxy.Fail(w, r, http.StatusBadRequest, proxy.BadRequest)
				return
			}
			if r.Host != "" {
				location = e.Scheme + "://" + r.Host + location
			}
			redirectTo(w, r, http.StatusFound, location)
		})
	})
}
