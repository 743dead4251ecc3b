//go:build controlplane

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestIngressesAreChosen tries everything by which Ingresses are ours or not. The last part leaves a default class behind.
func TestIngressesAreChosen(t *testing.T) {
	c := cluster.Start(t)
	t.Run("AnIngressFollowsItsClass", func(t *testing.T) { testIngressFollowsItsClass(t, c) })
	t.Run("NamespacesChoose", func(t *testing.T) { testNamespacesChooseIngresses(t, c) })
	t.Run("WithoutPermissionToReadClasses", func(t *testing.T) { testClassesMayNotBeRead(t, c) })
	t.Run("EveryWayToNameAClass", func(t *testing.T) { testEveryWayToNameAClass(t, c) })
}

// testIngressFollowsItsClass changes the class of an Ingress, and the classes themselves, while it is served.
func testIngressFollowsItsClass(t *testing.T, c *cluster.Cluster) {
	rules := []string{"rules:", rule("class.test", "/", "Prefix", "web")}
	c.Apply(t, class("second", controller)+class("foreign", "example.com/other")+app("web", 1)+ingress("moving", "", rules...))
	// The marker is served from the start: what came before it has been seen too.
	c.Apply(t, ingress("marker", ours, "rules:", rule("marker.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	s.Expect(t, "http://marker.test/", cluster.Served("web"))
	s.Check(t, "http://class.test/", noRoute)

	changes := []struct {
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
		{"sees it come back as another controller's", func() { c.Apply(t, class("missing", "example.com/other")) }, noRoute},
		{"changes back to our class", func() { c.Apply(t, ingress("moving", ours, rules...)) }, cluster.Served("web")},
		{"loses its class", func() { c.Apply(t, ingress("moving", "", rules...)) }, noRoute},
		{"sees our class become the default", func() {
			c.Kubectl(t, "annotate", "ingressclass", ours, "ingressclass.kubernetes.io/is-default-class=true")
		}, noRoute},
		{"names our class again", func() { c.Apply(t, ingress("moving", ours, rules...)) }, cluster.Served("web")},
		{"sees our class be the default no more", func() {
			c.Kubectl(t, "annotate", "ingressclass", ours, "ingressclass.kubernetes.io/is-default-class-")
		}, cluster.Served("web")},
		{"loses its class for good", func() { c.Apply(t, ingress("moving", "", rules...)) }, noRoute},
		{"asks by annotation", func() {
			c.Kubectl(t, "annotate", "ingress", "moving", "kubernetes.io/ingress.class=sallyport")
		}, cluster.Served("web")},
		{"asks for another by annotation", func() {
			c.Kubectl(t, "annotate", "--overwrite", "ingress", "moving", "kubernetes.io/ingress.class=nginx")
		}, noRoute},
		{"moves on to the field, which beats the annotation", func() { c.Apply(t, ingress("moving", ours, rules...)) }, cluster.Served("web")},
	}
	for i, change := range changes {
		t.Log("the Ingress", change.claim)
		change.do()
		s.Expect(t, "http://class.test/", change.want)
		// Once something later is served, the answer is that to the change, even where it is the one of before.
		marker := fmt.Sprintf("marker%d.test", i)
		c.Apply(t, ingress("marker", ours, "rules:", rule(marker, "/", "Prefix", "web")))
		s.Expect(t, "http://"+marker+"/", cluster.Served("web"))
		s.Check(t, "http://class.test/", change.want)
	}
}

// testClassesMayNotBeRead takes the permission to read IngressClasses away: the annotation works, and a field beside it is
// ignored; one alone makes an Ingress nobody's. With the permission everything is as ever.
func testClassesMayNotBeRead(t *testing.T, c *cluster.Cluster) {
	c.Apply(t, app("web", 1)+class("foreign", "example.com/other")+
		ingress("unread-field", ours, "rules:", rule("unread-field.test", "/", "Prefix", "web"))+
		ingress("unread-annotation", "", "rules:", rule("unread-annotation.test", "/", "Prefix", "web"))+
		ingress("unread-both", "foreign", "rules:", rule("unread-both.test", "/", "Prefix", "web")))
	for _, name := range []string{"unread-annotation", "unread-both"} {
		c.Kubectl(t, "annotate", "ingress", name, "kubernetes.io/ingress.class=sallyport")
	}
	r := readRoles(t, c)
	unread := slices.IndexFunc(r.grants, func(g grant) bool { return g.resource == "ingressclasses" && g.verb == "list" })
	watched := slices.IndexFunc(r.grants, func(g grant) bool { return g.resource == "ingressclasses" && g.verb == "watch" })
	r.without(t, c, unread, watched)
	restore := sync.OnceFunc(func() { r.restore(t, c) })
	defer restore()
	s := c.Sallyport(t, "--update-status=false")
	s.Expect(t, "http://unread-annotation.test/", cluster.Served("web"))
	s.Check(t, "http://unread-both.test/", cluster.Served("web"))
	s.Check(t, "http://unread-field.test/", noRoute)
	if !strings.Contains(s.Log(), "serving without IngressClasses") {
		t.Error("the log does not say that classes may not be read")
	}
	restore()
	s.Expect(t, "http://unread-field.test/", cluster.Served("web"))
	s.Expect(t, "http://unread-both.test/", noRoute)
	s.Check(t, "http://unread-annotation.test/", cluster.Served("web"))
}

// testEveryWayToNameAClass has an Ingress for each way and asks replicas with different flags, all of them in one cluster,
// for all of the Ingresses.
func testEveryWayToNameAClass(t *testing.T, c *cluster.Cluster) {
	c.Apply(t, app("web", 1)+class("foreign", "example.com/other")+class("nginx", "k8s.io/ingress-nginx"))
	ways := []string{"field-ours", "field-foreign", "field-nginx", "field-missing", "annotation-ours", "annotation-foreign", "annotation-nginx",
		"field-ours-annotation-foreign", "field-foreign-annotation-ours", "before-default", "after-default"}
	for _, way := range ways[:len(ways)-1] {
		c.Apply(t, wayIngress(way, fieldOf(way)))
		if annotated := annotationOf(way); annotated != "" { // after the field: an Ingress may not be created with both
			c.Kubectl(t, "annotate", "ingress", way, "kubernetes.io/ingress.class="+annotated)
		}
	}
	c.Kubectl(t, "annotate", "ingressclass", ours, "ingressclass.kubernetes.io/is-default-class=true")
	e2e.Eventually(t, "the API server writes the default class into a new Ingress", func() error {
		out := c.Kubectl(t, "get", "ingress", "after-default", "--ignore-not-found", "--output=jsonpath={.spec.ingressClassName}")
		if out == ours {
			return nil
		}
		c.Kubectl(t, "delete", "ingress", "after-default", "--ignore-not-found")
		c.Apply(t, wayIngress("after-default", ""))
		return fmt.Errorf("its class is %q", out)
	})

	for _, of := range []struct {
		flags  []string
		served []string
	}{
		{nil, []string{"field-ours", "annotation-ours", "field-ours-annotation-foreign", "after-default"}},
		{[]string{"--ingress-class=foreign"},
			[]string{"field-ours", "annotation-foreign", "field-ours-annotation-foreign", "after-default"}},
		{[]string{"--ingress-class=foreign", "--ingress-class-by-name"},
			[]string{"field-ours", "field-foreign", "annotation-foreign", "field-ours-annotation-foreign", "field-foreign-annotation-ours", "after-default"}},
		{[]string{"--watch-ingress-without-class"},
			[]string{"field-ours", "annotation-ours", "field-ours-annotation-foreign", "after-default", "before-default"}},
		{[]string{"--controller-class=k8s.io/ingress-nginx", "--ingress-class=nginx"},
			[]string{"field-nginx", "annotation-nginx"}},
		{[]string{"--controller-class=" + controller, "--controller-class=k8s.io/ingress-nginx"},
			[]string{"field-ours", "field-nginx", "annotation-ours", "field-ours-annotation-foreign", "after-default"}},
	} {
		t.Run(fmt.Sprintf("with %q", of.flags), func(t *testing.T) {
			s := c.Sallyport(t, append(of.flags, "--update-status=false")...)
			s.Expect(t, "http://"+of.served[0]+".test/", cluster.Served("web"))
			for _, way := range ways {
				want := noRoute
				if slices.Contains(of.served, way) {
					want = cluster.Served("web")
				}
				s.Check(t, "http://"+way+".test/", want)
			}
			s.Kill()
		})
	}
}

// wayIngress is an Ingress whose name and host say how it names its class.
func wayIngress(way, class string) string {
	return ingress(way, class, "rules:", rule(way+".test", "/", "Prefix", "web"))
}

// fieldOf and annotationOf give what an Ingress of that name has, empty for nothing.
func fieldOf(way string) string { return classIn(way, "field-") }

func annotationOf(way string) string { return classIn(way, "annotation-") }

func classIn(way, after string) string {
	_, rest, _ := strings.Cut(way, after)
	class, _, _ := strings.Cut(rest, "-")
	if class == "ours" {
		return ours
	}
	return class
}

// testNamespacesChooseIngresses restricts replicas to Namespaces, by name and by label, and changes the label.
func testNamespacesChooseIngresses(t *testing.T, c *cluster.Cluster) {
	c.Kubectl(t, "create", "namespace", "team")
	inTeam := strings.ReplaceAll(app("web", 1)+ingress("team", ours, "rules:", rule("team.test", "/", "Prefix", "web")), "metadata: {name:", "metadata: {namespace: team, name:")
	c.Apply(t, app("web", 1)+ingress("default", ours, "rules:", rule("default.test", "/", "Prefix", "web"))+inTeam)

	named := c.Sallyport(t, "--watch-namespace=team")
	named.Expect(t, "http://team.test/", cluster.Served("web"))
	named.Check(t, "http://default.test/", noRoute)

	labelled := c.Sallyport(t, "--watch-namespace-selector=team=web")
	labelled.Check(t, "http://team.test/", noRoute)
	c.Kubectl(t, "label", "namespace", "team", "team=web")
	labelled.Expect(t, "http://team.test/", cluster.Served("web"))
	labelled.Check(t, "http://default.test/", noRoute)
	c.Kubectl(t, "label", "namespace", "team", "--overwrite", "team=other")
	labelled.Expect(t, "http://team.test/", noRoute)
}

const controller = "sallyport/ingress-controller"

// class is an IngressClass of a controller.
func class(name, controller string) string {
	return fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: %s}\nspec: {controller: %s}\n", name, controller)
}
