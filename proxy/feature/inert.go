package feature

import "slices"

// Annotations that say more of a guard than there is. By itself none of them keeps anybody out, so the routes stand as
// they are, which is open unless something else guards them; but whoever wrote one may believe otherwise, and is told.

// inert are such annotations, and what they need beside them: any one of the names.
var inert = []struct{ names, needs []string }{
	{[]string{
		"auth-method", "auth-signin", "auth-signin-redirect-param", "auth-response-headers", "auth-request-redirect", "auth-cache-key",
		"auth-cache-duration", "auth-always-set-cookie", "auth-proxy-set-headers",
	}, []string{"auth-url"}},
	{[]string{"auth-secret-type", "auth-realm"}, []string{"auth-type"}},
	{[]string{"auth-tls-verify-depth", "auth-tls-error-page", "auth-tls-pass-certificate-to-upstream"}, []string{"auth-tls-secret"}},
	{[]string{announceName}, []string{passthroughName}},
	{[]string{"limit-burst-multiplier"}, []string{"limit-rps", "limit-rpm"}},
	{[]string{"limit-allowlist", "limit-whitelist"}, []string{"limit-rps", "limit-rpm", "limit-connections"}},
}

// reportInert tells of annotations that do nothing for want of others. It comes behind the features, which have said what
// is wrong with them otherwise: once is enough.
func (a *Annotations) reportInert(d *Draft) {
	for _, of := range inert {
		if slices.ContainsFunc(of.needs, a.Has) {
			continue
		}
		message := "it does nothing without " + alternatives(of.needs)
		if slices.Contains(of.needs, "auth-url") && a.in.Config.value("global-auth-url") != "" {
			message += ": beside global-auth-url in the ConfigMap there are keys of its own"
		}
		for _, name := range of.names {
			a.remarkInert(name, message)
		}
	}
	if d.satisfyAny && !d.Guards() {
		a.remarkInert("satisfy", "it does nothing where there is no check: no list of addresses, no auth-url or global-auth-url, and no auth-type")
	}
}

func (a *Annotations) remarkInert(name, message string) {
	key, _, _ := a.find(name)
	if !slices.ContainsFunc(a.problems, func(p Problem) bool { return p.Annotation == key }) {
		if key, value, ok := a.find(name); ok {
			a.problems = append(a.problems, Problem{Annotation: key, Value: value, Reason: Inert, Message: shown(value) + ": " + message})
		}
	}
}
