//go:build controlplane

package cluster_test

import (
	"testing"

	"sallyport/e2e/cluster"
)

// TestDeploymentIsServedWithTheDeployedPermissions goes all the way: Deployment, ReplicaSet, Pods, EndpointSlice, by the
// real controllers, and an Ingress to them, read with the token and the ClusterRole of deploy/.
func TestDeploymentIsServedWithTheDeployedPermissions(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	s.Expect(t, "http://web.test/some/path?x=1", cluster.Served("web"))

	answer, err := s.Get("http://web.test/some/path?x=1")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Echo.Target != "/some/path?x=1" || answer.Echo.Host != "web.test" || answer.Echo.Namespace != "default" {
		t.Errorf("the Pod saw %+v, want the target /some/path?x=1, the host web.test and the namespace default", answer.Echo)
	}
}
