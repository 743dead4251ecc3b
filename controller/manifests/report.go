package manifests

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"sallyport/controller"
)

// Report is everything found in reading and in building, located, by file and line, and without what only follows from
// a mistake that is told already: an Ingress whose backend is indented wrongly is not also told that a backend is
// missing, an Ingress is not told that a Service does not exist that is there and does not decode, and a Service is not
// told that it has no endpoints when those it has are wrong.
func (f *Folder) Report(built []controller.Problem) []controller.Problem {
	located := slices.Clone(built)
	for i := range located {
		f.Locate(&located[i])
	}
	causes := f.causes(located)
	all := slices.Clone(f.problems)
	for _, p := range located {
		if !causes.explain(f.served[p.Object], p) && !causes.told[place{p.Object, p.Field}] {
			all = append(all, p)
		}
	}
	sortByPlace(all, f.order)
	return all
}

// causes are the mistakes that others follow from.
type causes struct {
	unknown   map[controller.Ref][]string // fields that do not exist, by object
	undecoded map[controller.Ref]bool     // objects that are there and not in service
	addresses map[controller.Key]bool     // Services with an address or slice that is wrong
	told      map[place]bool              // values that have been refused in reading
}

// A place is a field of an object.
type place struct {
	object controller.Ref
	field  string
}

func (f *Folder) causes(built []controller.Problem) causes {
	c := causes{make(map[controller.Ref][]string), make(map[controller.Ref]bool), make(map[controller.Key]bool), make(map[place]bool)}
	for ref, e := range f.served {
		if e.made == nil {
			c.undecoded[ref] = true
		}
	}
	for _, p := range f.problems {
		if p.Reason == controller.ReasonUnknownField {
			c.unknown[p.Object] = append(c.unknown[p.Object], p.Field)
		}
		if p.Reason == controller.ReasonInvalid {
			c.told[place{p.Object, p.Field}] = true
		}
	}
	for _, list := range [][]controller.Problem{f.problems, built} {
		for _, p := range list {
			if service := f.serviceOf(p.Object); p.Severity == controller.Error && service != "" && losesAddresses(p) {
				c.addresses[controller.Key{Namespace: p.Object.Namespace, Name: service}] = true
			}
		}
	}
	return c
}

// losesAddresses says whether a mistake in an object that gives addresses to a Service may take some of them out of use.
func losesAddresses(p controller.Problem) bool {
	return p.Reason != controller.ReasonInvalid ||
		strings.HasPrefix(p.Field, "endpoints") || strings.HasPrefix(p.Field, "ports") || strings.HasPrefix(p.Field, "subsets")
}

// serviceOf is the name of the Service that an object gives addresses to; "" for other objects.
func (f *Folder) serviceOf(o controller.Ref) string {
	switch e := f.served[o]; {
	case o.Kind == "Endpoints":
		return o.Name
	case o.Kind == "EndpointSlice" && e != nil:
		_, metadata := child(e.root, "metadata")
		_, labels := child(metadata, "labels")
		_, name := child(labels, discoveryv1.LabelServiceName)
		return textOf(name)
	}
	return ""
}

// explain says whether a problem found in building is only the consequence of another one. E is the object it is about.
func (c causes) explain(e *entry, p controller.Problem) bool {
	switch p.Reason {
	case controller.ReasonNoEndpoints:
		return c.addresses[controller.Key{Namespace: p.Object.Namespace, Name: p.Object.Name}]
	case controller.ReasonServiceNotFound:
		return e != nil && c.undecoded[controller.Ref{Kind: "Service", Namespace: p.Object.Namespace, Name: named(e, p.Field)}]
	case controller.ReasonSecretNotFound:
		return e != nil && c.undecoded[controller.Ref{Kind: "Secret", Namespace: p.Object.Namespace, Name: named(e, p.Field)}]
	}
	return slices.ContainsFunc(c.unknown[p.Object], func(unknown string) bool { return related(p.Field, unknown) })
}

// related says whether a value that is missing or wrong at path may be due to an unknown field: the one is inside the
// other, they have the same name in different places, or they are neighbours of which one is misspelt.
func related(path, unknown string) bool {
	if path == "" || strings.HasPrefix(path, "metadata.annotations[") {
		return false
	}
	a, b := steps(path), steps(unknown)
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	return same == len(a) || same == len(b) || a[len(a)-1] == b[len(b)-1] || same == len(a)-1 && same == len(b)-1
}

// named is the name that a reference at a path of an object holds, directly or one level in.
func named(e *entry, path string) string {
	wanted := steps(path)
	_, at, taken := follow(e.root, wanted)
	if taken < len(wanted) {
		return ""
	}
	for _, name := range []string{"serviceName", "secretName", "name"} {
		if _, v := child(at, name); v != nil {
			return textOf(v)
		}
	}
	return textOf(at)
}
