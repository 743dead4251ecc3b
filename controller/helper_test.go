package controller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// objects reads YAML documents.
func objects(t testing.TB, text string) []metav1.Object {
	t.Helper()
	var all []metav1.Object
	for _, document := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		object := map[string]metav1.Object{
			"Ingress":       new(networkingv1.Ingress),
			"IngressClass":  new(networkingv1.IngressClass),
			"Service":       new(corev1.Service),
			"EndpointSlice": new(discoveryv1.EndpointSlice),
			"Secret":        new(corev1.Secret),
		}[kind.Kind]
		if object == nil {
			t.Fatalf("kind %q in\n%s", kind.Kind, document)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.GetNamespace() == "" && kind.Kind != "IngressClass" {
			object.SetNamespace("default")
		}
		all = append(all, object)
	}
	return all
}

func snapshotOf(t testing.TB, texts ...string) *Snapshot {
	t.Helper()
	s := new(Snapshot)
	for _, text := range texts {
		for _, object := range objects(t, text) {
			s.Set(object)
		}
	}
	return s
}

// everyIngress are Options for tests that are not about classes.
func everyIngress() Options {
	return Options{ServeAllWithoutClasses: true, Pools: new(upstream.Pools)}
}

// ask runs the handler that a table has for a request, as the front would, and returns status and reason.
func ask(t testing.TB, r Result, host, path string) (int, proxy.Reason) {
	t.Helper()
	route := r.Table.Lookup(host, path)
	if route == nil {
		return 404, proxy.NoRoute // the front's own
	}
	e := &proxy.Exchange{ID: "test", Host: host, Path: path, Target: path}
	w := httptest.NewRecorder()
	route.Handler.ServeHTTP(w, proxy.With(requestNobodyWaitsFor(path), e))
	return w.Code, e.Reason
}

// requestNobodyWaitsFor is cancelled already, so that a handler which would send it upstream connects to nobody.
func requestNobodyWaitsFor(path string) *http.Request {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return httptest.NewRequestWithContext(ctx, "GET", path, nil)
}

// askScheme runs a handler for a request over plain HTTP or HTTPS and returns the reason of its answer.
func askScheme(t testing.TB, handler http.Handler, host, scheme string) proxy.Reason {
	t.Helper()
	e := &proxy.Exchange{ID: "test", Scheme: scheme, Host: host, Path: "/", Target: "/"}
	handler.ServeHTTP(httptest.NewRecorder(), proxy.With(requestNobodyWaitsFor("/"), e))
	return e.Reason
}

func problemLines(all []Problem) string {
	var b strings.Builder
	for _, p := range all {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// wantProblems compares problems with lines of "object: field: reason".
func wantProblems(t testing.TB, got []Problem, want ...string) {
	t.Helper()
	var short []string
	for _, p := range got {
		short = append(short, p.Severity.String()+" "+p.Object.String()+": "+p.Field+": "+p.Reason)
	}
	if strings.Join(short, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems:\n%s\nwant:\n%s\nin full:\n%s", strings.Join(short, "\n"), strings.Join(want, "\n"), problemLines(got))
	}
}

const webService = `
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]`

func ingressOf(name, body string) string {
	return "kind: Ingress\nmetadata: {name: " + name + "}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n  ")
}

// pathTo is an Ingress of one path that leads to the Service web.
func pathTo(name, host, path string) string {
	return ingressOf(name, `rules: [{host: "`+host+`", http: {paths: [{path: "`+path+`", pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`)
}
