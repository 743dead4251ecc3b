package manifests

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"sallyport/controller"
)

// Locate fills in the file and line of a problem found in building, from its object and field: the line of the field
// or, where it is not written, of the longest part of the path that is. Field and object are put in the words of the
// manifest, which may be an older API version, or Endpoints instead of the slices made of them.
//
// A problem with an object that is in no file stays as it is.
func (f *Folder) Locate(p *controller.Problem) {
	e := f.origin(p)
	if e == nil {
		return
	}
	p.Object = e.ref
	if strings.HasSuffix(e.version, "/v1beta1") && e.ref.Kind == "Ingress" {
		p.Field = oldWords.Replace(p.Field)
	}
	p.File, p.Line = e.file, lineOf(e, p.Field)
}

// oldWords puts a path of networking.k8s.io/v1 in the words of the versions before. A path of the new version never
// contains the old words.
var oldWords = strings.NewReplacer(
	"spec.defaultBackend", "spec.backend",
	".service.name", ".serviceName",
	".service.port.number", ".servicePort",
	".service.port.name", ".servicePort",
	".service.port", ".servicePort",
	".service", "",
)

// origin is the entry a problem is about; nil when there is none.
func (f *Folder) origin(p *controller.Problem) *entry {
	if e := f.served[p.Object]; e != nil {
		return e
	}
	if p.Object.Kind != "EndpointSlice" {
		return nil
	}
	at := strings.LastIndex(p.Object.Name, mirrorName)
	if at < 0 {
		return nil
	}
	e := f.served[controller.Ref{Kind: "Endpoints", Namespace: p.Object.Namespace, Name: p.Object.Name[:at]}]
	if e != nil {
		p.Field = placeInEndpoints(e, p.Object.Name, p.Field)
	}
	return e
}

// placeInEndpoints is where in an Endpoints object a field of a slice made of it is written; "" when nowhere.
func placeInEndpoints(e *entry, slice, field string) string {
	endpoints, ok := e.from.(*corev1.Endpoints)
	path := steps(field)
	if !ok || len(path) < 2 || path[0] != "endpoints" {
		return ""
	}
	for _, m := range mirrors(endpoints) {
		if i, err := strconv.Atoi(path[1]); err == nil && m.slice.Name == slice && i >= 0 && i < len(m.places) {
			return m.places[i]
		}
	}
	return ""
}

// lineOf is the line of a field, or of what is there of its path.
func lineOf(e *entry, path string) int {
	line, _, _ := follow(e.root, steps(path))
	return line
}

// Report is everything found in reading and in building, located, by file and line, and without what only follows from
// a mistake that is told already: an Ingress whose backend is indented wrongly is not also told that a backend is
// missing, an Ingress is not told that a Service does not exist that is there and does not decode, and a Service is not
// told that it has no endpoints when those it has are wrong.
func (f *Folder) Report(built []controller.Problem) []controller.Problem {
	located := slices.Clone(built)
	for i := range located {
		f.Locate(&located[i])
	}
	causes := append(slices.Clone(f.problems), located...)
	all := slices.Clone(f.problems)
	for _, p := range located {
		if !f.follows(p, causes) {
			all = append(all, p)
		}
	}
	sortByPlace(all, f.order)
	return all
}

// follows says whether a problem found in building is only the consequence of another one.
func (f *Folder) follows(p controller.Problem, causes []controller.Problem) bool {
	e := f.served[p.Object]
	for _, cause := range causes {
		switch {
		case cause.Severity != controller.Error:
		case p.Reason == controller.ReasonNoEndpoints && f.addressesOf(p.Object, cause.Object):
			return true
		case cause.Object == p.Object && cause.Reason == controller.ReasonUnknownField && related(p.Field, cause.Field):
			return true
		case e != nil && f.names(e, p, cause):
			return true
		}
	}
	return false
}

// addressesOf says whether an object is one that gives a Service its addresses.
func (f *Folder) addressesOf(service, o controller.Ref) bool {
	if o.Namespace != service.Namespace {
		return false
	}
	switch o.Kind {
	case "Endpoints":
		return o.Name == service.Name
	case "EndpointSlice":
		e := f.served[o]
		if e == nil {
			return false
		}
		_, metadata := child(e.root, "metadata")
		_, labels := child(metadata, "labels")
		_, name := child(labels, discoveryv1.LabelServiceName)
		return textOf(name) == service.Name
	}
	return false
}

// related says whether a value that is missing or wrong at path may be due to an unknown field: the one is inside the
// other, they have the same name in different places, or they are neighbours of which one is misspelt.
func related(path, unknown string) bool {
	if path == "" || strings.HasPrefix(path, "metadata.annotations[") {
		return false
	}
	a, b := steps(path), steps(unknown)
	inside := 0
	for inside < min(len(a), len(b)) && a[inside] == b[inside] {
		inside++
	}
	last := a[len(a)-1]
	return inside == len(a) || inside == len(b) || last == b[len(b)-1] || inside == len(a)-1 && inside == len(b)-1
}

// names says whether a problem with a reference is about an object that is there and was not decoded.
func (f *Folder) names(e *entry, p controller.Problem, cause controller.Problem) bool {
	var kind string
	switch p.Reason {
	case controller.ReasonServiceNotFound:
		kind = "Service"
	case controller.ReasonSecretNotFound:
		kind = "Secret"
	default:
		return false
	}
	if cause.Object.Kind != kind || cause.Object.Namespace != p.Object.Namespace {
		return false
	}
	target := f.served[cause.Object]
	if target == nil || target.made != nil {
		return false
	}
	_, at, taken := follow(e.root, steps(p.Field))
	if taken < len(steps(p.Field)) {
		return false
	}
	for _, name := range []string{"serviceName", "secretName", "name"} {
		if _, v := child(at, name); v != nil {
			return textOf(v) == cause.Object.Name
		}
	}
	return textOf(at) == cause.Object.Name
}
