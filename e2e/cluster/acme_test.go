//go:build controlplane

package cluster_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestASecretOfAnothersStays though it has the name of one that is kept: the author of the Ingress is told, nothing is ordered.
func TestASecretOfAnothersStays(t *testing.T) {
	c, a := startOrdering(t, "a.test")
	secrets := c.Client().CoreV1().Secrets(cluster.Namespace)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "acme-account"}, Data: map[string][]byte{"password": []byte("hunter2")}}
	if _, err := secrets.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leader, other := replicas(t, c, a)
	c.Apply(t, ordered("a", "a.test"))
	expectEvent(t, c, "a", "CertificateNotIssued", "the Secret "+cluster.Namespace+"/acme-account is not one that Sallyport keeps")
	if now, err := secrets.Get(t.Context(), "acme-account", metav1.GetOptions{}); err != nil || !maps.EqualFunc(now.Data, theirs.Data, bytes.Equal) || len(now.Labels) > 0 {
		t.Errorf("the Secret is %v, %v; want it as it was", now, err)
	}
	if n := leader.Metric(t, "sallyport_acme_orders_total") + other.Metric(t, "sallyport_acme_orders_total"); n != 0 {
		t.Errorf("%v orders were made, without an account", n)
	}
}

// TestOrdersForOneNamespace watches no other, and not the one in which certificates are kept either, but for those.
func TestOrdersForOneNamespace(t *testing.T) {
	c, a := startOrdering(t, "a.test", "other.test")
	c.Kubectl(t, "create", "namespace", "other")
	keepExpired(t, c)
	leader, other := replicas(t, c, a, "--watch-namespace=default")
	c.Apply(t, strings.Replace(ordered("other", "other.test"), "metadata: {", "metadata: {namespace: other, ", 1)+ordered("a", "a.test"))
	expectShown(t, a, "a.test", leader, other)
	for _, s := range []*cluster.Sallyport{leader, other} {
		s.Expect(t, "https://a.test/", cluster.Served("web")) // once its Pods are ready
		if _, err := a.Shown(s.HTTPS, "other.test"); err == nil {
			t.Errorf("%s shows a certificate for a host of a namespace that is not watched", s.Name)
		}
	}
	if n := leader.Metric(t, "sallyport_acme_orders_total"); n != 1 {
		t.Errorf("%v orders were made, want 1: that for the namespace that is watched", n)
	}

	secrets := c.Client().CoreV1().Secrets(cluster.Namespace)
	e2e.Eventually(t, "the certificate of a host that has been gone for long is deleted", func() error {
		if _, err := secrets.Get(t.Context(), "acme.gone.test", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	for _, name := range []string{"acme.theirs.test", "acme.copied.test", "gone-tls", "acme.a.test", "acme-account"} {
		if _, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("Secret %s: %v", name, err)
		}
	}
}

// keepExpired has certificates in the controller's namespace that ended fifteen days ago: one as the controller writes them,
// and some that are not quite so, which are somebody's.
func keepExpired(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	root := e2e.NewAuthority(t, "root")
	for _, s := range []struct {
		name, host string
		ours       bool
		directory  string
	}{
		{"acme.gone.test", "gone.test", true, "https://acme.test/directory"},
		{"acme.theirs.test", "theirs.test", false, "https://acme.test/directory"},
		{"acme.copied.test", "gone.test", true, "https://acme.test/directory"},
		{"gone-tls", "gone.test", true, ""},
	} {
		certificate, key := e2e.PairPEM(t, root.Issue(t, s.host, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-100*24*time.Hour), time.Now().Add(-15*24*time.Hour)
		}))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": certificate, "tls.key": key, "acme-directory": []byte(s.directory)}}
		if s.ours {
			secret.Labels = map[string]string{"app.kubernetes.io/managed-by": "sallyport", "app.kubernetes.io/component": "acme"}
		}
		if _, err := c.Client().CoreV1().Secrets(cluster.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
