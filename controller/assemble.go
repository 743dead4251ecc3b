package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sallyport/certs"
	"sallyport/proxy/stream"
	"sallyport/router"
)

// A host is what all Ingresses together make of one host name.
type host struct {
	name  string
	sites []*site

	routes   []*draft // that are in the table, in the order in which they were given
	fallback *draft
	problems []Problem // who did not get what they asked for
	inTable  bool

	wanted []string // further names that it asks for
	www    string   // its twin, if that is to lead here; "": it is not

	passage *stream.Service // to where its TLS connections are passed on; nil: their TLS ends here

	tls         bool        // the host has an entry for TLS: some Ingress with a rule for it has spec.tls
	secure      *certs.Host // how hands are shaken; nil: with the default certificate, and nothing beside
	tlsProblems []Problem
	order       *Order // nil: none
}

// older orders Ingresses by who comes first where two want the same (reference A1, step 4).
func older(a, b *translated) int {
	return cmp.Or(
		a.object.CreationTimestamp.Time.Compare(b.object.CreationTimestamp.Time),
		strings.Compare(b.source, a.source),
	)
}

// assemble decides which routes a host has, and says whether that changed anything in the table.
func (b *Builder) assemble(h *host) bool {
	slices.SortFunc(h.sites, func(a, b *site) int { return older(a.owner, b.owner) })
	h.problems = nil
	routes := h.winners()
	fallback := b.fallbackOf(h, routes)
	h.reportShared()

	h.form(routes, fallback, b.hasTLS(h.name))
	b.layCanaries(h, routes, fallback)
	sortRegex(routes)
	changed := !slices.Equal(routes, h.routes) || fallback != h.fallback
	for _, d := range append(slices.Clip(routes), fallback) {
		if d == nil {
			continue
		}
		d.build = b.builds
		changed = b.serve(d) || changed
		if d.fault != nil {
			h.problems = append(h.problems, *d.fault)
		}
	}
	for _, d := range append(slices.Clip(h.routes), h.fallback) {
		if d != nil && d.build != b.builds {
			b.retired = append(b.retired, d)
		}
	}
	h.routes, h.fallback = routes, fallback
	b.assemblePassage(h)
	return changed
}

// place is what makes two routes of one host the same: a trailing slash means nothing to a Prefix.
type place struct {
	kind router.PathType
	path string
}

func placeOf(m router.Match) place {
	if m.Type == router.Prefix {
		return place{m.Type, strings.TrimSuffix(m.Path, "/")}
	}
	return place{m.Type, m.Path}
}

// winners gives each path to the first that asks for it, and tells the others.
func (h *host) winners() []*draft {
	var routes []*draft
	taken := make(map[place]*draft)
	for _, s := range h.sites {
		for _, d := range s.drafts {
			winner := taken[placeOf(d.match)]
			if winner == nil {
				taken[placeOf(d.match)] = d
				routes = append(routes, d)
				continue
			}
			h.reportConflict(d, winner)
		}
	}
	return routes
}

func (h *host) reportConflict(d, winner *draft) {
	if d.owner == winner.owner {
		h.problem(Error, ReasonConflict, d.owner, d.field, "%s %q of %s is here twice; the first one, at %s, is served", d.match.Type, d.match.Path, hostText(h.name), winner.field)
		return
	}
	h.problem(Error, ReasonConflict, d.owner, d.field, "%s %q of %s belongs to Ingress %s, which %s; this one is not served", d.match.Type, d.match.Path, hostText(h.name), winner.owner.source, precedence(winner.owner, d.owner))
}

// precedence says why a comes before b.
func precedence(a, b *translated) string {
	if a.object.CreationTimestamp.Equal(&b.object.CreationTimestamp) {
		return "is as old and has the larger name"
	}
	return "is older"
}

func (h *host) problem(severity Severity, reason string, t *translated, field, format string, a ...any) {
	h.problems = append(h.problems, t.newProblem(severity, reason, field, format, a...))
}

func hostText(name string) string {
	if name == "" {
		return "any host"
	}
	return fmt.Sprintf("host %q", name)
}

// reportShared tells those who share a host with another namespace that they do.
func (h *host) reportShared() {
	for _, s := range h.sites {
		first := h.sites[0].owner
		if s.owner.key.Namespace != first.key.Namespace && !s.catchAll && !h.sites[0].catchAll {
			h.problem(Warning, ReasonSharedHost, s.owner, s.field+".host", "%s is also served by Ingress %s, of another namespace, which comes first", hostText(h.name), first.source)
		}
	}
}

// fallbackOf is what answers the paths of a host that no route takes. It is for the oldest Ingress of the host to say
// (reference A5 and A7); for hosts that nobody names, for the oldest that has a default backend and no rules.
func (b *Builder) fallbackOf(h *host, routes []*draft) *draft {
	root := slices.IndexFunc(routes, func(d *draft) bool { return placeOf(d.match) == place{router.Prefix, ""} })
	if root >= 0 {
		h.reportUnused(routes[root].owner, "has the path \"/\"")
		return nil // it takes every path
	}
	if first := slices.IndexFunc(h.sites, func(s *site) bool { return s.catchAll }); first >= 0 {
		h.reportUnused(h.sites[first].owner, "comes first")
		return h.sites[first].fallback
	}
	if len(h.sites) > 0 && (h.name != "" || h.sites[0].owner.backend != nil) {
		h.reportUnused(h.sites[0].owner, "comes first")
		if h.sites[0].fallback != nil {
			return h.sites[0].fallback
		}
	}
	for _, s := range h.sites {
		if foreign := s.owner.key.Namespace != h.sites[0].owner.key.Namespace; foreign && s.owner.features.Denied() {
			continue // nobody's paths but its own are closed for its mistakes
		}
		if s.owner.features.Host.Wraps() { // what it asks for is for every path, also for those that no route takes
			return s.bare
		}
	}
	if h.name == "" {
		return b.catchAll
	}
	return nil
}

// reportUnused tells Ingresses whose default backend answers nothing for this host because of another Ingress.
func (h *host) reportUnused(because *translated, why string) {
	for _, s := range h.sites {
		if s.owner.backend != nil && s.owner != because {
			where := hostText(h.name)
			if h.name == "" {
				where = "hosts that no rule names"
			}
			h.problem(Warning, ReasonConflict, s.owner, "spec.defaultBackend", "is not used for %s, because Ingress %s %s", where, because.source, why)
		}
	}
}
