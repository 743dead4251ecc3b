package main

import (
	"strings"
	"testing"

	"sallyport/e2e"
)

// TestRoutesNameTheIngressThatMadePathsExpressions: a user whose Exact path has become an expression must find out why.
func TestRoutesNameTheIngressThatMadePathsExpressions(t *testing.T) {
	const route = `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: NAME, namespace: SPACE, annotations: {NOTES}}
spec: {rules: [{host: a.test, http: {paths: [{path: PATH, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`
	with := func(name, namespace, path, notes string) string {
		return strings.NewReplacer("NAME", name, "SPACE", namespace, "PATH", path, "NOTES", notes).Replace(route)
	}
	folder := e2e.Folder(t, map[string]string{"all.yaml": with("plain", "one", "/login", "") + with("other", "two", "/", "") +
		with("asks", "one", `"/web/(.*)"`, `nginx.ingress.kubernetes.io/use-regex: "true"`)})
	out := sallyport(t, nil, "routes", folder).out
	want := []string{
		"HOST     TYPE     PATH        SERVICE      INGRESS     REGEX BY",
		"a.test   Regex    /web/(.*)   one/web:80   one/asks    one/asks",
		"a.test   Regex    /login      one/web:80   one/plain   one/asks",
		"a.test   Prefix   /           two/web:80   two/other   -",
	}
	if got, want := strings.TrimSpace(out), strings.Join(want, "\n"); got != want {
		t.Errorf("routes prints\n%s\nwant\n%s", got, want)
	}
}
