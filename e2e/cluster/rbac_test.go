//go:build controlplane

package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestEveryRuleOfTheRolesIsNeeded takes one rule at a time away: something must fail then, and the log must say which
// permission is missing. With all of them everything works.
func TestEveryRuleOfTheRolesIsNeeded(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 1)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web"))+
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: edge}\nspec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}\n")
	c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	r := readRoles(t, c)
	t.Run("they write little", func(t *testing.T) { checkWrites(t, r) })
	t.Run("with all rules", func(t *testing.T) {
		j := begin(t, c, "all")
		e2e.Eventually(t, "everything works", func() error { return j.check(t) })
	})
	for i, rule := range r.all() {
		t.Run("without "+strings.Join(rule.Verbs, ",")+" of "+strings.Join(rule.Resources, ","), func(t *testing.T) {
			r.without(t, c, i)
			defer r.restore(t, c)
			j := begin(t, c, fmt.Sprintf("rule-%d", i))
			e2e.Eventually(t, "the log names the permission", func() error { return j.complains(rule) })
			if err := j.check(t); err == nil {
				t.Error("everything works without this rule: it is not needed")
			} else {
				t.Logf("as it should be: %v", err)
			}
		})
	}
}

// checkWrites holds the verbs of the roles that change anything against a list.
func checkWrites(t *testing.T, r roles) {
	var writes []string
	for _, rule := range r.all() {
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				if verb != "get" && verb != "list" && verb != "watch" {
					writes = append(writes, verb+" "+resource+" "+strings.Join(rule.ResourceNames, ","))
				}
			}
		}
	}
	slices.Sort(writes)
	want := []string{"create events ", "create leases ", "patch events ", "patch ingresses/status ", "update leases sallyport-leader"}
	if !slices.Equal(writes, want) {
		t.Errorf("the roles allow to %q, want %q", writes, want)
	}
}

// roles are what deploy/ allows Sallyport, in the cluster and in its own namespace.
type roles struct {
	cluster *rbacv1.ClusterRole
	own     *rbacv1.Role
}

func readRoles(t testing.TB, c *cluster.Cluster) (r roles) {
	t.Helper()
	var problems [2]error
	r.cluster, problems[0] = c.Client().RbacV1().ClusterRoles().Get(t.Context(), "sallyport", metav1.GetOptions{})
	r.own, problems[1] = c.Client().RbacV1().Roles(cluster.Namespace).Get(t.Context(), "sallyport", metav1.GetOptions{})
	if err := errors.Join(problems[:]...); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r roles) all() []rbacv1.PolicyRule { return slices.Concat(r.cluster.Rules, r.own.Rules) }

// without takes the rule away that has this place in all, and waits until the API server goes by it.
func (r roles) without(t testing.TB, c *cluster.Cluster, i int) {
	t.Helper()
	inCluster, own := slices.Clone(r.cluster.Rules), slices.Clone(r.own.Rules)
	if i < len(inCluster) {
		inCluster = slices.Delete(inCluster, i, i+1)
	} else {
		own = slices.Delete(own, i-len(inCluster), i-len(inCluster)+1)
	}
	write(t, c, inCluster, own)
	awaitAccess(t, c, r.all()[i], false)
}

func (r roles) restore(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	write(t, c, r.cluster.Rules, r.own.Rules)
	for _, rule := range r.all() {
		awaitAccess(t, c, rule, true)
	}
}

func write(t testing.TB, c *cluster.Cluster, inCluster, own []rbacv1.PolicyRule) {
	t.Helper()
	now := readRoles(t, c)
	now.cluster.Rules, now.own.Rules = inCluster, own
	_, err := c.Client().RbacV1().ClusterRoles().Update(t.Context(), now.cluster, metav1.UpdateOptions{})
	_, ownErr := c.Client().RbacV1().Roles(cluster.Namespace).Update(t.Context(), now.own, metav1.UpdateOptions{})
	if err := errors.Join(err, ownErr); err != nil {
		t.Fatal(err)
	}
}

// awaitAccess waits until the API server allows, or refuses, the ServiceAccount what a rule says.
func awaitAccess(t testing.TB, c *cluster.Cluster, rule rbacv1.PolicyRule, want bool) {
	t.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: cluster.Namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
	}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + cluster.Namespace + ":sallyport", ResourceAttributes: attributes,
	}}
	e2e.Eventually(t, "the API server goes by the roles", func() error {
		answer, err := c.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if answer.Status.Allowed != want {
			return fmt.Errorf("%s %s is allowed: %v", rule.Verbs[0], rule.Resources[0], answer.Status.Allowed)
		}
		return nil
	})
}

// A journey is one replica and everything it is to do, with an Ingress of its own that has a mistake.
type journey struct {
	*cluster.Sallyport
	c      *cluster.Cluster
	broken string
}

// begin starts a replica that has to do everything itself: no Lease is there, no status and no Event.
func begin(t *testing.T, c *cluster.Cluster, name string) journey {
	t.Helper()
	c.Kubectl(t, "delete", "lease", "sallyport-leader", "--namespace="+cluster.Namespace, "--ignore-not-found")
	c.Kubectl(t, "patch", "ingress", "web", "--subresource=status", "--type=merge", `--patch={"status":{"loadBalancer":null}}`)
	c.Apply(t, ingress("broken-"+name, ours, "rules:", rule(name+".test", "/", "Prefix", "missing")))
	s := c.Launch(t, "--watch-namespace-selector=kubernetes.io/metadata.name=default", "--publish-service=default/edge", "--update-status-on-shutdown=false", "--drain-delay=0")
	return journey{s, c, "broken-" + name}
}

// check says what does not work.
func (j journey) check(t testing.TB) error {
	if err := j.Ready(); err != nil {
		return err
	}
	answer, err := j.Get("http://web.test/")
	if err == nil {
		err = cluster.Served("web")(answer)
	}
	if err != nil {
		return err
	}
	if got := statusOf(t, j.c, "web"); got != "198.51.100.10" {
		return fmt.Errorf("the status is %q, want the node's address", got)
	}
	if n := len(eventsOn(t, j.c, j.broken, "ServiceNotFound")); n != 1 {
		return fmt.Errorf("there are %d Events of a mistake, want one", n)
	}
	return nil
}

// complains returns nil when the log says that a permission of the rule is missing.
func (j journey) complains(rule rbacv1.PolicyRule) error {
	log := j.Log()
	for _, verb := range rule.Verbs {
		for _, resource := range rule.Resources {
			if strings.Contains(log, fmt.Sprintf(`cannot %s resource \"%s\"`, verb, resource)) {
				return nil
			}
		}
	}
	return fmt.Errorf("it has no word about %v of %v", rule.Verbs, rule.Resources)
}
