//go:build controlplane

package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// statusOf is what stands in the status of an Ingress, addresses and names with commas between them.
func statusOf(t testing.TB, c *cluster.Cluster, name string) string {
	t.Helper()
	ingress, err := c.Client().NetworkingV1().Ingresses("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return addresses(ingress)
}

func addresses(ingress *networkingv1.Ingress) string {
	var all []string
	for _, entry := range ingress.Status.LoadBalancer.Ingress {
		all = append(all, entry.IP+entry.Hostname)
	}
	return strings.Join(all, ",")
}

func expectStatus(t testing.TB, c *cluster.Cluster, name, want string) {
	t.Helper()
	e2e.Eventually(t, fmt.Sprintf("the status of Ingress %s is %q", name, want), func() error {
		if got := statusOf(t, c, name); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// served are two Ingresses of ours and one of another controller, which had its status from that.
func servedAndForeign(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	c.Apply(t, app("web", 1)+class("foreign", "example.com/other")+
		ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web"))+
		ingress("other", ours, "rules:", rule("other.test", "/", "Prefix", "web"))+
		ingress("foreign", "foreign", "rules:", rule("foreign.test", "/", "Prefix", "web")))
	setStatus(t, c, "foreign", "203.0.113.9")
}

// setStatus writes a status the way another controller would.
func setStatus(t testing.TB, c *cluster.Cluster, ingress, address string) {
	t.Helper()
	c.Kubectl(t, "patch", "ingress", ingress, "--subresource=status", "--type=merge",
		fmt.Sprintf(`--patch={"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, address))
}

// TestStatusIsWrittenRestoredAndTakenAway follows the status of Ingresses through the life of a replica.
func TestStatusIsWrittenRestoredAndTakenAway(t *testing.T) {
	c := cluster.Start(t)
	servedAndForeign(t, c)
	s := c.Sallyport(t, "--publish-status-address=lb.example.org,192.0.2.7", "--drain-delay=1s")
	const published = "192.0.2.7,lb.example.org"
	expectStatus(t, c, "web", published)
	expectStatus(t, c, "other", published)

	setStatus(t, c, "web", "203.0.113.1")
	expectStatus(t, c, "web", published)
	c.Kubectl(t, "patch", "ingress", "web", "--subresource=status", "--type=merge", `--patch={"status":{"loadBalancer":null}}`)
	expectStatus(t, c, "web", published)

	c.Apply(t, ingress("later", ours, "rules:", rule("later.test", "/", "Prefix", "web")))
	expectStatus(t, c, "later", published)

	// One that moves to another controller's class keeps what it has until that writes it, and what that writes from then on.
	c.Apply(t, ingress("moves", ours, "rules:", rule("moves.test", "/", "Prefix", "web")))
	expectStatus(t, c, "moves", published)
	c.Apply(t, ingress("moves", "foreign", "rules:", rule("moves.test", "/", "Prefix", "web")))
	s.Expect(t, "http://moves.test/", noRoute)
	if got := statusOf(t, c, "moves"); got != published {
		t.Errorf("an Ingress that is another controller's now shows %q, want nothing to have been written", got)
	}
	setStatus(t, c, "moves", "203.0.113.8")
	setStatus(t, c, "other", "203.0.113.1")
	expectStatus(t, c, "other", published) // so the other change has been seen too

	s.Terminate()
	<-s.Exited()
	if got := statusOf(t, c, "moves"); got != "203.0.113.8" {
		t.Errorf("an Ingress that has moved to another controller's class shows %q, want what that wrote", got)
	}
	for _, name := range []string{"web", "other", "later"} {
		if got := statusOf(t, c, name); got != "" {
			t.Errorf("the last replica has left, and Ingress %s still shows %q", name, got)
		}
	}
	if got := statusOf(t, c, "foreign"); got != "203.0.113.9" {
		t.Errorf("the status of another controller's Ingress is %q, want what it wrote", got)
	}
}

// TestStatusIsContestedMoreAndMoreSlowly lets another controller write the same status without end: it is restored, then
// less and less often, and an Event says that somebody has to decide.
func TestStatusIsContestedMoreAndMoreSlowly(t *testing.T) {
	c := cluster.Start(t)
	servedAndForeign(t, c)
	c.Sallyport(t, "--publish-status-address=192.0.2.7")
	for range 3 {
		expectStatus(t, c, "web", "192.0.2.7")
		setStatus(t, c, "web", "203.0.113.1")
	}
	expectEvent(t, c, "web", "StatusContested", "another controller")
	expectStatus(t, c, "web", "192.0.2.7")
	if got := statusOf(t, c, "other"); got != "192.0.2.7" {
		t.Errorf("the status of an Ingress that nobody contests is %q", got)
	}
}

// TestStatusFollowsTheService publishes the addresses of a Service as its type changes.
func TestStatusFollowsTheService(t *testing.T) {
	c := cluster.Start(t)
	servedAndForeign(t, c)
	c.Apply(t, "---\napiVersion: v1\nkind: Service\nmetadata: {name: edge}\nspec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}\n")
	s := c.Sallyport(t, "--publish-service=default/edge", "--watch-namespace=default")
	patch := func(subresource, patch string) {
		t.Helper()
		args := []string{"patch", "service", "edge", "--type=merge", "--patch=" + patch}
		if subresource != "" {
			args = append(args, "--subresource="+subresource)
		}
		c.Kubectl(t, args...)
	}
	expectStatus(t, c, "web", "198.51.100.10") // the node that runs the Pod
	patch("", `{"spec":{"externalIPs":["192.0.2.20"]}}`)
	expectStatus(t, c, "web", "192.0.2.20")
	patch("", `{"spec":{"type":"LoadBalancer"}}`)
	patch("status", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.30"},{"hostname":"lb.example.org"}]}}}`)
	expectStatus(t, c, "web", "192.0.2.20,192.0.2.30,lb.example.org")
	patch("", `{"spec":{"type":"ClusterIP","externalIPs":null}}`)
	service, err := c.Client().CoreV1().Services("default").Get(t.Context(), "edge", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expectStatus(t, c, "web", service.Spec.ClusterIP)
	patch("", `{"spec":{"type":"ExternalName","externalName":"edge.example.org","clusterIP":null,"clusterIPs":null,"selector":null}}`)
	expectStatus(t, c, "web", "edge.example.org")
	c.Kubectl(t, "delete", "service", "edge")
	e2e.Eventually(t, "the log names the missing Service", func() error {
		if !strings.Contains(s.Log(), "there is no Service default/edge") {
			return errors.New("it does not")
		}
		return nil
	})
	if got := statusOf(t, c, "web"); got != "edge.example.org" {
		t.Errorf("without the Service the status is %q, want it to stay", got)
	}
}

// TestStatusOutlivesTheOnlyPod publishes the node of the only Pod of a Service, which is replaced: for a moment there is none.
func TestStatusOutlivesTheOnlyPod(t *testing.T) {
	c := cluster.Start(t)
	servedAndForeign(t, c)
	c.Apply(t, app("edge", 1)+"---\napiVersion: v1\nkind: Service\nmetadata: {name: edge}\nspec: {type: NodePort, selector: {app: edge}, ports: [{name: http, port: 80, targetPort: http}]}\n")
	s := c.Sallyport(t, "--publish-service=default/edge")
	expectStatus(t, c, "web", "198.51.100.10")
	c.Kubectl(t, "scale", "deployment/edge", "--replicas=0")
	e2e.Eventually(t, "the log says that no node is known", func() error {
		if !strings.Contains(s.Log(), "no node is known") {
			return errors.New("it does not")
		}
		return nil
	})
	if got := statusOf(t, c, "web"); got != "198.51.100.10" {
		t.Errorf("while no Pod is ready the status is %q, want it to stay", got)
	}
	c.Kubectl(t, "delete", "ingress", "other")
	c.Apply(t, ingress("other", ours, "rules:", rule("other.test", "/", "Prefix", "web")))
	c.Kubectl(t, "scale", "deployment/edge", "--replicas=1")
	expectStatus(t, c, "other", "198.51.100.10") // it is known again
}

// TestStatusShowsTheNodesOfThePods publishes what is left when no flag says what to publish.
func TestStatusShowsTheNodesOfThePods(t *testing.T) {
	c := cluster.Start(t)
	servedAndForeign(t, c)
	role, err := os.ReadFile("../../deploy/overlays/hostport/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(role))
	s := c.Sallyport(t)
	e2e.Eventually(t, "the log says that the own Pod is not there", func() error {
		if !strings.Contains(s.Log(), fmt.Sprintf(`pods \"%s\" not found`, s.Name)) {
			return errors.New("it does not")
		}
		return nil
	})
	s.Kill()
	c.Apply(t, fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: sallyport, labels: {app: sallyport, pod-template-hash: x}}
spec:
  serviceAccountName: sallyport
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: sallyport
    image: sallyport
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, c.Next()))
	c.Kubectl(t, "delete", "lease", "sallyport-leader", "--namespace="+cluster.Namespace)
	e2e.Eventually(t, "the Pod runs", func() error {
		if phase := c.Kubectl(t, "get", "pod", c.Next(), "--namespace=sallyport", "--output=jsonpath={.status.phase}"); phase != "Running" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	c.Sallyport(t)
	expectStatus(t, c, "web", "198.51.100.10")
}
