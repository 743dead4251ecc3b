package feature

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sallyport/spelling"
)

// snippetsRefused is why no annotation that ends in -snippet is ever read.
const snippetsRefused = "snippets of nginx configuration are refused: Sallyport has no configuration text to put them in, and whoever may write one could read every Secret of the cluster"

// reportUnread makes a Problem of every annotation under our prefixes that no feature has read: it is one of
// ingress-nginx that we do not have, or had another name once, or is a slip. One that guards the routes denies, and so does
// a slip in the name of one: whoever wrote auth-ulr believes that nobody gets in without a password.
func (a *Annotations) reportUnread() {
	for _, key := range slices.Sorted(maps.Keys(a.in.Annotations)) {
		name, ok := nameOf(key)
		if !ok || annotationNames()[name] {
			continue
		}
		p := Problem{Annotation: key, Value: a.in.Annotations[key]}
		p.Reason, p.Message, p.Denies = explain(name)
		if strings.Contains(name, "-snippet") {
			p.Message += snippetAdvice(name, p.Value)
			p.Denies = p.Denies || snippetGuards(p.Value)
		}
		if p.Denies {
			p.Message += closedBy(name)
		}
		a.problems = append(a.problems, p)
	}
}

// explain says why nothing reads a name, and what to do about it; guarding is whether somebody who wrote it believes that
// it keeps clients out.
func explain(name string) (why Reason, message string, guarding bool) {
	switch {
	case strings.HasSuffix(name, "-snippet"), strings.HasSuffix(name, "-snippets"):
		return Unsupported, snippetsRefused, guards(name)
	case slices.Contains(nginxNames, name):
		return Unsupported, "this annotation of ingress-nginx is not supported yet", guards(name)
	case configKeys()[name]:
		return UnknownName, "it is no annotation, but a key of the ConfigMap", configGuards(name)
	}
	if r := replacementOf(name); r != nil {
		return UnknownName, "ingress-nginx ignores this name; " + r.instead, guards(name) && !r.whole
	}
	meant := spelling.Nearest(name, slices.Values(knownNames()))
	if meant == "" {
		return UnknownName, "no annotation has this name", guards(name)
	}
	hint, meansGuard := meant, guards(meant)
	if !annotationNames()[meant] && !slices.Contains(nginxNames, meant) {
		hint, meansGuard = meant+", a key of the ConfigMap", configGuards(meant)
	}
	// A suggestion may be wrong at no cost; a route that is closed for a name that only looks like a guard's is dark.
	meansGuard = meansGuard && spelling.Slips(name, meant) <= 3
	return UnknownName, fmt.Sprintf("no annotation has this name (did you mean %s?)", hint), guards(name) || meansGuard
}

// nameOf cuts our prefixes off an annotation's full name.
func nameOf(key string) (name string, ok bool) {
	for _, prefix := range prefixes {
		if name, ok = strings.CutPrefix(key, prefix); ok {
			return name, true
		}
	}
	return "", false
}

// knownNames are those that somebody may have had in mind: of annotations, and behind them of keys.
var knownNames = sync.OnceValue(func() []string {
	names := slices.Concat(nginxNames, slices.Sorted(maps.Keys(annotationNames())))
	return append(names, slices.Sorted(maps.Keys(configKeys()))...)
})

// closed ends the message of a problem that denies.
const closed = "; it is to guard the routes of this Ingress, so they answer 503 rather than stand open"

// closedBy is that for an annotation: what clients' certificates guard are hosts.
func closedBy(name string) string {
	if asksClients(name) {
		return "; it is to guard the hosts of this Ingress, so they answer 403, whichever Ingress a path is from, rather than stand open"
	}
	return closed
}

// closedByConfig is that for a key of the ConfigMap.
const closedByConfig = "; it is to guard routes, so those that depend on it answer 503 rather than stand open"

// guardFamilies begin the names of annotations that keep clients out, and those that somebody might write for one.
var guardFamilies = []string{
	"auth-", "allowlist-", "whitelist-", "denylist-", "blacklist-", "blocklist-",
	"limit-",
}

// configGuards reports whether a key of the ConfigMap keeps clients out of every route that depends on it.
func configGuards(key string) bool {
	return strings.HasSuffix(key, "list-source-range") || strings.HasPrefix(key, "block-") || strings.HasPrefix(key, "global-auth-") ||
		key == "annotation-value-word-blocklist"
}

// guards reports whether an annotation, by its name, keeps clients out: without it the route would stand open. It need not
// be one that exists.
func guards(name string) bool {
	name = strings.ToLower(name)
	return name == "satisfy" || name == "enable-global-auth" ||
		slices.ContainsFunc(guardFamilies, func(family string) bool { return strings.HasPrefix(name, family) })
}

// reportUnreadKeys makes a Problem of every key of the ConfigMap that no feature has read.
func (a *Annotations) reportUnreadKeys() {
	for _, key := range slices.Sorted(maps.Keys(a.in.Config.values)) {
		if slices.ContainsFunc(a.declared, func(d Declaration) bool { return d.Key && d.Name == key }) {
			continue
		}
		value := strings.TrimSpace(a.in.Config.values[key])
		why, message := a.explainKey(key, value)
		if message == "" || value == "" {
			continue
		}
		p := Problem{Annotation: key, Value: a.in.Config.values[key], Config: true, Reason: why, Message: message}
		if configGuards(key) || why == UnknownName && a.nearGuard(key) {
			p.Denies, p.Message = true, p.Message+closedByConfig
		}
		a.problems = append(a.problems, p)
	}
}

// nearGuard reports whether somebody who wrote a key may have meant one that keeps clients out.
func (a *Annotations) nearGuard(key string) bool {
	return configGuards(spelling.Nearest(key, a.keys()))
}
