package feature

import (
	"net/http"
	"strconv"
	"strings"

	"sallyport/proxy"
)

// tlsRedirect sends plain HTTP to HTTPS: where the host has a certificate unless ssl-redirect is off, and with
// force-ssl-redirect everywhere (reference A9).
//
// The address is made of the host and the target that the front has checked, never of the client's own words: a target
// such as //evil.test is a path here, and Location begins with https:// and the host in any case.
func tlsRedirect(a *Annotations, d *Draft) {
	wanted := a.Bool("ssl-redirect", true, "whether plain HTTP is redirected to HTTPS where the host has a certificate")
	forced := a.Bool("force-ssl-redirect", false, "whether plain HTTP is redirected to HTTPS even where the host has no certificate, as behind a load balancer that ends TLS")
	keepSlash := a.Bool("preserve-trailing-slash", false, "whether the redirect to HTTPS keeps a slash at the end of the address")
	withPort := a.Bool("use-port-in-redirects", false, "whether the redirect to HTTPS names the port of the HTTPS listener")
	port := ""
	if p := d.Settings.HTTPSPort; withPort && p != 0 && p != 443 {
		port = ":" + strconv.Itoa(p)
	}
	d.UseAt(func(at Place) Middleware {
		if !forced && !(wanted && at.HostTLS) || isChallenge(at.Match.Path) {
			return nil
		}
		return func(next http.Handler) http.Handler { return &toTLS{next, port, keepSlash} }
	})
}

// isChallenge reports whether a route answers ACME challenges, which come over plain HTTP (RFC 8555 section 8.3). It is
// the route's own path that counts, so that a solver's Ingress is exempt and "/" is not.
func isChallenge(path string) bool { return strings.HasPrefix(path, "/.well-known/acme-challenge") }

type toTLS struct {
	next      http.Handler
	port      string // with its colon; empty: the usual one
	keepSlash bool
}

func (t *toTLS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := proxy.From(r)
	switch {
	case e.Scheme == "https":
		t.next.ServeHTTP(w, r)
	case e.Host == "": // HTTP/1.0: there is no address to send the client to, and plain HTTP is not to be served
		proxy.Fail(w, r, http.StatusBadRequest, proxy.BadRequest)
	default:
		e.Reason = proxy.TLSRedirect
		w.Header().Set("Location", t.location(e))
		w.WriteHeader(http.StatusPermanentRedirect)
	}
}

func (t *toTLS) location(e *proxy.Exchange) string {
	target := e.Target
	if !strings.HasPrefix(target, "/") {
		target = "" // OPTIONS *: behind the host anything but a slash would become part of it
	}
	if !t.keepSlash {
		target = strings.TrimSuffix(target, "/")
	}
	return "https://" + bracketed(e.Host) + t.port + target
}

// bracketed is a host as it stands in a URL: an IPv6 address has brackets there (RFC 3986 section 3.2.2).
func bracketed(host string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "[" + host + "]"
	}
	return host
}
