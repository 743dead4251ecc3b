package feature

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// Whom to ask is not for clients to say. With https://$host/oauth2/auth, in a rule that takes any host, the client that
// asks for evil.test would have evil.test asked whether it may pass; and behind a trusted proxy that lets X-Forwarded-Host
// pass, $http_host is the client's word even where the rule has a host.

var errHost = errors.New("the client would choose whom to ask: the host of the auth-url comes from the request, and it is none of the rule or of server-alias")

// chosen says which words of a client the host of a URL is made of.
type chosen struct {
	routed bool // the host by which the route was found
	asked  bool // the host that the client is said to have asked for
}

// chosenBy tries which of a request's hosts the host of a URL changes with. Where it cannot be told, both count.
func chosenBy(u *value.URL) chosen {
	if _, fixed := u.Authority(); fixed {
		return chosen{}
	}
	info := &proxy.RouteInfo{Namespace: "namespace", Ingress: "ingress", Service: "service", Port: "80", Host: "rule.invalid"}
	with := func(routed, asked string) string {
		e := &proxy.Exchange{Scheme: "http", Host: routed, Port: "80", Target: "/", Info: info}
		r := proxy.With(&http.Request{Method: http.MethodGet, Host: asked, Header: http.Header{}}, e)
		text, err := u.Expand(r, nil)
		if err != nil {
			return routed + asked
		}
		_, text, _ = strings.Cut(text, "://")
		if end := strings.IndexAny(text, "/?#"); end >= 0 {
			text = text[:end]
		}
		return text
	}
	usual := with("a.invalid", "c.invalid")
	return chosen{routed: with("b.invalid", "c.invalid") != usual, asked: with("a.invalid", "d.invalid") != usual}
}

// checkHost returns an error where a client has chosen whom to ask.
func (g *authGuard) checkHost(r *http.Request, e *proxy.Exchange) error {
	if g.chosen.routed && !g.isOurs(e, e.Host) {
		return errHost
	}
	if g.chosen.asked {
		if host, ok := proxy.NormalHost(r.Host); !ok || !g.isOurs(e, host) {
			return errHost
		}
	}
	return nil
}

// isOurs reports whether a host is one that the rule, or server-alias, names. What a regular expression takes is not: one
// that is not anchored takes names of anybody's.
func (g *authGuard) isOurs(e *proxy.Exchange, host string) bool {
	is := func(name string) bool {
		if suffix, wild := strings.CutPrefix(name, "*"); wild {
			label, ok := strings.CutSuffix(host, suffix)
			return ok && label != "" && !strings.Contains(label, ".")
		}
		return name == host
	}
	return host != "" && e.Route != nil && (e.Route.Host != "" && is(e.Route.Host) || slices.ContainsFunc(g.draft.Host.Aliases, is))
}
