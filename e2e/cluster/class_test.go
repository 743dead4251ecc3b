//go:build controlplane

package cluster_test

import (
	"fmt"
	"testing"

	"sallyport/e2e/cluster"
)

// TestIngressFollowsItsClass changes the class of an Ingress, and the classes themselves, while it is served.
func TestIngressFollowsItsClass(t *testing.T) {
	c := cluster.Start(t)
	rules := []string{"rules:", rule("class.test", "/", "Prefix", "web")}
	c.Apply(t, class("second", controller)+class("foreign", "example.com/other")+app("web", 1)+ingress("moving", "", rules...))
	// The marker is served from the start: what came before it has been seen too.
	c.Apply(t, ingress("marker", ours, "rules:", rule("marker.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	s.Expect(t, "http://marker.test/", cluster.Served("web"))
	s.Check(t, "http://class.test/", noRoute)

	for _, change := range []struct {
		claim string
		do    func()
		want  cluster.Want
	}{
		{"gains our class", func() { c.Apply(t, ingress("moving", ours, rules...)) }, cluster.Served("web")},
		{"changes to a foreign class", func() { c.Apply(t, ingress("moving", "foreign", rules...)) }, noRoute},
		{"changes to another class of ours", func() { c.Apply(t, ingress("moving", "second", rules...)) }, cluster.Served("web")},
		{"changes to a class that does not exist", func() { c.Apply(t, ingress("moving", "missing", rules...)) }, noRoute},
		{"sees the class come into being", func() { c.Apply(t, class("missing", controller)) }, cluster.Served("web")},
		{"sees the class deleted", func() { c.Kubectl(t, "delete", "ingressclass", "missing") }, noRoute},
		{"loses its class", func() { c.Apply(t, ingress("moving", "", rules...)) }, noRoute},
		{"sees our class become the default", func() {
			c.Kubectl(t, "annotate", "ingressclass", ours, "ingressclass.kubernetes.io/is-default-class=true")
		}, noRoute},
		{"asks by annotation", func() {
			c.Kubectl(t, "annotate", "ingress", "moving", "kubernetes.io/ingress.class=sallyport")
		}, cluster.Served("web")},
		{"asks for another by annotation", func() {
			c.Kubectl(t, "annotate", "--overwrite", "ingress", "moving", "kubernetes.io/ingress.class=nginx")
		}, noRoute},
	} {
		t.Log("the Ingress", change.claim)
		change.do()
		s.Expect(t, "http://class.test/", change.want)
		s.Check(t, "http://marker.test/", cluster.Served("web"))
	}
}

const controller = "sallyport/ingress-controller"

// class is an IngressClass of a controller.
func class(name, controller string) string {
	return fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: %s}\nspec: {controller: %s}\n", name, controller)
}
