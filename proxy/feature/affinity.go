package feature

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// affinity keeps each client at the endpoint that answered it first, by a cookie (reference A17 and B12). What is in the
// cookie, and when there is another, is for the endpoints' pool to say (proxy/upstream/affinity.go); here is how browsers
// are to keep it.
func affinity(a *Annotations, d *Draft) {
	a.Section("Session affinity", ReachPaths, "A client without the cookie goes to an endpoint by the load balancing of the route, and is given the cookie with the answer; with the cookie it goes "+
		"to the same endpoint. It is always HttpOnly, and Secure where the client came by HTTPS. Answers that the proxy makes itself bring none. "+
		"Unlike in ingress-nginx an endpoint that cannot be reached fails no client: the request goes to another, and without session-cookie-change-on-failure the next one is back where the session is. "+
		"A cookie from ingress-nginx is replaced. A path that ends in a slash is given to browsers without it, so that it holds for the whole prefix, and a path that is a regular "+
		"expression holds for /, where ingress-nginx tells browsers the expression. Paths of one name and one path on a host, but of several Services, take each other's cookies away: give them names. "+
		"Affinity comes before upstream-hash-by and load-balance, and all of them before a Service's own sessionAffinity.")
	kind := a.Word("affinity", "", []string{"cookie"}, "what keeps a client at one endpoint")
	mode := a.Word("affinity-mode", "balanced", []string{"balanced", "persistent"}, "with balanced some clients move when an endpoint is added, so that it has its share; with persistent a client stays for as long as its endpoint is there")
	name := a.sessionCookieName()
	c := &sessionCookie{
		maxAge:  a.wholeSeconds("session-cookie-max-age", "how many seconds browsers keep the cookie, as Max-Age; without it, or session-cookie-expires, until they are closed"),
		expires: a.wholeSeconds("session-cookie-expires", "how many seconds browsers keep the cookie, as a date in Expires, for those that do not know Max-Age"),
		path:    a.attribute("session-cookie-path", "a path as in /app", "the path of the cookie; where absent it is the path of the Ingress", "/"),
		domain:  a.attribute("session-cookie-domain", "a host name", "the domain of the cookie, whose subdomains it holds for too; where absent it is for the host alone", ""),
	}
	c.sameSite = a.Word("session-cookie-samesite", "", []string{"None", "Lax", "Strict"}, "the cookie's SameSite; where absent there is none")
	c.secure = a.Bool("session-cookie-secure", false, "whether the cookie is Secure even where the client came by plain HTTP; over HTTPS it always is")
	c.conditional = a.Bool("session-cookie-conditional-samesite-none", false, "whether SameSite=None is left out for browsers that take it for Strict, or refuse the cookie because of it")
	change := a.Bool("session-cookie-change-on-failure", false, "whether a client whose endpoint fails belongs to another from then on")
	d.PicksItself = kind != "" || a.Has("upstream-hash-by") || a.Has("load-balance")
	if kind == "" {
		a.refuseWithoutAffinity()
		return
	}
	if c.path == "" && a.writesExpressions() {
		a.Refuse("affinity", "expected session-cookie-path beside it, because paths of the Ingress are regular expressions, of which browsers know nothing; the cookie holds for /")
	}
	d.Upstream.Affinity = &upstream.Affinity{Cookie: name, Persistent: mode == "persistent", ChangeOnFailure: change, Attributes: c.attributes}
}

// refuseWithoutAffinity tells of annotations that say something of a cookie which nobody asks for.
func (a *Annotations) refuseWithoutAffinity() {
	if a.Has("affinity") {
		return // which is wrong, and told
	}
	for _, name := range []string{
		"affinity-mode", "session-cookie-name", "session-cookie-max-age", "session-cookie-expires", "session-cookie-path", "session-cookie-domain",
		"session-cookie-samesite", "session-cookie-secure", "session-cookie-conditional-samesite-none", "session-cookie-change-on-failure",
	} {
		if a.Has(name) {
			a.Refuse(name, `expected affinity: "cookie" beside it; it has no effect`)
		}
	}
}

// writesExpressions reports whether the author of the Ingress says that its paths are regular expressions.
func (a *Annotations) writesExpressions() bool {
	_, useRegex, _ := a.find("use-regex")
	_, target, _ := a.find("rewrite-target")
	regex, err := strconv.ParseBool(useRegex)
	return err == nil && regex || strings.Contains(target, "$")
}

func (a *Annotations) sessionCookieName() string {
	const usual = "INGRESSCOOKIE"
	d := Declaration{Name: "session-cookie-name", Values: "the name of a cookie", Default: usual, Usage: "the name of the cookie"}
	return read(a, d, usual, func(text string) (string, string) {
		text = strings.TrimSpace(text)
		return text, unless(httpguts.ValidHeaderFieldName(text), "expected the name of a cookie") // both are tokens (RFC 6265 section 4.1.1)
	})
}

// wholeSeconds reads a number of seconds, which may be negative. Nil: it is absent, or bad.
func (a *Annotations) wholeSeconds(name, usage string) *int {
	d := Declaration{Name: name, Values: "a whole number of seconds, which may be negative", Usage: usage}
	return read(a, d, nil, func(text string) (*int, string) {
		n, err := strconv.ParseInt(text, 10, 32)
		seconds := int(n)
		return &seconds, unless(err == nil, "expected a whole number of seconds")
	})
}

// attribute reads what stands in a cookie behind the name of an attribute.
func (a *Annotations) attribute(name, values, usage, prefix string) string {
	d := Declaration{Name: name, Values: values, Usage: usage}
	return read(a, d, "", func(text string) (string, string) {
		text = strings.TrimSpace(text)
		return text, unless(text != "" && isAttribute(text) && strings.HasPrefix(text, prefix), "expected "+values)
	})
}

// A sessionCookie is how browsers are to keep the cookie.
type sessionCookie struct {
	path, domain    string // empty: the route's, and none
	maxAge, expires *int   // seconds; nil: none
	sameSite        string // empty: none
	conditional     bool
	secure          bool
}

// attributes are what stands behind the cookie's value, in the order of ingress-nginx.
func (c *sessionCookie) attributes(r *http.Request) string {
	e := proxy.From(r)
	b := make([]byte, 0, 160)
	if c.expires != nil {
		b = append(b, "; Expires="...)
		b = time.Now().Add(time.Duration(*c.expires)*time.Second).UTC().AppendFormat(b, http.TimeFormat)
	}
	if c.maxAge != nil {
		b = append(b, "; Max-Age="...)
		b = strconv.AppendInt(b, int64(*c.maxAge), 10)
	}
	if c.domain != "" {
		b = append(append(b, "; Domain="...), c.domain...)
	}
	path := c.path
	if path == "" {
		path = cookiePath(e.Route)
	}
	b = append(append(b, "; Path="...), path...)
	if c.secure || e.Scheme == "https" {
		b = append(b, "; Secure"...)
	}
	b = append(b, "; HttpOnly"...)
	if c.sameSite != "" && !(c.conditional && c.sameSite == "None" && !knowsSameSiteNone(r.Header.Get("User-Agent"))) {
		b = append(append(b, "; SameSite="...), c.sameSite...)
	}
	return string(b)
}

// cookiePath is the part of a host that a route answers for, in the form in which browsers have it. A cookie for /app holds
// for /app/x, and one for /app/ would not hold for /app, which a prefix takes too.
func cookiePath(route *router.Route) string {
	if route == nil || route.Type == router.Regex {
		return "/"
	}
	path := (&url.URL{Path: route.Path}).EscapedPath()
	if route.Type == router.Prefix {
		path = strings.TrimRight(path, "/")
	}
	if path == "" || !isAttribute(path) {
		return "/"
	}
	return path
}
