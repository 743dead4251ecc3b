package controller

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"sallyport/proxy"
	"sallyport/proxy/feature"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// Canaries (reference A16). An Ingress that is a canary has no sites. Each of its paths is a canary, which is laid beside
// the route of its place while its host is assembled: same host, path and path type, of an Ingress of the same namespace.
// The route of another namespace is never touched: whoever may write an Ingress in one namespace could else take the
// requests of any other.
//
// What becomes of requests is for proxy/feature to say (canary.go there).

// A canary is one path of an Ingress that is a canary, or its default backend.
type canary struct {
	owner    *translated
	match    router.Match
	fallback bool   // of the default backend: it follows what answers where no path matches, and match is of the host
	field    string // of the path, or of the default backend
	backend  *backend
	pool     *upstream.Pool // nil: it leads nowhere, which has been told
}

// canaries are those of one host, whether anybody serves the host or not.
type canaries struct {
	all      []*canary
	problems []Problem
}

// A beside is a canary in its place.
type beside struct {
	*canary
	share float64 // of the requests that nothing else decides
}

// translateCanary makes the canaries of an Ingress that is one.
func (t *translation) translateCanary() {
	told := len(t.problems)
	if t.features.Denied() {
		t.problem(Error, ReasonCanaryUnused, "", "takes no requests until what is to guard it is mended, although on a canary such annotations do not count")
	}
	var rest *backend
	if b := t.object.Spec.DefaultBackend; b != nil && t.checkBackend(b, "spec.defaultBackend") {
		rest = t.translateBackend(b, "spec.defaultBackend")
	}
	if len(t.object.Spec.Rules) == 0 {
		if t.object.Spec.DefaultBackend == nil {
			t.problem(Error, ReasonMissingBackend, "spec", "has neither rules nor a defaultBackend; one of them is expected")
		}
		t.addRest("", rest)
	}
	for i := range t.object.Spec.Rules {
		t.translateCanaryRule(&t.object.Spec.Rules[i], fmt.Sprintf("spec.rules[%d]", i), rest)
	}
	for i := range t.problems[told:] {
		p := &t.problems[told+i]
		p.Message = strings.Replace(p.Message, answered503, "the canary takes no requests", 1)
	}
}

func (t *translation) translateCanaryRule(r *networkingv1.IngressRule, field string, rest *backend) {
	if r.Host != "" {
		if message := checkHost(r.Host); message != "" {
			t.problem(Error, ReasonInvalid, field+".host", "%q %s; the rule is not served", r.Host, message)
			return
		}
	}
	t.addRest(r.Host, rest)
	if r.HTTP == nil {
		if t.object.Spec.DefaultBackend == nil {
			t.problem(Warning, ReasonMissingBackend, field, "the rule for %q leads nowhere: it has no http and the Ingress no defaultBackend", r.Host)
		}
		return
	}
	if len(r.HTTP.Paths) == 0 {
		t.problem(Error, ReasonInvalid, field+".http.paths", "is empty; at least one path is expected")
	}
	for i := range r.HTTP.Paths {
		p, at := &r.HTTP.Paths[i], fmt.Sprintf("%s.http.paths[%d]", field, i)
		path, kind, ok := t.checkPath(p, at)
		if !t.checkBackend(&p.Backend, at+".backend") || !ok {
			continue
		}
		t.addCanary(&canary{
			match: router.Match{Host: r.Host, Path: path, Type: kind}, field: at + ".path", backend: t.translateBackend(&p.Backend, at+".backend"),
		})
	}
}

// addRest adds the default backend for a host, once.
func (t *translation) addRest(host string, rest *backend) {
	known := func(c *canary) bool { return c.fallback && c.match.Host == host }
	if rest != nil && !slices.ContainsFunc(t.canaries, known) {
		t.addCanary(&canary{match: router.Match{Host: host, Path: "/", Type: router.Prefix}, fallback: true, field: "spec.defaultBackend", backend: rest})
	}
}

func (t *translation) addCanary(c *canary) {
	c.owner = t.translated
	if c.backend.target.id != (upstream.ID{}) {
		c.pool = t.builder.options.Pools.Get(c.backend.target.id)
	}
	t.canaries = append(t.canaries, c)
}

// linkCanaries enters the canaries of an Ingress at their hosts.
func (b *Builder) linkCanaries(t *translated, w *work) {
	for _, c := range t.canaries {
		at := b.canaries[c.match.Host]
		if at == nil {
			at = new(canaries)
			b.canaries[c.match.Host] = at
		}
		at.all = append(at.all, c)
		w.canaries[c.match.Host] = struct{}{}
	}
}

// unlinkCanaries takes back what linkCanaries did.
func (b *Builder) unlinkCanaries(t *translated, w *work) {
	for _, gone := range t.canaries {
		at := b.canaries[gone.match.Host]
		at.all = slices.DeleteFunc(at.all, func(c *canary) bool { return c == gone })
		w.canaries[gone.match.Host] = struct{}{}
	}
}

// touchCanaries has the hosts assembled again whose canaries are others.
func (b *Builder) touchCanaries(w *work) {
	for name := range w.canaries {
		at := b.canaries[name]
		slices.SortStableFunc(at.all, func(a, b *canary) int { return older(a.owner, b.owner) })
		if len(at.all) == 0 {
			delete(b.canaries, name)
		}
		if b.hosts[name] != nil {
			w.dirty[name] = struct{}{}
			continue
		}
		at.problems = nil
		for _, c := range at.all {
			at.follows(c, name, nil, nil)
		}
	}
}

// layCanaries gives the routes of a host their canaries.
func (b *Builder) layCanaries(h *host, routes []*draft, fallback *draft) {
	at := b.canaries[h.name]
	if at == nil {
		return
	}
	at.problems = nil
	there := make(map[*draft][]*canary)
	for _, c := range at.all {
		if d := at.follows(c, h.name, routes, fallback); d != nil && at.fits(c, d, there[d]) {
			there[d] = append(there[d], c)
			at.reportTLS(c, b.hasTLS(h.name))
		}
	}
	for d, all := range there {
		at.share(d, all)
	}
}

// follows is the route in a canary's place. Nil: there is none for it, which is told.
func (at *canaries) follows(c *canary, host string, routes []*draft, fallback *draft) *draft {
	namespace := c.owner.key.Namespace
	if c.fallback {
		if fallback == nil || fallback.owner == nil || fallback.owner.backend == nil || fallback.owner.key.Namespace != namespace {
			at.unused(c, Error, "no default backend of namespace %q answers for %s, which this one could follow", namespace, hostText(host))
			return nil
		}
		return fallback
	}
	i := slices.IndexFunc(routes, func(d *draft) bool { return placeOf(d.match) == placeOf(c.match) })
	switch {
	case i < 0:
		at.unused(c, Error, "no Ingress of namespace %q has the %s %q of %s; a canary follows the route of another Ingress with the same host, path and path type%s",
			namespace, c.match.Type, c.match.Path, hostText(host), otherType(c, routes))
		return nil
	case routes[i].owner.key.Namespace != namespace:
		at.unused(c, Error, "%s %q of %s belongs to Ingress %s of another namespace, whose requests are not for this one to take", c.match.Type, c.match.Path, hostText(host), routes[i].owner.source)
		return nil
	}
	return routes[i]
}

// otherType points at a route that differs from the canary in its path type only.
func otherType(c *canary, routes []*draft) string {
	for _, d := range routes {
		if d.owner.key.Namespace == c.owner.key.Namespace && strings.TrimSuffix(d.match.Path, "/") == strings.TrimSuffix(c.match.Path, "/") {
			return fmt.Sprintf(" (Ingress %s has it as %s)", d.owner.source, d.match.Type)
		}
	}
	return ""
}

// fits says whether a canary can stand beside a route and the canaries that are there already, and tells if it cannot.
func (at *canaries) fits(c *canary, d *draft, there []*canary) bool {
	if c.pool == nil || c.owner.features.Denied() {
		return false // which has been told
	}
	if d.pool == nil {
		return false // the route leads to no Service, and its own Ingress is told
	}
	if c.pool == d.pool {
		at.unused(c, Warning, "leads to Service %q, port %q, as the route of Ingress %s does that it follows; there is nothing to choose", c.backend.service.Name, portText(c.backend.service.Port), d.owner.source)
		return false
	}
	if twice := slices.IndexFunc(there, func(o *canary) bool { return o.owner == c.owner }); twice >= 0 {
		at.problem(c, Error, ReasonConflict, c.field, "%s %q of %s is here twice; the first one, at %s, counts", c.match.Type, c.match.Path, hostText(c.match.Host), there[twice].field)
		return false
	}
	guarded := false
	for _, ignored := range c.owner.features.Canary.Ignored(d.owner.object.Annotations) {
		if ignored.Guards {
			guarded = true
			at.problem(c, Error, ReasonIgnoredAnnotation, annotationField(ignored.Key), "does not count on a canary, and Ingress %s, which it follows, has not the same; it is to guard, so the canary takes no requests rather than stand open", d.owner.source)
		} else {
			at.problem(c, Warning, ReasonIgnoredAnnotation, annotationField(ignored.Key), "does not count on a canary; what Ingress %s says, which it follows, holds for its requests", d.owner.source)
		}
	}
	return !guarded
}

// reportTLS tells of certificates that are not the canary's to show.
func (at *canaries) reportTLS(c *canary, hostTLS bool) {
	if len(c.owner.object.Spec.TLS) > 0 && !hostTLS {
		at.problem(c, Warning, ReasonCanaryUnused, "spec.tls", "does not count on a canary, and the Ingress it follows has none for %s", hostText(c.match.Host))
	}
}

// share divides the requests of a route among its canaries, which are in their order.
func (at *canaries) share(d *draft, all []*canary) {
	asking := make([]*feature.Canary, len(all))
	for i, c := range all {
		asking[i] = c.owner.features.Canary
	}
	shares, over := feature.Shares(asking)
	for i, c := range all {
		d.form.canaries = append(d.form.canaries, beside{c, shares[i]})
		if over >= 0 && i >= over && asking[i].Weight > 0 {
			at.problem(c, Error, ReasonBadAnnotation, annotationField(asking[i].Key("canary-weight")), "%d of %d is more than is left of the requests of Ingress %s for %s, path %q; it has %.4g%%",
				asking[i].Weight, asking[i].Total, d.owner.source, hostText(c.match.Host), c.match.Path, 100*shares[i])
		}
	}
}

func (at *canaries) unused(c *canary, severity Severity, format string, a ...any) {
	at.problem(c, severity, ReasonCanaryUnused, c.field, format+"; the canary takes no requests here", a...)
}

func (at *canaries) problem(c *canary, severity Severity, reason, field, format string, a ...any) {
	at.problems = append(at.problems, c.owner.newProblem(severity, reason, field, format, a...))
}

// split is what a draft's requests come to: its Service, or with canaries one of several. The canaries' observers are
// retained, and those of the handler before are released.
func (b *Builder) split(d *draft) (last http.Handler) {
	before := d.split
	d.split = nil
	last = d.last
	if len(d.form.canaries) > 0 {
		var sides []feature.Side
		for _, c := range d.form.canaries {
			info := *d.served
			info.Canaries, info.Canary = nil, c.name()
			if b.options.Retain != nil {
				info.Observer = b.options.Retain(&info)
			}
			d.split = append(d.split, &info)
			features := c.owner.features
			options := features.Canary.Upstream(d.owner.sending(c.backend.target), c.owner.sending(c.backend.target))
			sides = append(sides, feature.Side{
				Canary: features.Canary, Share: c.share, Info: &info, Pool: c.pool, Affinity: options.Affinity, Handler: upstream.New(c.pool, options),
			})
		}
		last = feature.Split(feature.Side{Info: d.served, Pool: d.pool, Affinity: d.owner.features.Upstream.Affinity, Handler: d.last}, sides)
	}
	b.release(before)
	return last
}

func (b *Builder) release(infos []*proxy.RouteInfo) {
	if b.options.Release == nil {
		return
	}
	for _, info := range infos {
		b.options.Release(info)
	}
}

// name is what log and metrics call the canary, as ingress-nginx does.
func (c *canary) name() string {
	return c.owner.key.Namespace + "-" + c.backend.service.Name + "-" + portText(c.backend.service.Port)
}

// canaryInfos are the canaries of a route as pages show them.
func (f routeForm) canaryInfos() []proxy.CanaryInfo {
	var all []proxy.CanaryInfo
	for _, c := range f.canaries {
		all = append(all, proxy.CanaryInfo{Ingress: c.owner.source, Service: c.backend.service.Name, Port: portText(c.backend.service.Port), Pool: c.backend.target.id.Port, Share: c.share})
	}
	return all
}

// canaryProblems are what is wrong with canaries of all hosts.
func (b *Builder) canaryProblems() (all []Problem) {
	for _, at := range b.canaries {
		all = append(all, at.problems...)
	}
	return all
}
