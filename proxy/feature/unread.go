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
// ingress-nginx that we do not have, or had another name once, or is a slip.
func (a *Annotations) reportUnread() {
	for _, key := range slices.Sorted(maps.Keys(a.values)) {
		name, ok := nameOf(key)
		if !ok || a.declares(name) {
			continue
		}
		p := Problem{Annotation: key, Value: a.values[key]}
		p.Reason, p.Message = a.explain(name)
		if p.Reason == Unsupported && guards(name) {
			p.Denies, p.Message = true, p.Message+closed
		}
		a.problems = append(a.problems, p)
	}
}

// explain says why nothing reads a name, and what to do about it.
func (a *Annotations) explain(name string) (Reason, string) {
	instead := replacement(name)
	switch {
	case strings.HasSuffix(name, "-snippet"), strings.HasSuffix(name, "-snippets"):
		return Unsupported, snippetsRefused
	case instead != "":
		return UnknownName, "ingress-nginx does not know this name; " + instead
	case slices.Contains(nginxNames, name):
		return Unsupported, "this annotation of ingress-nginx is not supported yet"
	}
	if near := spelling.Nearest(name, slices.Values(a.known())); near != "" {
		return UnknownName, fmt.Sprintf("no annotation has this name; did you mean %s?", near)
	}
	return UnknownName, "no annotation has this name"
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

func (a *Annotations) declares(name string) bool {
	return slices.ContainsFunc(a.declared, func(d Declaration) bool { return d.Name == name })
}

func (a *Annotations) known() []string {
	names := slices.Clone(nginxNames)
	for _, d := range a.declared {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

// closed ends the message of a problem that denies.
const closed = "; it guards the routes of this Ingress, so they answer 503 rather than stand open"

// guards reports whether an annotation keeps clients out: without it the route would stand open.
func guards(name string) bool {
	if name == "satisfy" || name == "enable-global-auth" {
		return true
	}
	for _, family := range []string{"auth-", "allowlist-", "whitelist-", "denylist-", "limit-"} {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return false
}
