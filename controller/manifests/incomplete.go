package manifests

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"

	"sallyport/controller"
)

// A file that was written by half is often still YAML: cut behind "port:" it decodes into an Ingress with a backend that
// leads nowhere. So an Ingress that lacks what an API server demands does not replace one that had everything; it is
// served as far as it goes where there is no other. What cannot be told from a whole file is one that was cut between two
// objects, two rules or two paths.

// lacking are the problems of an Ingress that lacks something an API server demands.
func lacking(e *entry) []controller.Problem {
	ingress, ok := e.made[0].(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	l := &lack{e: e}
	spec := &ingress.Spec
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		l.add(controller.ReasonMissingBackend, "spec", "has neither rules nor a defaultBackend; one of them is expected")
	}
	if spec.DefaultBackend != nil {
		l.backend("spec.defaultBackend", spec.DefaultBackend)
	}
	for i := range spec.Rules {
		l.rule(fmt.Sprintf("spec.rules[%d]", i), &spec.Rules[i])
	}
	return l.problems
}

type lack struct {
	e        *entry
	problems []controller.Problem
}

func (l *lack) add(reason, path, message string) {
	p := controller.Problem{Object: l.e.ref, Severity: controller.Error, Reason: reason, Field: path, Message: message, File: l.e.file}
	if isOld(l.e) {
		p.Field = oldWords.Replace(path)
	}
	p.Line = lineOf(l.e, p.Field)
	l.problems = append(l.problems, p)
}

func (l *lack) rule(path string, r *networkingv1.IngressRule) {
	if r.HTTP == nil {
		// An API server takes a rule without http, but hardly anybody writes the word and nothing behind it.
		if wanted := steps(path + ".http"); l.has(wanted) {
			l.add(controller.ReasonInvalid, path+".http", "is empty; paths are expected")
		}
		return
	}
	if len(r.HTTP.Paths) == 0 {
		l.add(controller.ReasonInvalid, path+".http.paths", "is empty; at least one path is expected")
	}
	for i := range r.HTTP.Paths {
		p, at := &r.HTTP.Paths[i], fmt.Sprintf("%s.http.paths[%d]", path, i)
		switch {
		case p.PathType == nil:
			l.add(controller.ReasonInvalid, at+".pathType", "is missing; Prefix, Exact or ImplementationSpecific is expected")
		case p.Path == "" && *p.PathType != networkingv1.PathTypeImplementationSpecific:
			l.add(controller.ReasonInvalid, at+".path", "is missing; a path that begins with '/' is expected")
		}
		l.backend(at+".backend", &p.Backend)
	}
}

func (l *lack) backend(path string, b *networkingv1.IngressBackend) {
	switch {
	case b.Service == nil && b.Resource == nil:
		l.add(controller.ReasonMissingBackend, path, "names no service; service.name and service.port are expected")
	case b.Service == nil:
	case b.Service.Name == "":
		l.add(controller.ReasonMissingBackend, path+".service.name", "is missing; the name of a Service is expected")
	case b.Service.Port == networkingv1.ServiceBackendPort{}:
		l.add(controller.ReasonMissingBackend, path+".service.port", "is missing; the number or name of a port of the Service is expected")
	}
}

// has says whether a field is written in the manifest, be it without a value.
func (l *lack) has(path []string) bool {
	_, _, taken := follow(l.e.root, path)
	return taken == len(path)
}
