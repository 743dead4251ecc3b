//go:build controlplane

package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/acme"
	"sallyport/e2e/cluster"
)

// startOrdering starts a cluster, in which Sallyport may keep what it orders, and an authority that knows the hosts.
func startOrdering(t *testing.T, hosts ...string) (*cluster.Cluster, *acme.Authority) {
	t.Helper()
	c, a := cluster.Start(t), acme.Start(t, acme.Options{RejectedNonces: 10})
	role, err := os.ReadFile("../../deploy/overlays/acme/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(role)+app("web", 2))
	a.Knows(hosts...)
	return c, a
}

// replicas starts two of them, to which the hosts lead in turn.
func replicas(t *testing.T, c *cluster.Cluster, a *acme.Authority, flags ...string) (leader, other *cluster.Sallyport) {
	t.Helper()
	flags = append(a.Flags("--election-ttl=3s", "--drain-delay=0"), flags...)
	first, second := c.Sallyport(t, flags...), c.Sallyport(t, flags...)
	a.Finds(first.Process, second.Process)
	leader, others := leaderOf(t, first, second)
	return leader, others[0]
}

// ordered is an Ingress that asks for certificates for its hosts.
func ordered(name string, hosts ...string) string {
	var rules []string
	for _, host := range hosts {
		rules = append(rules, rule(host, "/", "Prefix", "web"))
	}
	spec := append([]string{fmt.Sprintf("tls: [{hosts: [%s], secretName: %s-tls}]", strings.Join(hosts, ", "), name), "rules:"}, rules...)
	return strings.Replace(ingress(name, ours, spec...), "metadata: {", `metadata: {annotations: {ingress.kubernetes.io/acme: "true"}, `, 1)
}

func expectShown(t *testing.T, a *acme.Authority, host string, replicas ...*cluster.Sallyport) {
	t.Helper()
	for _, s := range replicas {
		e2e.Eventually(t, s.Name+" shows a certificate for "+host, func() error {
			_, err := a.Shown(s.HTTPS, host)
			return err
		})
	}
}

// TestACertificateIsThereSoonAfterItsIngress orders by each kind of challenge, with two replicas that the authority meets in
// turn: one order a host, whose certificate is a Secret to look at.
func TestACertificateIsThereSoonAfterItsIngress(t *testing.T) {
	c, a := startOrdering(t, "http.test", "alpn.test")
	for _, kind := range []struct{ name, challenge string }{{"http", "http-01"}, {"alpn", "tls-alpn-01"}} {
		t.Run(kind.challenge, func(t *testing.T) {
			leader, other := replicas(t, c, a, "--acme-challenges="+kind.challenge)
			host := kind.name + ".test"
			created := time.Now()
			c.Apply(t, ordered(kind.name, host))
			expectShown(t, a, host, leader, other)
			t.Logf("both replicas show the certificate %v after the Ingress was created", time.Since(created).Round(time.Millisecond))
			if n := leader.Metric(t, "sallyport_acme_orders_total") + other.Metric(t, "sallyport_acme_orders_total"); n != 1 {
				t.Errorf("the replicas made %v orders, want 1", n)
			}
			if n := other.Metric(t, "sallyport_acme_orders_total"); n != 0 {
				t.Errorf("the replica that does not lead made %v orders", n)
			}
			secret, err := c.Client().CoreV1().Secrets(cluster.Namespace).Get(t.Context(), "acme."+host, metav1.GetOptions{})
			if err != nil || secret.Type != "kubernetes.io/tls" || secret.Labels["app.kubernetes.io/managed-by"] != "sallyport" {
				t.Errorf("the Secret of the certificate: %v, %v", secret, err)
			}
			if events := eventsOn(t, c, kind.name, "SecretNotFound"); len(events) > 0 {
				t.Errorf("a Secret is missed that is not needed: %v", events)
			}
		})
	}
	t.Run("a host that leads elsewhere", func(t *testing.T) {
		leader, _ := replicas(t, c, a)
		a.Names.Set("away.test", e2e.Records{Addresses: []string{"127.0.0.9"}})
		c.Apply(t, ordered("away", "away.test"))
		expectEvent(t, c, "away", "CertificateNotIssued", "does not get through to away.test on port 80: does its DNS lead here")
		e2e.Eventually(t, "the page of routes says so", func() error {
			if text := leader.AdminGet(t, "/routes"); !strings.Contains(text, "# away.test: no certificate is had: the certificate authority does not get through") {
				return errors.New(text)
			}
			return nil
		})
	})
}

// TestTheLeaderIsKilledBetweenOrderAndAnswer has the next one go on with the order: there is one, and one certificate.
func TestTheLeaderIsKilledBetweenOrderAndAnswer(t *testing.T) {
	c, a := startOrdering(t, "a.test")
	leader, other := replicas(t, c, a)
	waiting, free := a.Hold(acme.ChallengePath)
	c.Apply(t, ordered("a", "a.test"))
	e2e.Eventually(t, "the leader is about to tell the authority of an answer", func() error {
		if waiting() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	leader.Kill()
	killed := time.Now()
	a.Finds(other.Process)
	e2e.Eventually(t, "what it was about to say is lost", func() error {
		if waiting() > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	free()
	expectShown(t, a, "a.test", other)
	t.Logf("the other replica has the certificate %v after the leader was killed", time.Since(killed).Round(time.Millisecond))
	if n := other.Metric(t, "sallyport_acme_orders_total"); n != 0 {
		t.Errorf("the next leader made %v orders, want none: it goes on with that of the last", n)
	}
	if text := other.Log(); !strings.Contains(text, "go on with an order") {
		t.Errorf("it does not say that it goes on with an order:\n%s", text)
	}
}
