//go:build controlplane

package cluster_test

import (
	"net/http"
	"testing"

	"sallyport/e2e/cluster"
)

// TestScaleToZeroAndBack wants the reason while there is no Pod, and the application as soon as there is one.
func TestScaleToZeroAndBack(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	for range 3 {
		s.Expect(t, "http://web.test/", cluster.Served("web"))
		c.Kubectl(t, "scale", "deployment/web", "--replicas=0")
		s.Expect(t, "http://web.test/", cluster.Refused(http.StatusServiceUnavailable, "no_endpoints"))
		c.Kubectl(t, "scale", "deployment/web", "--replicas=2")
	}
	s.Expect(t, "http://web.test/", cluster.Served("web"))
}
