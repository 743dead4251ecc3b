package manifests

import (
	"strings"
	"testing"

	"sallyport/controller"
)

// Each case is what reading finds in a manifest, what building would add, and whether that is told as well.
func TestReportLeavesOutWhatFollowsFromAMistakeAlreadyTold(t *testing.T) {
	a := controller.Ref{Kind: "Ingress", Namespace: "default", Name: "a"}
	head := "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec:\n"
	for _, c := range []struct {
		name, manifest string
		reason, field  string
		told           bool
	}{
		{"a backend indented too little", head + "  rules:\n  - http:\n      paths:\n      - path: /\n      backend: {service: {name: web}}\n",
			controller.ReasonMissingBackend, "spec.rules[0].http.paths[0].backend", false},
		{"a misspelt neighbour", head + "  rules:\n  - http:\n      paths:\n      - {path: /, pathtype: Exact}\n",
			controller.ReasonInvalid, "spec.rules[0].http.paths[0].pathType", false},
		{"old fields inside", head + "  defaultBackend: {serviceName: web, servicePort: 80}\n",
			controller.ReasonMissingBackend, "spec.defaultBackend", false},
		{"an unknown field elsewhere", head + "  tls: [{secret: x}]\n  rules:\n  - http:\n      paths:\n      - {path: /}\n",
			controller.ReasonMissingBackend, "spec.rules[0].http.paths[0].backend", true},
		{"no mistake in reading", head + "  defaultBackend: {service: {name: web}}\n",
			controller.ReasonMissingBackend, "spec.defaultBackend.service.port", true},
		{"an annotation beside an unknown field", head + "  x: {}\n",
			controller.ReasonBadAnnotation, "metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirect]", true},
		{"a Service that does not decode", head + "  defaultBackend: {service: {name: web, port: {number: 80}}}\n---\n" +
			"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: {}}\n",
			controller.ReasonServiceNotFound, "spec.defaultBackend.service.name", false},
		{"another Service that does not decode", head + "  defaultBackend: {service: {name: web, port: {number: 80}}}\n---\n" +
			"apiVersion: v1\nkind: Service\nmetadata: {name: other}\nspec: {ports: {}}\n",
			controller.ReasonServiceNotFound, "spec.defaultBackend.service.name", true},
		{"a Secret that does not decode", head + "  tls: [{secretName: s}]\n---\n" +
			"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {tls.crt: \"***\"}\n",
			controller.ReasonSecretNotFound, "spec.tls[0].secretName", false},
	} {
		f, _ := text(t, "a.yaml", c.manifest)
		told := false
		for _, p := range f.Report([]controller.Problem{{Object: a, Severity: controller.Error, Reason: c.reason, Field: c.field, Message: "built"}}) {
			told = told || p.Message == "built" && p.Line > 0 && strings.HasSuffix(p.File, "a.yaml")
		}
		if told != c.told {
			t.Errorf("%s: told %v, want %v; reading found %v", c.name, told, c.told, f.Problems())
		}
	}
}
