package controller

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"

	"sallyport/proxy"
	"sallyport/proxy/feature"
	"sallyport/proxy/feature/pattern"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A translated is one Ingress, made ready for the table as if there were no other. It is kept from build to build while
// the Ingress and what its backends lead to stay the same.
type translated struct {
	key    Key
	source string // key, as routes show it
	object *networkingv1.Ingress
	choice choice // whether it is ours; all below is empty when it is not

	problems []Problem
	features *feature.Draft
	sites    []*site
	canaries []*canary // with them it has no sites
	backend  *backend  // spec.defaultBackend; nil: none
	targets  []wanted  // what its backends lead to
	config   *feature.Config
	reads    []reading // what its annotations name

	tls      []tlsEntry
	tlsFacts []Problem // about the Secrets of tls: they change without a translation
}

// A site is what one Ingress wants of one host.
type site struct {
	owner    *translated
	host     string
	field    string // of the first rule
	drafts   []*draft
	bare     *draft // 404 with what the Ingress asks for the host around it; nil: it asks for nothing
	fallback *draft // what answers where no path matches, if that is for this Ingress to say; nil: the front's 404
	catchAll bool   // of an Ingress without rules: its default backend answers for every host that nobody names
}

// A backend is a valid backend.
type backend struct {
	service *networkingv1.IngressServiceBackend // nil: a resource
	target  target
}

// A wanted is a Service and port that an Ingress names, and where that led when it was translated. One without a port is
// named by an annotation.
type wanted = backend

func (b *backend) annotated() bool { return b.service.Port == networkingv1.ServiceBackendPort{} }

// A translation is the making of a translated.
type translation struct {
	*translated
	builder  *Builder
	snapshot *Snapshot
}

// translate makes the routes of one Ingress. Nothing that can stand in an Ingress may panic; should it happen still, it
// costs that Ingress and no other.
// What the features of its last version, which may be nil, have learned, goes on.
func (b *Builder) translate(s *Snapshot, ingress *networkingv1.Ingress, c choice, last *translated) (t *translated) {
	defer func() {
		if fault := recover(); fault != nil {
			t = newTranslated(ingress, choice{})
			t.problems = []Problem{faultOf(ingressRef(ingress), fault)}
		}
	}()
	t = newTranslated(ingress, c)
	if c.problem != (Problem{}) {
		t.problems = append(t.problems, c.problem)
	}
	if !c.ours {
		return t
	}
	w := &translation{t, b, s}
	if b.options.DisableCatchAll && ingress.Spec.DefaultBackend != nil {
		w.problem(Warning, ReasonCatchAllDisabled, "spec.defaultBackend", "is not allowed here (--disable-catch-all), so the Ingress is not served")
		return t
	}
	w.translateAnnotations(last)
	if w.features.Canary != nil {
		w.translateCanary()
		return t
	}
	w.translateDefaultBackend()
	for i := range ingress.Spec.Rules {
		w.translateRule(&ingress.Spec.Rules[i], fmt.Sprintf("spec.rules[%d]", i))
	}
	w.translateTLS()
	return t
}

func newTranslated(ingress *networkingv1.Ingress, c choice) *translated {
	key := keyOf(ingress)
	return &translated{key: key, source: key.String(), object: ingress, choice: c}
}

// faultOf is the problem that a panic becomes.
func faultOf(object Ref, fault any) Problem {
	return Problem{Object: object, Severity: Error, Reason: ReasonInternal,
		Message: fmt.Sprintf("is not served because of a fault of ours, please report it: %v", fault)}
}

// problem reports one of the Ingress.
func (t *translated) problem(severity Severity, reason, field, format string, a ...any) {
	t.problems = append(t.problems, t.newProblem(severity, reason, field, format, a...))
}

func (t *translated) newProblem(severity Severity, reason, field, format string, a ...any) Problem {
	return Problem{Object: Ref{"Ingress", t.key.Namespace, t.key.Name}, Severity: severity, Reason: reason, Field: field, Message: fmt.Sprintf(format, a...)}
}

func (t *translation) translateAnnotations(last *translated) {
	in := feature.Input{
		Namespace: t.key.Namespace, Name: t.key.Name,
		Annotations: t.object.Annotations, Settings: t.builder.options.Settings,
		Config: t.builder.config, Objects: lookup{t},
	}
	if last != nil && last.features != nil && last.object.UID == t.object.UID {
		in.Memory = last.features.Memory()
	}
	draft, problems := feature.Parse(in)
	t.features, t.config = draft, t.builder.config
	for _, p := range problems {
		t.problems = append(t.problems, t.annotationProblem(p))
	}
}

func (t *translation) translateDefaultBackend() {
	b := t.object.Spec.DefaultBackend
	switch {
	case b == nil && len(t.object.Spec.Rules) == 0:
		t.problem(Error, ReasonMissingBackend, "spec", "has neither rules nor a defaultBackend; one of them is expected")
	case b != nil && t.checkBackend(b, "spec.defaultBackend"):
		t.backend = t.translateBackend(b, "spec.defaultBackend")
		if len(t.object.Spec.Rules) == 0 {
			t.site("", "spec.defaultBackend").catchAll = true
		}
	}
}

// site returns what the Ingress wants of a host, empty at first.
func (t *translation) site(host, field string) *site {
	for _, s := range t.sites {
		if s.host == host {
			return s
		}
	}
	s := &site{owner: t.translated, host: host, field: field}
	match := router.Match{Host: host, Path: "/", Type: router.Prefix}
	switch {
	case t.backend != nil:
		s.fallback = t.newDraft(match, "spec.defaultBackend", t.backend)
	case t.builder.options.DefaultBackend != (Key{}):
		s.fallback = t.newDraft(match, field, nil)
	}
	if t.features.Host.Wraps() {
		s.bare = t.newDraft(match, field, nil)
	}
	t.sites = append(t.sites, s)
	return s
}

func (t *translation) translateRule(r *networkingv1.IngressRule, field string) {
	if r.Host != "" {
		if message := checkHost(r.Host); message != "" {
			t.problem(Error, ReasonInvalid, field+".host", "%q %s; the rule is not served", r.Host, message)
			return
		}
	}
	site := t.site(r.Host, field)
	if r.HTTP == nil {
		t.checkIdleRule(site, r, field)
		return // the host is ours, and every path of it is for the default backend
	}
	if len(r.HTTP.Paths) == 0 {
		t.problem(Error, ReasonInvalid, field+".http.paths", "is empty; at least one path is expected")
	}
	for i := range r.HTTP.Paths {
		t.translatePath(site, &r.HTTP.Paths[i], field+".http.paths["+strconv.Itoa(i)+"]")
	}
}

// checkIdleRule tells of a rule without paths where there is no default backend either: the API allows it.
func (t *translation) checkIdleRule(site *site, r *networkingv1.IngressRule, field string) {
	if site.fallback != nil || t.object.Spec.DefaultBackend != nil {
		return // there is one, or what is wrong with it has been told
	}
	if r.Host != "" {
		field += ".host"
	}
	t.problem(Warning, ReasonMissingBackend, field, "the rule for %q leads nowhere: it has no http and the Ingress no defaultBackend, so what no other rule takes is answered 404; write http.paths with a backend, or spec.defaultBackend", r.Host)
}

func (t *translation) translatePath(site *site, p *networkingv1.HTTPIngressPath, field string) {
	path, kind, ok := t.checkPath(p, field)
	usable := t.checkBackend(&p.Backend, field+".backend")
	if !ok {
		return
	}
	if t.features.SpreadsRegex(path) {
		if err := pattern.Diagnose(path); err != nil {
			t.refusePattern(site, router.Match{Host: site.host, Path: path, Type: kind}, field, err)
			return
		}
	}
	match := router.Match{Host: site.host, Path: path, Type: kind}
	var b *backend
	if usable {
		b = t.translateBackend(&p.Backend, field+".backend")
	}
	d := t.newDraft(match, field+".path", b)
	if !usable { // no other path may take its requests
		d.last = failure{http.StatusServiceUnavailable, proxy.NoService}
	}
	site.drafts = append(site.drafts, d)
}

// refusePattern tells that a path is no expression that can be used. Where the Ingress keeps clients out, what the path may
// have taken answers 503, lest another route opens it.
func (t *translation) refusePattern(site *site, match router.Match, field string, err error) {
	if !t.features.Guards() {
		t.problem(Error, ReasonInvalid, field+".path", "%q is to be a regular expression: %v; the path is not served", match.Path, err)
		return
	}
	t.problem(Error, ReasonInvalid, field+".path", "%q is to be a regular expression: %v; the Ingress guards its paths, so what begins with %q is answered 503", match.Path, err, beginning(match.Path))
	d := t.newDraft(match, field+".path", nil)
	d.refused, d.last = true, failure{http.StatusServiceUnavailable, proxy.Denied}
	site.drafts = append(site.drafts, d)
}

// translateBackend finds out where a valid backend leads.
func (t *translation) translateBackend(b *networkingv1.IngressBackend, field string) *backend {
	if b.Service == nil {
		return &backend{}
	}
	target := t.lead(t.builder, t.snapshot, b.Service)
	if target.reason != "" {
		t.problem(target.severity, target.reason, field+".service."+target.field, "%s", target.message)
	}
	if target.unspoken != "" && !t.features.ProtocolGiven {
		t.problem(Warning, ReasonUnknownProtocol, field+".service."+portField(b.Service.Port), "the appProtocol of this port of Service %q is %q, which is not spoken here; HTTP/1.1 is", b.Service.Name, target.unspoken)
	}
	t.targets = append(t.targets, wanted{b.Service, target})
	return &backend{b.Service, target}
}

// lead finds the pool of a valid backend of the Ingress.
func (t *translated) lead(b *Builder, s *Snapshot, service *networkingv1.IngressServiceBackend) target {
	to := b.options.resolve(s, t.key.Namespace, service)
	if t.features.ServiceUpstream && service.Port != (networkingv1.ServiceBackendPort{}) {
		to = b.options.through(s, to)
	}
	return to
}

// newDraft makes the draft of a route of this Ingress. Without a backend it leads to the default one of the process.
func (t *translation) newDraft(match router.Match, field string, b *backend) *draft {
	d := &draft{match: match, owner: t.translated, field: field}
	d.info = proxy.RouteInfo{Namespace: t.key.Namespace, Ingress: t.key.Name, Host: match.Host, Path: match.Path, Field: field, NoLog: t.features.NoLog}
	switch {
	case b == nil || b.service == nil:
		d.last = &t.builder.unrouted
		return d
	case b.target.id == (upstream.ID{}):
		d.last = failure{http.StatusServiceUnavailable, proxy.NoService}
	default:
		d.pool = t.builder.options.Pools.Get(b.target.id)
		options := t.sending(b.target)
		d.protocol, d.last = options.Protocol, upstream.New(d.pool, options)
	}
	d.info.Service, d.info.Port, d.info.Pool = b.service.Name, portText(b.service.Port), b.target.id.Port
	return d
}

// unchanged says whether translating the Ingress again would come to the same: the Ingress is the same where it matters,
// which its status and labels do not, its backends lead where they led, and what its annotations name is what it was.
func (t *translated) unchanged(b *Builder, s *Snapshot, ingress *networkingv1.Ingress, c choice) bool {
	if t.choice != c || t.config != b.config && c.ours || t.object != ingress && !sameIngress(t.object, ingress) {
		return false
	}
	for _, r := range t.reads {
		if s.Object(r.ref) != r.version {
			return false
		}
	}
	for _, w := range t.targets {
		if t.lead(b, s, w.service) != w.target {
			return false
		}
	}
	return true
}

func sameIngress(a, b *networkingv1.Ingress) bool {
	return a.CreationTimestamp.Equal(&b.CreationTimestamp) && maps.Equal(a.Annotations, b.Annotations) && reflect.DeepEqual(a.Spec, b.Spec)
}
