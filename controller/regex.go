package controller

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"sallyport/proxy/feature/pattern"
	"sallyport/router"
)

// Regular expressions spread (reference A4.2): one path of a host that asks for them makes every path of the host one,
// Exact and Prefix included, among the Ingresses of its namespace. Those of other namespaces stay as they are.

// form decides what becomes of the routes of a host beyond what their own Ingresses say.
func (h *host) form(routes []*draft, fallback *draft, hostTLS bool) {
	regexBy := make(map[string]*translated) // by namespace
	for _, d := range routes {
		if namespace := d.info.Namespace; regexBy[namespace] == nil && d.owner.features.SpreadsRegex(d.match.Path) {
			regexBy[namespace] = d.owner
		}
	}
	var hosts []*translated
	for _, s := range h.sites {
		if s.owner.features.Host.Wraps() && !slices.Contains(hosts, s.owner) {
			hosts = append(hosts, s.owner)
		}
	}
	for _, d := range routes {
		d.form = routeForm{hostTLS: hostTLS, match: d.match, hosts: hosts}
		if by := regexBy[d.info.Namespace]; by != nil {
			d.form.regexBy = by
			d.form.match = h.regexMatch(d, by)
		}
	}
	if fallback != nil {
		fallback.form = routeForm{hostTLS: hostTLS, match: fallback.match, hosts: hosts}
	}
	h.formClients(routes, fallback)
}

// regexMatch is the match of a route whose path is a regular expression because of an Ingress. A path that is none, of an
// Ingress that did not ask for it, is what its author wrote.
func (h *host) regexMatch(d *draft, by *translated) router.Match {
	match := router.Match{Host: d.match.Host, Path: d.match.Path, Type: router.Regex}
	if d.refused {
		match.Path = regexp.QuoteMeta(beginning(match.Path))
		return match
	}
	if err := pattern.Diagnose(match.Path); err != nil {
		match.Path = regexp.QuoteMeta(match.Path)
		h.problem(Warning, ReasonPathAsText, d.owner, d.field, "%q is compared as text although Ingress %s makes the paths of %s regular expressions: %v", d.match.Path, by.source, hostText(h.name), err)
	}
	if rest, ok := strings.CutSuffix(match.Path, "/"); ok && d.match.Type == router.Prefix && rest != "" && regexp.QuoteMeta(rest) == rest {
		match.Path = rest + "(?:/|$)" // a Prefix takes its path without the slash too
	}
	return match
}

// beginning is the text that every match of an expression begins with, as far as its author wrote it plainly: an
// expression that cannot be read closes what lies below it.
func beginning(path string) string {
	plain := strings.IndexAny(path, `\.+*?()|[]{}^$`)
	if plain < 0 {
		return path
	}
	return path[:strings.LastIndexByte(path[:plain], '/')+1]
}

// sortRegex puts the regular expressions in the order in which they are tried: the longest text first, of two with one
// length the one that comes later in the alphabet.
func sortRegex(routes []*draft) {
	slices.SortStableFunc(routes, func(a, b *draft) int {
		if a.form.regexBy == nil || b.form.regexBy == nil {
			return cmp.Compare(regexOrder(a), regexOrder(b))
		}
		return cmp.Or(cmp.Compare(len(b.match.Path), len(a.match.Path)), cmp.Compare(b.match.Path, a.match.Path))
	})
}

// regexOrder puts regular expressions behind all others, whose order means nothing.
func regexOrder(d *draft) int {
	if d.form.regexBy != nil {
		return 1
	}
	return 0
}
