package feature

import (
	"net/http"
	"slices"
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
	a.Section("Redirects to HTTPS", ReachPaths, "A host has a certificate where some Ingress with a rule for it has spec.tls, whichever Ingress that is. "+
		"The redirect comes before authentication and limits, and is the same for every method.")
	wanted := a.Shared().Bool("ssl-redirect", true, "whether plain HTTP is redirected to HTTPS where the host has a certificate")
	forced := a.Shared().Bool("force-ssl-redirect", false, "whether plain HTTP is redirected to HTTPS even where the host has no certificate, as behind a load balancer that ends TLS")
	keepSlash := a.Shared().Bool("preserve-trailing-slash", false, "whether the redirect to HTTPS keeps a slash at the end of the address")
	withPort := a.Shared().Bool("use-port-in-redirects", false, "whether the redirect to HTTPS names the port of the HTTPS listener")
	status := a.Config().redirectCode()
	exempt := a.Config().List("no-tls-redirect-locations", "paths", "the beginnings of paths, as Ingresses have them, that are served over plain HTTP in any case; "+challenges+" where the key is absent", nil)
	if exempt == nil {
		exempt = []string{challenges}
	}
	t := toTLS{status: status, keepSlash: keepSlash}
	if p := d.Settings.HTTPSPort; withPort && p != 0 && p != 443 {
		t.port = ":" + strconv.Itoa(p)
	}
	d.toTLS = t
	d.UseAt(func(at Place) Middleware {
		// It is the route's own path that counts, so that a solver's Ingress is exempt and "/" is not.
		isExempt := func(prefix string) bool { return strings.HasPrefix(at.Match.Path, prefix) }
		if !forced && !(wanted && at.HostTLS) || slices.ContainsFunc(exempt, isExempt) {
			return nil
		}
		return func(next http.Handler) http.Handler {
			t := t
			t.next = next
			return &t
		}
	})
}

// challenges is where ACME challenges are answered, which come over plain HTTP (RFC 8555 section 8.3).
const challenges = "/.well-known/acme-challenge"

// redirectCode reads the status of redirects that nobody gave another.
func (a *Annotations) redirectCode() int {
	code := a.IntBetween("http-redirect-code", http.StatusPermanentRedirect, 301, 308, "the status of redirects to HTTPS and between a host and its twin with www: 301, 302, 307 or 308")
	switch code {
	case 301, 302, 307, 308:
		return code
	}
	a.Refuse("http-redirect-code", "expected 301, 302, 307 or 308; the default, 308, is used")
	return http.StatusPermanentRedirect
}

type toTLS struct {
	next      http.Handler
	status    int
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
		w.WriteHeader(t.status)
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
