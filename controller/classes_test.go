package controller

import (
	"strings"
	"testing"
)

const (
	ourClass     = "kind: IngressClass\nmetadata: {name: ours}\nspec: {controller: sallyport/ingress-controller}"
	nginxClass   = "kind: IngressClass\nmetadata: {name: nginx}\nspec: {controller: k8s.io/ingress-nginx}"
	defaultNginx = "kind: IngressClass\nmetadata: {name: nginx, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}\nspec: {controller: k8s.io/ingress-nginx}"
	defaultOurs  = "kind: IngressClass\nmetadata: {name: ours, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}\nspec: {controller: sallyport/ingress-controller}"
)

func TestClassDecidesWhoServesAnIngress(t *testing.T) {
	const annotated = "kind: Ingress\nmetadata: {name: a, annotations: {kubernetes.io/ingress.class: %}}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}"
	field := func(class string) string {
		return ingressOf("a", "ingressClassName: "+class+"\ndefaultBackend: {service: {name: web, port: {number: 80}}}")
	}
	const neither = "kind: Ingress\nmetadata: {name: a}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}"
	const foreignFieldOurAnnotation = "kind: Ingress\nmetadata: {name: a, annotations: {kubernetes.io/ingress.class: sallyport}}\nspec: {ingressClassName: nginx, defaultBackend: {service: {name: web, port: {number: 80}}}}"
	with := func(class string) string { return strings.Replace(annotated, "%", class, 1) }

	cluster := Options{IngressClass: "sallyport"}
	folder := Options{IngressClass: "sallyport", ServeAllWithoutClasses: true}
	for _, c := range []struct {
		name    string
		options Options
		ingress string
		classes []string
		served  bool
		warned  bool
	}{
		{"field names our class", cluster, field("ours"), []string{ourClass, nginxClass}, true, false},
		{"field names a foreign class", cluster, field("nginx"), []string{ourClass, nginxClass}, false, false},
		{"field names no class, which another controller may know", cluster, field("x"), []string{ourClass}, false, false},
		{"second controller value", Options{ControllerClasses: []string{DefaultControllerClass, "k8s.io/ingress-nginx"}}, field("nginx"), []string{nginxClass}, true, false},
		{"controller values replace the default", Options{ControllerClasses: []string{"k8s.io/ingress-nginx"}}, field("ours"), []string{ourClass}, false, false},
		{"by name, whatever its controller", Options{IngressClass: "nginx", IngressClassByName: true}, field("nginx"), []string{nginxClass}, true, false},
		{"by name still needs the object", Options{IngressClass: "nginx", IngressClassByName: true}, field("nginx"), nil, false, false},
		{"a name is nothing unless asked for", Options{IngressClass: "nginx"}, field("nginx"), []string{nginxClass}, false, false},
		{"annotation needs no object", cluster, with("sallyport"), nil, true, false},
		{"annotation of another", cluster, with("nginx"), []string{ourClass}, false, false},
		{"empty annotation is not an empty option", Options{}, with(`""`), nil, false, false},
		{"field beats annotation", cluster, foreignFieldOurAnnotation, []string{ourClass, nginxClass}, false, false},
		{"neither", cluster, neither, []string{defaultOurs}, false, false},
		{"neither, and wanted", Options{WatchWithoutClass: true}, neither, []string{nginxClass}, true, false},
		{"annotation of another, though those without are wanted", Options{WatchWithoutClass: true}, with("nginx"), nil, false, false},

		{"folder without classes", folder, field("whatever"), nil, true, false},
		{"folder without classes, annotation", folder, with("whatever"), nil, true, false},
		{"folder, field names our class", folder, field("ours"), []string{ourClass}, true, false},
		{"folder, field names a foreign class", folder, field("nginx"), []string{ourClass, nginxClass}, false, false},
		{"folder, class that does not exist", folder, field("x"), []string{ourClass}, false, true},
		{"folder, annotation of nobody", folder, with("x"), []string{ourClass}, false, true},
		{"folder, annotation of a foreign class", folder, with("nginx"), []string{ourClass, nginxClass}, false, false},
		{"folder, neither and no default", folder, neither, []string{ourClass}, false, true},
		{"folder, neither and ours is default", folder, neither, []string{defaultOurs, nginxClass}, true, false},
		{"folder, neither and a foreign one is default", folder, neither, []string{ourClass, defaultNginx}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(t, append(c.classes, c.ingress, webService)...)
			r := NewBuilder(c.options).Build(s)
			if served := r.Table.Lookup("any.test", "/") != nil; served != c.served {
				t.Errorf("served: %v, want %v", served, c.served)
			}
			if c.warned {
				if len(r.Problems) != 1 || r.Problems[0].Reason != ReasonUnknownClass || r.Problems[0].Severity != Warning {
					t.Errorf("problems: %v, want one warning %s", r.Problems, ReasonUnknownClass)
				}
			} else {
				wantProblems(t, r.Problems)
			}
		})
	}
}

func TestClassThatComesAndGoesStartsAndStopsServing(t *testing.T) {
	s := snapshotOf(t, webService, ingressOf("a", "ingressClassName: ours\ndefaultBackend: {service: {name: web, port: {number: 80}}}"))
	b := NewBuilder(Options{})
	for i, present := range []bool{false, true, false} {
		class := objects(t, ourClass)[0]
		if present {
			s.Set(class)
		} else {
			s.Delete(Ref{Kind: "IngressClass", Name: "ours"})
		}
		r := b.Build(s)
		if served := r.Table.Lookup("any.test", "/") != nil; served != present {
			t.Errorf("step %d: served: %v, want %v", i, served, present)
		}
	}
}
