//go:build controlplane

package cluster_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestEveryPermissionIsNeeded takes one permission at a time away, a verb of a resource: the log must name just that one, and
// something must not work then, and go on not to work. With all of them everything works.
func TestEveryPermissionIsNeeded(t *testing.T) {
	c := cluster.Start(t)
	prepareJourneys(t, c)
	r := readRoles(t, c)
	t.Run("they write little", func(t *testing.T) { checkWrites(t, r) })
	t.Run("with all of them", func(t *testing.T) {
		j := begin(t, c, "all", c.Launch)
		e2e.Eventually(t, "everything works", func() error { return j.check(t) })
		for _, g := range r.grants {
			if g.verb == "watch" {
				e2e.Eventually(t, "a change of "+g.resource+" is served", func() error { return j.change(t, g.resource) })
			}
		}
	})
	gate := c.Gate(t)
	gate.Old() // what is listed is needed there only
	for i, g := range r.grants {
		t.Run("without "+g.String(), func(t *testing.T) {
			r.without(t, c, i)
			defer r.restore(t, c)
			launch := c.Launch
			if g.verb == "list" {
				launch = func(t testing.TB, flags ...string) *cluster.Sallyport { return c.LaunchVia(t, gate, flags...) }
			}
			if g.ofTickets() {
				ageTickets(t, c, g)
			}
			j := begin(t, c, fmt.Sprintf("grant-%d", i), launch)
			e2e.Eventually(t, "the log names the permission", func() error { return j.complains(g) })
			if g.ofTickets() {
				ticketsStay(t, c, g)
				return
			}
			j.fails(t, g)
		})
	}
}

// A grant is one permission.
type grant struct{ verb, group, resource, name string }

func (g grant) String() string { return strings.TrimSpace(g.verb + " " + g.resource + " " + g.name) }

func (g grant) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{g.verb}, APIGroups: []string{g.group}, Resources: []string{g.resource}}
	if g.name != "" {
		rule.ResourceNames = []string{g.name}
	}
	return rule
}

const ticketSecret = "sallyport-session-tickets"

// ofTickets reports whether a grant is for the keys of session tickets, without which all is served the same: clients resume
// their sessions at one replica alone.
func (g grant) ofTickets() bool {
	return g.resource == "secrets" && (g.name == ticketSecret || g.verb == "create")
}

// ageTickets leaves no keys where some may not be made, and else one that is due to be replaced.
func ageTickets(t testing.TB, c *cluster.Cluster, g grant) {
	t.Helper()
	secrets := c.Client().CoreV1().Secrets(cluster.Namespace)
	err := secrets.Delete(t.Context(), ticketSecret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if g.verb == "create" {
		return
	}
	old := strconv.FormatInt(time.Now().Add(-24*time.Hour).Unix(), 10)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: ticketSecret}, Data: map[string][]byte{old: make([]byte, 32)},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ticketsStay holds that nothing has become of what ageTickets left.
func ticketsStay(t testing.TB, c *cluster.Cluster, g grant) {
	t.Helper()
	secret, err := c.Client().CoreV1().Secrets(cluster.Namespace).Get(t.Context(), ticketSecret, metav1.GetOptions{})
	switch {
	case g.verb == "create":
		if !apierrors.IsNotFound(err) {
			t.Errorf("the Secret of session tickets: %v, want none", err)
		}
	case err != nil:
		t.Error(err)
	case len(secret.Data) != 1:
		t.Errorf("there are %d keys of session tickets, want the old one", len(secret.Data))
	}
}

// roles are what deploy/ allows Sallyport, in the cluster first and then in its own namespace.
type roles struct {
	grants    []grant
	inCluster int // as many of them
}

func readRoles(t testing.TB, c *cluster.Cluster) (r roles) {
	t.Helper()
	inCluster, err := c.Client().RbacV1().ClusterRoles().Get(t.Context(), "sallyport", metav1.GetOptions{})
	own, ownErr := c.Client().RbacV1().Roles(cluster.Namespace).Get(t.Context(), "sallyport", metav1.GetOptions{})
	if err := errors.Join(err, ownErr); err != nil {
		t.Fatal(err)
	}
	r.add(inCluster.Rules)
	r.inCluster = len(r.grants)
	r.add(own.Rules)
	return r
}

func (r *roles) add(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						r.grants = append(r.grants, grant{verb, group, resource, name})
					}
				}
			}
		}
	}
}

// checkWrites holds what the roles allow to change against a list.
func checkWrites(t *testing.T, r roles) {
	var writes []string
	for _, g := range r.grants {
		if g.verb != "get" && g.verb != "list" && g.verb != "watch" {
			writes = append(writes, g.String())
		}
	}
	slices.Sort(writes)
	want := []string{"create events", "create leases", "create secrets", "patch events", "patch ingresses/status", "update leases sallyport-leader", "update secrets sallyport-session-tickets"}
	if !slices.Equal(writes, want) {
		t.Errorf("the roles allow to %q, want %q", writes, want)
	}
}

// without takes the grants of these numbers away, and waits until the API server goes by it.
func (r roles) without(t testing.TB, c *cluster.Cluster, numbers ...int) {
	t.Helper()
	r.write(t, c, numbers)
	for _, number := range numbers {
		awaitAccess(t, c, r.grants[number], false)
	}
}

func (r roles) restore(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	r.write(t, c, nil)
	for _, g := range r.grants {
		awaitAccess(t, c, g, true)
	}
}

// write has the roles be all grants but those of these numbers.
func (r roles) write(t testing.TB, c *cluster.Cluster, but []int) {
	t.Helper()
	var inCluster, own []rbacv1.PolicyRule
	for i, g := range r.grants {
		switch {
		case slices.Contains(but, i):
		case i < r.inCluster:
			inCluster = append(inCluster, g.rule())
		default:
			own = append(own, g.rule())
		}
	}
	labels := metav1.ObjectMeta{Name: "sallyport"}
	_, err := c.Client().RbacV1().ClusterRoles().Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: labels, Rules: inCluster}, metav1.UpdateOptions{})
	_, ownErr := c.Client().RbacV1().Roles(cluster.Namespace).Update(t.Context(), &rbacv1.Role{ObjectMeta: labels, Rules: own}, metav1.UpdateOptions{})
	if err := errors.Join(err, ownErr); err != nil {
		t.Fatal(err)
	}
}

// awaitAccess waits until the API server allows, or refuses, the ServiceAccount what a grant says.
func awaitAccess(t testing.TB, c *cluster.Cluster, g grant, want bool) {
	t.Helper()
	resource, subresource, _ := strings.Cut(g.resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + cluster.Namespace + ":sallyport",
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: cluster.Namespace, Verb: g.verb, Group: g.group, Resource: resource, Subresource: subresource, Name: g.name,
		},
	}}
	e2e.Eventually(t, "the API server goes by the roles", func() error {
		answer, err := c.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if answer.Status.Allowed != want {
			return fmt.Errorf("%s is allowed: %v", g, answer.Status.Allowed)
		}
		return nil
	})
}

// A journey is one replica and everything it is to do, with an Ingress of its own that has a mistake.
type journey struct {
	*cluster.Sallyport
	c      *cluster.Cluster
	broken string
	begun  time.Time
}

var changes atomic.Int64 // of all journeys, so that each has a name of its own

// prepareJourneys writes what all of them share.
func prepareJourneys(t *testing.T, c *cluster.Cluster) {
	c.Kubectl(t, "label", "namespace", "default", "watched=yes")
	c.Apply(t, app("web", 1)+c.Secret(t, "secure", "secure.test")+
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: edge}\nspec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}\n"+
		configMap("false")+
		ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web"))+
		ingress("old", ours, "rules:", rule("old.test", "/", "Prefix", "missing"))+
		ingress("secure", ours, "tls: [{hosts: [secure.test], secretName: secure}]", "rules:", rule("secure.test", "/", "Prefix", "web")))
	c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
}

// configMap is that of the controller; it says whether hosts with a certificate are served without TLS.
func configMap(redirect string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: options}\ndata: {ssl-redirect: %q}\n", redirect)
}

// begin starts a replica that has to do everything itself: no Lease is there, no status and no Event of its mistake.
func begin(t *testing.T, c *cluster.Cluster, name string, launch func(testing.TB, ...string) *cluster.Sallyport) journey {
	t.Helper()
	c.Kubectl(t, "delete", "lease", "sallyport-leader", "--namespace="+cluster.Namespace, "--ignore-not-found")
	c.Kubectl(t, "patch", "ingress", "web", "--subresource=status", "--type=merge", `--patch={"status":{"loadBalancer":null}}`)
	c.Apply(t, ingress("broken-"+name, ours, "rules:", rule(name+".test", "/", "Prefix", "missing"))+configMap("false"))
	begun := time.Now()
	s := launch(t, "--watch-namespace-selector=watched=yes", "--publish-service=default/edge", "--configmap=default/options",
		"--election-ttl=3s", "--update-status-on-shutdown=false", "--drain-delay=0")
	t.Cleanup(s.Kill) // the next one is not to wait for its Lease
	return journey{s, c, "broken-" + name, begun}
}

// check says what does not work.
func (j journey) check(t testing.TB) error {
	if err := j.Ready(); err != nil {
		return err
	}
	for url, want := range map[string]cluster.Want{
		"http://web.test/": cluster.Served("web"), "https://secure.test/": shown("secure.test"), "http://secure.test/": cluster.Served("web"),
	} {
		if err := j.ask(url, want); err != nil {
			return err
		}
	}
	if leads := j.Metric(t, leading); leads != 1 {
		return errors.New("it does not lead")
	}
	if got := statusOf(t, j.c, "web"); got != "198.51.100.10" {
		return fmt.Errorf("the status is %q, want the node's address", got)
	}
	if n := len(eventsOn(t, j.c, j.broken, "ServiceNotFound")); n != 1 {
		return fmt.Errorf("there are %d Events of a mistake, want one", n)
	}
	old := eventsOn(t, j.c, "old", "ServiceNotFound")
	if len(old) != 1 {
		return fmt.Errorf("there are %d Events of a mistake that others told, want one", len(old))
	}
	if old[0].EventTime.Time.Before(j.begun) && (old[0].Series == nil || old[0].Series.LastObservedTime.Time.Before(j.begun)) {
		return errors.New("another sighting of a mistake that others told is not counted")
	}
	return nil
}

func (j journey) ask(url string, want cluster.Want) error {
	answer, err := j.Get(url)
	if err != nil {
		return err
	}
	if err := want(answer); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}

// change writes something of a resource and returns why it has no effect after a second.
func (j journey) change(t testing.TB, resource string) error {
	name := fmt.Sprintf("change-%d", changes.Add(1))
	host := name + ".test"
	toIt := []string{"rules:", rule(host, "/", "Prefix", name)}
	toWeb := []string{"rules:", rule(host, "/", "Prefix", "web")}
	selecting := "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {%s ports: [{name: http, port: 80, targetPort: http}]}\n"
	url, want := "http://"+host+"/", cluster.Served("web")
	var before, after string
	switch resource {
	case "ingresses":
		after = ingress(name, ours, toWeb...)
	case "ingressclasses":
		before, after = ingress(name, name, toWeb...), class(name, controller)
	case "services":
		before, after = ingress(name, ours, toIt...), fmt.Sprintf(selecting, "selector: {app: web},")
	case "endpointslices":
		pod := j.c.Kubectl(t, "get", "pods", "--selector=app=web", "--output=jsonpath={.items[0].status.podIP}")
		before = ingress(name, ours, toIt...) + fmt.Sprintf(selecting, "")
		after = fmt.Sprintf("---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}\naddressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{addresses: [%[2]q]}]\n", name, pod)
	case "secrets":
		after, url = j.c.Secret(t, "secure", "secure.test"), "https://secure.test/"
		leaf := leafOf(t, after)
		want = func(a cluster.Answer) error {
			if !bytes.Equal(a.TLS.PeerCertificates[0].Raw, leaf) {
				return errors.New("the certificate is another")
			}
			return nil
		}
	case "configmaps":
		url = "http://secure.test/"
		if j.c.Kubectl(t, "get", "configmap", "options", "--output=jsonpath={.data.ssl-redirect}") == "true" {
			after = configMap("false")
			break
		}
		after, want = configMap("true"), func(a cluster.Answer) error {
			if a.StatusCode != http.StatusPermanentRedirect {
				return fmt.Errorf("%s, want a redirect", a.Status)
			}
			return nil
		}
	case "namespaces":
		before = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n" +
			strings.Replace(ingress(name, ours, toIt...), "metadata: {name:", "metadata: {namespace: "+name+", name:", 1)
		after = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {watched: \"yes\"}}\n"
		want = func(a cluster.Answer) error {
			if a.StatusCode != http.StatusServiceUnavailable {
				return fmt.Errorf("%s, want 503, because the Service does not exist", a.Status)
			}
			return nil
		}
	default:
		t.Fatalf("no change of %s is known here", resource)
	}
	if before != "" {
		j.c.Apply(t, before)
	}
	j.c.Apply(t, after)
	deadline := time.Now().Add(time.Second)
	for {
		err := j.ask(url, want)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		j.CloseIdleConnections() // a new certificate is shown to new connections
		<-time.After(20 * time.Millisecond)
	}
}

// leafOf is the certificate in the manifest of a Secret.
func leafOf(t testing.TB, manifest string) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(manifest, "tls.crt: ")
	line, _, _ := strings.Cut(rest, "\n")
	text, err := strconv.Unquote(line)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(text))
	return block.Bytes
}

// fails wants something not to work without a grant, and not for a moment only.
func (j journey) fails(t testing.TB, g grant) {
	t.Helper()
	if g.verb == "watch" {
		// What cannot be watched is listed again and again, more and more seldom.
		e2e.Eventually(t, "it has been listed often enough", func() error {
			if lists := time.Since(j.begun); lists < 6*time.Second {
				return fmt.Errorf("for %v", lists)
			}
			return nil
		})
		var err error
		for range 2 {
			err = errors.Join(err, j.change(t, g.resource))
		}
		if err == nil {
			t.Errorf("changes of %s are served at once without the permission: it is not needed", g.resource)
		}
		t.Logf("as it should be: %v", err)
		return
	}
	var since time.Time // it has not worked; a Lease that cannot be renewed is good for a while
	e2e.Eventually(t, "something does not work for three seconds", func() error {
		switch err := j.check(t); {
		case err == nil:
			since = time.Time{}
			return errors.New("everything works: the permission is not needed")
		case since.IsZero():
			since = time.Now()
			return err
		case time.Since(since) < 3*time.Second:
			return err
		default:
			t.Logf("as it should be: %v", err)
			return nil
		}
	})
}

// complains returns nil when the log says that this permission is missing.
func (j journey) complains(g grant) error {
	if complaint := fmt.Sprintf(`cannot %s resource \"%s\"`, g.verb, g.resource); !strings.Contains(j.Log(), complaint) {
		return fmt.Errorf("it does not say %s", complaint)
	}
	return nil
}
