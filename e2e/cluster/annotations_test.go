//go:build controlplane

package cluster_test

import (
	"net/http"
	"strings"
	"testing"

	"sallyport/e2e/cluster"
)

// TestWhatAnnotationsNameIsFollowed: a Secret of passwords and a ConfigMap of fields that come, change and go, and the
// ConfigMap of the controller, all read with the permissions of deploy/. None of them is of a kind that is watched whole.
func TestWhatAnnotationsNameIsFollowed(t *testing.T) {
	c := cluster.Start(t)
	guarded := strings.Replace(ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")), "{name: web}",
		"{name: web, annotations: {nginx.ingress.kubernetes.io/auth-type: basic, nginx.ingress.kubernetes.io/auth-secret: users}}", 1)
	dressed := strings.Replace(ingress("dressed", ours, "rules:", rule("dressed.test", "/", "Prefix", "web")), "{name: dressed}",
		"{name: dressed, annotations: {nginx.ingress.kubernetes.io/custom-headers: fields}}", 1)
	c.Apply(t, app("web", 1)+guarded+dressed)
	s := c.Sallyport(t, "--configmap=sallyport/sallyport")
	closed := cluster.Refused(http.StatusServiceUnavailable, "denied")
	s.Expect(t, "http://web.test/", closed)
	s.Expect(t, "http://dressed.test/", closed)

	c.Kubectl(t, "create", "secret", "generic", "users", "--from-literal=auth=anna:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=")
	s.Expect(t, "http://web.test/", cluster.Refused(http.StatusUnauthorized, "unauthenticated"))
	s.Expect(t, "http://anna:password@web.test/", cluster.Served("web"))
	c.Kubectl(t, "create", "configmap", "fields", "--from-literal=X-Frame-Options=DENY")
	s.Expect(t, "http://dressed.test/", closed) // the operator has not allowed the field

	configure := func(data string) {
		c.Kubectl(t, "patch", "configmap", "sallyport", "--namespace=sallyport", "--type=merge", "--patch", `{"data": `+data+`}`)
	}
	configure(`{"global-allowed-response-headers": "X-Frame-Options"}`)
	s.Expect(t, "http://dressed.test/", cluster.Served("web"))
	configure(`{"denylist-source-range": "0.0.0.0/0"}`)
	s.Expect(t, "http://dressed.test/", cluster.Refused(http.StatusForbidden, "address_denied"))
	configure(`{"denylist-source-range": null}`)
	s.Expect(t, "http://dressed.test/", cluster.Served("web"))

	c.Kubectl(t, "delete", "secret", "users")
	s.Expect(t, "http://anna:password@web.test/", closed)
}
