package feature

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
		var meant string
		p.Reason, p.Message, meant = explain(name)
		if strings.Contains(name, "-snippet") {
			p.Message += snippetAdvice(p.Value)
			p.Denies = snippetGuards(p.Value)
		}
		if p.Denies || guards(name) || guards(meant) {
			p.Denies, p.Message = true, p.Message+closed
		}
		a.problems = append(a.problems, p)
	}
}

// explain says why nothing reads a name, and what to do about it; meant is the name that somebody who made a slip had in
// mind, "" when there is none near.
func explain(name string) (why Reason, message, meant string) {
	switch {
	case strings.HasSuffix(name, "-snippet"), strings.HasSuffix(name, "-snippets"):
		return Unsupported, snippetsRefused, ""
	case slices.Contains(nginxNames, name):
		return Unsupported, "this annotation of ingress-nginx is not supported yet", ""
	}
	if instead := replacement(name); instead != "" {
		return UnknownName, "ingress-nginx does not know this name; " + instead, ""
	}
	if meant = spelling.Nearest(name, slices.Values(knownNames())); meant != "" {
		return UnknownName, fmt.Sprintf("no annotation has this name (did you mean %s?)", meant), meant
	}
	return UnknownName, "no annotation has this name", ""
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

// knownNames are those that somebody may have had in mind.
func knownNames() []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, name := range nginxNames {
			if !yield(name) {
				return
			}
		}
		for name := range annotationNames() {
			if !yield(name) {
				return
			}
		}
	}))
}

// closed ends the message of a problem that denies.
const closed = "; it is to guard the routes of this Ingress, so they answer 503 rather than stand open"

// closedByConfig is that for a key of the ConfigMap.
const closedByConfig = "; it is to guard routes, so those that depend on it answer 503 rather than stand open"

// guardFamilies begin the names of annotations that keep clients out, and those that somebody might write for one.
var guardFamilies = []string{
	"auth-", "allowlist-", "whitelist-", "denylist-", "blacklist-", "blocklist-",
	"limit-", "rate-limit", "global-rate-limit",
}

// configGuards reports whether a key of the ConfigMap keeps clients out of every route that depends on it.
func configGuards(key string) bool {
	return strings.HasSuffix(key, "list-source-range") || strings.HasPrefix(key, "block-") || strings.HasPrefix(key, "global-auth-")
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
		why, message := a.explainKey(key)
		if message == "" || a.in.Config.values[key] == "" {
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
