package feature

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/proxy/feature/value"
)

// External authentication (reference B6): a service is asked, for each request, whether it may pass.
//
//	client   GET /a?b=1           to   h.test
//	we       GET /verify          to   the auth-url, with the client's fields and X-Original-URL: http://h.test/a?b=1
//	answer   2xx                  the request goes on, with the fields of auth-response-headers from the answer
//	         401, 403             that status, or with auth-signin a redirect to the page where one signs in
//	         anything else, none  500
//
// extauth_guard.go asks and draws the conclusion, extauth_client.go sends, extauth_cache.go remembers answers, and
// extauth_host.go keeps clients from choosing whom to ask.

// externalAuth lets requests pass that a service lets pass.
func externalAuth(a *Annotations, d *Draft) {
	a.Section("External authentication", ReachPaths, "Each request, one for a WebSocket too, is first described to the service at auth-url, without its body: with all fields of the client but those of "+
		"the connection, of the body, and conditions such as If-None-Match, and with X-Original-URL, X-Original-Method, X-Auth-Request-Redirect, X-Sent-From, X-Real-IP, X-Forwarded-For and X-Request-ID. 2xx lets it pass. "+
		"401 and 403 are the client's answer, with the WWW-Authenticate of the service and a body of our own; any other answer, no answer within a minute, or an address that "+
		"cannot be reached is 500. Redirects are not followed, and the certificate of the service is not verified, as in ingress-nginx. Each Set-Cookie of the service is added to the answer. "+
		"Error pages may dress a refusal and never change its status. "+
		"The service may be at a host that this very proxy serves, as in https://$host/oauth2/auth, where that path is not guarded itself: a guard that is asked on its own behalf answers 500. "+
		"A variable that a client fills, as $host, may stand for the host only as long as it comes out as a host of the rule or of server-alias other than a regular expression: "+
		"else, as in a rule without a host, the client would choose whom to ask, and gets 500. "+
		"Unlike in ingress-nginx a mistake in any of these annotations never opens the route; the name of the service is resolved as any other name in its pod, search domains included; "+
		"and connections to it are always kept for reuse.")
	own := a.readAuth("auth-")
	own.fields = a.authFields()
	own.idle = a.authIdle()
	enabled := a.Bool("enable-global-auth", true, "whether the global-auth-url of the ConfigMap holds for the Ingress where it has no auth-url")
	a.Section("Global external authentication", ReachProcess, "What the keys say holds for every Ingress without an auth-url that does not turn enable-global-auth off. "+
		"An Ingress has either its own annotations or these keys, never some of both.")
	global := a.Config().readAuth("global-auth-")
	exempt := a.noAuthLocations()

	wanted := own
	switch {
	case a.Has("auth-url"), !enabled, a.in.Config.value("global-auth-url") == "":
		a.forgiveKeys("global-auth-")
	default:
		wanted = global
	}
	if wanted.url == nil {
		return // where it ought to be there, the routes are denied
	}
	g := &authGuard{authSetting: wanted, draft: d, exempt: exempt, client: d.authClient(wanted.idle), trail: newTrail(), chosen: chosenBy(wanted.url)}
	if wanted.cacheKey != nil {
		g.cache = Recall(d, "auth-cache-key\x00"+wanted.identity(), func() *authCache { return newAuthCache(maxCached) })
		g.mixes = credentialsBeside(wanted.cacheKey)
	}
	d.GuardAt(func(at Place) Check {
		if exempts(exempt, at.Match.Path) {
			return nil
		}
		return g.check
	})
	if len(wanted.passed) > 0 {
		d.UseAt(func(at Place) Middleware { return g.passFields(at.Match.Path) })
	}
}

// An authSetting is an auth-url and what was said beside it.
type authSetting struct {
	url       *value.URL
	method    string
	told      bool                  // the method was asked for
	signIn    *value.URL            // nil: 401 stays 401
	passed    []string              // fields of the answer that the endpoint gets
	redirect  *value.Template       // X-Auth-Request-Redirect; nil: the target of the request
	cookies   bool                  // Set-Cookie is added whatever the status
	cacheKey  *value.Template       // nil: nothing is remembered
	durations map[int]time.Duration // by status
	fields    []requestField        // that the service is sent
	idle      time.Duration         // of connections; not positive: none is kept
}

// readAuth reads what annotations and keys have in common, under names that begin alike.
func (a *Annotations) readAuth(prefix string) authSetting {
	s := authSetting{idle: usualIdle}
	s.url = a.authURL(prefix+"url", "the address that is asked whether a request may pass; variables are allowed")
	s.method = a.Word(prefix+"method", http.MethodGet, authMethods, "the method with which the service is asked; where it is set, the service gets X-Original-URI too")
	s.told = a.Has(prefix + "method")
	signIn := a.authURL(prefix+"signin", "the page to sign in, to which clients are redirected in place of 401; a path is one of the same host; variables are allowed", value.Relative)
	parameter := a.parameter(prefix+"signin-redirect-param", "rd", "the parameter that tells the page where the client wanted to go; it is left alone where the address has it")
	s.passed = a.passedFields(prefix + "response-headers")
	s.redirect = a.template(prefix+"request-redirect", "text; variables are allowed", "the value of X-Auth-Request-Redirect for the service; the path and query of the request where it is absent")
	s.cacheKey = a.template(prefix+"cache-key", "text with variables, such as $cookie_session$http_authorization", "what requests have in common that get the same answer, which is then remembered for the route; "+
		"host and path of the rule, the address that is asked, and the Authorization and Cookie of the request are part of it, save of the latter two what the key names itself")
	s.durations = a.durations(prefix+"cache-duration", "how long answers are remembered, by status; 200, 301 and 302 where an entry has none. An answer with Set-Cookie is not remembered, and its Cache-Control and Expires make the time shorter, never longer")
	s.cookies = a.Bool(prefix+"always-set-cookie", false, "whether the Set-Cookie of the service is added to answers of every status, not to 200, 201, 204, 206, 301, 302, 303, 304, 307 and 308 only")
	if signIn != nil {
		s.signIn = a.withReturn(prefix+"signin", signIn.String(), parameter)
	}
	return s
}

var authMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// authURL reads an absolute URL with variables. Nil: it is absent, or bad.
func (a *Annotations) authURL(name, usage string, allow ...value.Option) *value.URL {
	d := Declaration{Name: name, Values: "an address; variables are allowed", Usage: usage}
	return read(a, d, nil, func(text string) (*value.URL, string) {
		u, err := value.ParseURL(strings.TrimSpace(text), allow...)
		if err != nil {
			return nil, "expected an address as in https://example.org/path: " + err.Error()
		}
		return u, ""
	})
}

// withReturn adds the parameter that tells where the client wanted to go (reference A21 #29). Nil: it is bad.
func (a *Annotations) withReturn(name, address, parameter string) *value.URL {
	query := url.Values{}
	if _, text, ok := strings.Cut(address, "?"); ok {
		query, _ = url.ParseQuery(text) // as much of it as can be read
	}
	switch back := parameter + "=$pass_access_scheme://$http_host$escaped_request_uri"; {
	case query.Get(parameter) != "":
	case len(query) > 0:
		address += "&" + back
	default:
		address = strings.TrimSuffix(address, "?") + "?" + back
	}
	u, err := value.ParseURL(address, value.Relative)
	if err != nil {
		a.Refuse(name, "expected an address: "+err.Error())
	}
	return u
}

// parameter reads the name of a parameter of a query.
func (a *Annotations) parameter(name, usual, usage string) string {
	d := Declaration{Name: name, Values: "letters, digits, '-', '.', '_' and '~'", Default: usual, Usage: usage}
	return read(a, d, usual, func(text string) (string, string) {
		text = strings.TrimSpace(text)
		bad := func(r rune) bool {
			return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
		}
		return text, unless(text != "" && len(text) <= 64 && !strings.ContainsFunc(text, bad), "expected the name of a parameter: at most 64 letters, digits, '-', '.', '_' and '~'")
	})
}

// passedFields reads which fields of the service's answer endpoints get.
func (a *Annotations) passedFields(name string) []string {
	fields := a.HeaderNames(name, "the fields of the service's answer that the endpoint gets, all their values, in place of the client's; a field that the answer has not is removed")
	for _, field := range fields {
		if framing(field) || field == "Host" {
			a.Refuse(name, fmt.Sprintf("%q says how messages end, where they go or what becomes of the connection, which nobody may say but the proxy", field))
			return nil
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// authFields reads the fields that the service is sent beside the client's.
func (a *Annotations) authFields() []requestField {
	const name = "auth-proxy-set-headers"
	data := a.ConfigMap(name, "the ConfigMap with fields that the service is sent; the values may hold variables, and an empty one removes the field. A change of the ConfigMap counts at once")
	refuse := func(expected string) { a.Refuse(name, expected) }
	good := fields(data, refuse)
	var set []requestField
	for _, field := range slices.Sorted(maps.Keys(good)) {
		text, err := value.Parse(good[field])
		if err != nil {
			refuse(field + ": " + err.Error())
			continue
		}
		set = append(set, requestField{field, text, literal(text)})
	}
	return set
}

// authIdle reads how long connections to the service are kept.
func (a *Annotations) authIdle() time.Duration {
	a.Int("auth-keepalive", 0, "has no effect: connections to the service are always kept for reuse, however many there are")
	a.Bool("auth-keepalive-share-vars", false, "has no effect: there are no variables of nginx to share")
	requests := a.IntBetween("auth-keepalive-requests", 1000, -1, 1<<31-1, "keeps no connection to the service where it is 0 or less; has no effect otherwise")
	seconds := a.IntBetween("auth-keepalive-timeout", int(usualIdle/time.Second), -1, 1<<31-1, "how many seconds a connection to the service is kept without use; none is kept where it is 0 or less")
	if requests <= 0 || seconds <= 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// noAuthLocations reads where nobody is asked who they are.
func (a *Annotations) noAuthLocations() []string {
	exempt := a.Config().List("no-auth-locations", "paths", "the beginnings of paths, as Ingresses have them, that external, basic and digest authentication do not hold for, so that lists of addresses alone guard them, if anything; "+challenges+" where the key is absent", nil)
	if exempt == nil {
		return []string{challenges}
	}
	return exempt
}

// exempts reports whether a path of an Ingress is among those that nobody is asked for who they are.
func exempts(beginnings []string, path string) bool {
	return slices.ContainsFunc(beginnings, func(beginning string) bool { return strings.HasPrefix(path, beginning) })
}

// forgiveKeys takes back that mistakes in keys deny the routes: the Ingress does not depend on them. They are told all the
// same, where the ConfigMap is read for itself.
func (a *Annotations) forgiveKeys(prefix string) {
	for i := range a.problems {
		if p := &a.problems[i]; p.Config && strings.HasPrefix(p.Annotation, prefix) {
			p.Denies = false
		}
	}
}

// identity is all that the service's answers depend on beside the request: another one begins with an empty memory.
func (s *authSetting) identity() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %v %q %v", s.url, s.method, s.cacheKey, s.durations, s.passed, s.told)
	if s.redirect != nil {
		fmt.Fprintf(&b, " redirect %q", s.redirect)
	}
	for _, f := range s.fields {
		fmt.Fprintf(&b, " %q: %q", f.name, f.text)
	}
	return b.String()
}

// authClient is who asks the service: the process's own, but where connections are to be kept for another time.
func (d *Draft) authClient(idle time.Duration) *authClient {
	if idle == usualIdle {
		return everyAuthClient
	}
	return Recall(d, fmt.Sprint("auth-keepalive-timeout ", idle), func() *authClient { return newAuthClient(idle) })
}
