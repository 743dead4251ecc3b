package controller

import (
	"strings"
	"testing"

	"sallyport/proxy"
)

// TestBadPartIsSetAsideAlone gives an Ingress one bad rule, path or backend beside a good one. The good one is served,
// and exactly one problem says where the bad one is.
func TestBadPartIsSetAsideAlone(t *testing.T) {
	const good = `- {host: good.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}`
	host := func(h string) string {
		return "- {host: '" + h + "', http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}"
	}
	path := func(p string) string {
		return "- {host: bad.test, http: {paths: [{" + p + ", backend: {service: {name: web, port: {number: 80}}}}]}}"
	}
	backend := func(b string) string {
		return "- {host: bad.test, http: {paths: [{path: /, pathType: Prefix, backend: {" + b + "}}]}}"
	}
	const (
		atHost    = "error Ingress default/a: spec.rules[1].host: InvalidValue"
		atPath    = "error Ingress default/a: spec.rules[1].http.paths[0].path: InvalidValue"
		atType    = "error Ingress default/a: spec.rules[1].http.paths[0].pathType: InvalidValue"
		atBackend = "error Ingress default/a: spec.rules[1].http.paths[0].backend"
	)
	for _, c := range []struct{ rule, problem, served string }{
		{host("Bad.test"), atHost, ""},
		{host("10.0.0.1"), atHost, ""},
		{host("::1"), atHost, ""},
		{host("[::1]"), atHost, ""},
		{host("*"), atHost, ""},
		{host("*.*.test"), atHost, ""},
		{host("a.*.test"), atHost, ""},
		{host("https://a.test"), atHost, ""},
		{host("a.test/x"), atHost, ""},
		{host("a.test:80"), atHost, ""},
		{host("a_b.test"), atHost, ""},
		{host("a..test"), atHost, ""},
		{host(strings.Repeat("a.", 127) + "test"), atHost, ""},
		{path("path: x, pathType: Prefix"), atPath, ""},
		{path("path: x, pathType: Exact"), atPath, ""},
		{path("path: x, pathType: ImplementationSpecific"), atPath, ""},
		{path("path: //x, pathType: Prefix"), atPath, ""},
		{path("path: /x/../y, pathType: Exact"), atPath, ""},
		{path("path: /x/., pathType: Exact"), atPath, ""},
		{path("path: /x%2fy, pathType: Prefix"), atPath, ""},
		{path(`path: "/x\0", pathType: ImplementationSpecific`), atPath, ""},
		{path("path: /, pathType: prefix"), atType, ""},
		{path("path: /"), atType, "/"},
		{path("pathType: Prefix"), atPath, "/"},
		{path("pathType: ImplementationSpecific"), "", "/"},
		{path("path: /a%20b, pathType: Prefix"), "warning Ingress default/a: spec.rules[1].http.paths[0].path: InvalidValue", "/a%20b"},
		{path("path: /100%, pathType: Prefix"), "", "/100%"},
		{"- {host: bad.test, http: {paths: []}}", "error Ingress default/a: spec.rules[1].http.paths: InvalidValue", ""},
		{"- {host: bad.test}", "warning Ingress default/a: spec.rules[1].host: MissingBackend", ""},
		{"- {}", "warning Ingress default/a: spec.rules[1]: MissingBackend", ""},
		{backend(""), atBackend + ": MissingBackend", "/"},
		{backend("service: {port: {number: 80}}"), atBackend + ".service.name: MissingBackend", "/"},
		{backend("service: {name: other/web, port: {number: 80}}"), atBackend + ".service.name: InvalidValue", "/"},
		{backend("service: {name: web}"), atBackend + ".service.port: MissingBackend", "/"},
		{backend("service: {name: web, port: {name: http, number: 80}}"), atBackend + ".service.port: InvalidValue", "/"},
		{backend("service: {name: web, port: {number: 65536}}"), atBackend + ".service.port.number: InvalidValue", "/"},
		{backend("service: {name: web, port: {number: -1}}"), atBackend + ".service.port.number: InvalidValue", "/"},
		{backend(`service: {name: web, port: {name: "80"}}`), atBackend + ".service.port.name: InvalidValue", "/"},
		{backend("service: {name: web, port: {name: HTTP}}"), atBackend + ".service.port.name: InvalidValue", "/"},
		{backend("service: {name: web, port: {name: a-name-of-sixteen}}"), atBackend + ".service.port.name: InvalidValue", "/"},
		{backend("resource: {kind: Bucket, name: b}, service: {name: web, port: {number: 80}}"), atBackend + ": InvalidValue", "/"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, ingressOf("a", "rules:\n"+good+"\n"+c.rule)))
			if c.problem == "" {
				wantProblems(t, r.Problems)
			} else {
				wantProblems(t, r.Problems, c.problem)
			}
			if r.Table.Lookup("good.test", "/") == nil {
				t.Error("the good rule is not served")
			}
			route := r.Table.Lookup("bad.test", "/")
			if c.served != "" && c.served != "/" {
				route = r.Table.Lookup("bad.test", c.served)
			}
			if (route != nil) != (c.served != "") {
				t.Errorf("route of the other rule: %v, want one for %q", route, c.served)
			}
			if strings.HasPrefix(c.problem, atBackend) {
				if status, reason := ask(t, r, "bad.test", "/"); status != 503 || reason != proxy.NoService {
					t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.NoService)
				}
			}
		})
	}
}

func TestResourceBackendIsTheDefaultBackend(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, ingressOf("a", "defaultBackend: {resource: {kind: Bucket, name: b}}")))
	wantProblems(t, r.Problems, "error Ingress default/a: spec.defaultBackend.resource: UnsupportedBackend")
	if status, reason := ask(t, r, "any.test", "/"); status != 404 || reason != proxy.NoRoute {
		t.Errorf("answered %d %s, want 404 %s", status, reason, proxy.NoRoute)
	}
}

func TestARuleWithoutPathsIsWellWithADefaultBackend(t *testing.T) {
	own := ingressOf("a", "defaultBackend: {service: {name: web, port: {number: 80}}}\nrules: [{host: a.test}]")
	wantProblems(t, NewBuilder(everyIngress()).Build(snapshotOf(t, webService, own)).Problems)
	o := everyIngress()
	o.DefaultBackend = Key{"default", "web"}
	wantProblems(t, NewBuilder(o).Build(snapshotOf(t, webService, ingressOf("a", "rules: [{host: a.test}]"))).Problems)
	broken := ingressOf("a", "defaultBackend: {service: {name: web}}\nrules: [{host: a.test}]")
	wantProblems(t, NewBuilder(everyIngress()).Build(snapshotOf(t, webService, broken)).Problems, "error Ingress default/a: spec.defaultBackend.service.port: MissingBackend")
}

func TestIngressWithNothingToServeIsTold(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, "kind: Ingress\nmetadata: {name: a}"))
	wantProblems(t, r.Problems, "error Ingress default/a: spec: MissingBackend")
}

func TestDisableCatchAllSetsDefaultBackendsAside(t *testing.T) {
	o := everyIngress()
	o.DisableCatchAll = true
	r := NewBuilder(o).Build(snapshotOf(t, webService, pathTo("a", "a.test", "/"), backendOf("number: 80"), ingressOf("b", "defaultBackend: {service: {name: web, port: {number: 80}}}"), pathTo("c", "c.test", "/")))
	wantProblems(t, r.Problems,
		"warning Ingress default/a: spec.defaultBackend: CatchAllDisabled",
		"warning Ingress default/b: spec.defaultBackend: CatchAllDisabled")
	if got, want := r.Table.String(), "c.test   Prefix   /   default/c\n"; got != want {
		t.Errorf("table:\n%swant:\n%s", got, want)
	}
}

func TestAnnotationProblemsNameTheirAnnotation(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, `
kind: Ingress
metadata:
  name: a
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: "on"
    nginx.ingress.kubernetes.io/enable-opentelemetry: "true"
    nginx.ingress.kubernetes.io/ssl-redirekt: "true"
    nginx.ingress.kubernetes.io/auth-tls-secret: users
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}`))
	wantProblems(t, r.Problems,
		"error Ingress default/a: metadata.annotations[nginx.ingress.kubernetes.io/auth-tls-secret]: SecretNotFound",
		"warning Ingress default/a: metadata.annotations[nginx.ingress.kubernetes.io/enable-opentelemetry]: UnsupportedAnnotation",
		"error Ingress default/a: metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirect]: BadAnnotation",
		"warning Ingress default/a: metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirekt]: UnknownAnnotation")
	if status, reason := ask(t, r, "any.test", "/"); status != 403 || reason != proxy.ClientCertOnly {
		t.Errorf("answered %d %s, want 403 %s: what guards the host cannot be had", status, reason, proxy.ClientCertOnly)
	}
}
