//go:build controlplane

package cluster_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestIngressConformance holds the features that the Ingress conformance suite
// (https://github.com/kubernetes-sigs/ingress-controller-conformance) asks of every controller.
func TestIngressConformance(t *testing.T) {
	c := cluster.Start(t)
	for _, name := range []string{"fallback", "exact", "wildcard", "prefix", "longer", "slash", "upper"} {
		c.Apply(t, app(name, 1))
	}
	c.Apply(t, app("ten", 10))
	s := c.Sallyport(t, "--publish-status-address=192.0.2.7")
	t.Run("DefaultBackend", func(t *testing.T) { testDefaultBackend(t, c, s) })
	t.Run("HostRules", func(t *testing.T) { testHostRules(t, c, s) })
	t.Run("PathRules", func(t *testing.T) { testPathRules(t, c, s) })
	t.Run("IngressClass", func(t *testing.T) { testIngressClass(t, c, s) })
	t.Run("LoadBalancing", func(t *testing.T) { testLoadBalancing(t, c, s) })
}

var noRoute = cluster.Refused(http.StatusNotFound, "no_route")

// A question is a path or URL and the answer it must get.
type question struct {
	url  string
	want cluster.Want
}

// ask waits for each answer, as Pods become ready one by one, and then wants all of them at once.
func ask(t *testing.T, s *cluster.Sallyport, questions []question) {
	t.Helper()
	for _, q := range questions {
		s.Expect(t, q.url, q.want)
	}
	for _, q := range questions {
		s.Check(t, q.url, q.want)
	}
}

// testDefaultBackend leaves no Ingress behind: its catch-all would answer for the others.
func testDefaultBackend(t *testing.T, c *cluster.Cluster, s *cluster.Sallyport) {
	s.Expect(t, "http://default.test/", noRoute)
	c.Apply(t, ingress("default", ours, "defaultBackend: "+service("fallback")))
	ask(t, s, []question{
		{"http://default.test/", cluster.Served("fallback")},
		{"http://other.test/any/path", cluster.Served("fallback")},
		{"http://192.0.2.7/", cluster.Served("fallback")},
	})
	c.Kubectl(t, "delete", "ingress", "default")
	s.Expect(t, "http://default.test/", noRoute)
}

func testHostRules(t *testing.T, c *cluster.Cluster, s *cluster.Sallyport) {
	c.Apply(t, c.Secret(t, "secure", "exact.host.test")+c.Secret(t, "another", "another.host.test")+ingress("hosts", ours,
		"tls: [{hosts: [exact.host.test], secretName: secure}, {hosts: [another.host.test], secretName: another}]",
		"rules:",
		rule("exact.host.test", "/", "Prefix", "exact"),
		rule("another.host.test", "/", "Prefix", "upper"),
	)+ingress("wild", ours, "rules:", rule("*.wild.test", "/", "Prefix", "wildcard")))
	ask(t, s, []question{
		{"https://exact.host.test/", cluster.Served("exact")},
		{"https://exact.host.test/", shown("exact.host.test")},
		{"https://another.host.test/", cluster.Served("upper")},
		{"https://another.host.test/", shown("another.host.test")},
		{"http://one.wild.test/", cluster.Served("wildcard")},
		{"http://ONE.wild.test:80/", cluster.Served("wildcard")},
		{"http://wild.test/", noRoute},
		{"http://one.two.wild.test/", noRoute},
		{"http://host.test/", noRoute},
		{"http://more.exact.host.test/", noRoute},
	})
}

// shown wants the certificate of a host.
func shown(host string) cluster.Want {
	return func(a cluster.Answer) error { return a.TLS.PeerCertificates[0].VerifyHostname(host) }
}

func testPathRules(t *testing.T, c *cluster.Cluster, s *cluster.Sallyport) {
	c.Apply(t, ingress("paths", ours, "rules:",
		rule("exact.path.test", "/exact", "Exact", "exact"),
		rule("prefix.path.test", "/foo", "Prefix", "prefix", "/aaa/bbb", "Prefix", "longer", "/aaa", "Prefix", "prefix", "/slash/", "Prefix", "slash"),
		rule("case.path.test", "/foo", "Prefix", "prefix", "/FOO", "Exact", "upper"),
		rule("mixed.path.test", "/foo", "Prefix", "prefix", "/foo", "Exact", "exact"),
		rule("trailing.path.test", "/foo/", "Exact", "slash"),
		rule("root.path.test", "/", "Prefix", "fallback", "/aaa", "Prefix", "prefix", "/aaa/bbb", "Prefix", "longer"),
		rule("deep.path.test", "/aaa/bbb", "Prefix", "longer"),
	))
	ask(t, s, []question{
		{"http://exact.path.test/exact", cluster.Served("exact")},
		{"http://exact.path.test/exact/", noRoute},
		{"http://exact.path.test/exact/more", noRoute},
		{"http://exact.path.test/Exact", noRoute},
		{"http://exact.path.test/exac", noRoute},
		{"http://exact.path.test/", noRoute},
		{"http://prefix.path.test/foo", cluster.Served("prefix")},
		{"http://prefix.path.test/foo/", cluster.Served("prefix")},
		{"http://prefix.path.test/foo/bar", cluster.Served("prefix")},
		{"http://prefix.path.test/foobar", noRoute},
		{"http://prefix.path.test/Foo", noRoute},
		{"http://prefix.path.test/aaa", cluster.Served("prefix")},
		{"http://prefix.path.test/aaa/b", cluster.Served("prefix")},
		{"http://prefix.path.test/aaa/bbb", cluster.Served("longer")},
		{"http://prefix.path.test/aaa/bbb/ccc", cluster.Served("longer")},
		{"http://prefix.path.test/aaa/bbbccc", cluster.Served("prefix")},
		{"http://prefix.path.test/slash", cluster.Served("slash")},
		{"http://prefix.path.test/slash/more", cluster.Served("slash")},
		{"http://case.path.test/foo", cluster.Served("prefix")},
		{"http://case.path.test/FOO", cluster.Served("upper")},
		{"http://case.path.test/Foo", noRoute},
		{"http://mixed.path.test/foo", cluster.Served("exact")},
		{"http://mixed.path.test/foo/", cluster.Served("prefix")},
		{"http://trailing.path.test/foo/", cluster.Served("slash")},
		{"http://trailing.path.test/foo", noRoute},
		{"http://root.path.test/", cluster.Served("fallback")},
		{"http://root.path.test/ccc", cluster.Served("fallback")},
		{"http://root.path.test/aaa/ccc", cluster.Served("prefix")},
		{"http://root.path.test/aaa/bbb/", cluster.Served("longer")},
		{"http://deep.path.test/aaa/bbb/ccc", cluster.Served("longer")},
		{"http://deep.path.test/aaa/bb", noRoute},
		{"http://deep.path.test/aaa/bbbxyz", noRoute},
		{"http://deep.path.test/aaa", noRoute},
	})
}

// testIngressClass waits for the status of an Ingress of ours that came later than the foreign one.
func testIngressClass(t *testing.T, c *cluster.Cluster, s *cluster.Sallyport) {
	c.Apply(t, class("foreign", "example.com/other")+ingress("theirs", "foreign", "rules:", rule("theirs.class.test", "/", "Prefix", "exact")))
	c.Apply(t, ingress("mine", ours, "rules:", rule("mine.class.test", "/", "Prefix", "exact")))
	ask(t, s, []question{
		{"http://mine.class.test/", cluster.Served("exact")},
		{"http://theirs.class.test/", noRoute},
	})
	expectStatus(t, c, "mine", "192.0.2.7")
	if got := statusOf(t, c, "theirs"); got != "" {
		t.Errorf("an Ingress of a foreign class shows %q in its status, want nothing", got)
	}
}

func testLoadBalancing(t *testing.T, c *cluster.Cluster, s *cluster.Sallyport) {
	c.Apply(t, ingress("balanced", ours, "rules:", rule("balanced.test", "/", "Prefix", "ten")))
	c.Kubectl(t, "rollout", "status", "deployment/ten", "--timeout=60s")
	e2e.Eventually(t, "each of ten Pods answers two of twenty requests", func() error {
		var pods []string
		for range 20 {
			answer, err := s.Get("http://balanced.test/")
			if err != nil {
				return err
			}
			pods = append(pods, answer.Echo.Pod)
		}
		slices.Sort(pods)
		if distinct := slices.Compact(pods); len(distinct) != 10 || slices.Contains(distinct, "") {
			return fmt.Errorf("%d Pods answered: %q", len(distinct), distinct)
		}
		return nil
	})
}
