package controller

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"sallyport/certs/acme"
)

// asking is an Ingress that asks for certificates.
func asking(name, tls string, hosts ...string) string {
	return strings.Replace(withTLS(name, tls, hosts...), "metadata: {", `metadata: {annotations: {ingress.kubernetes.io/acme: "true"}, `, 1)
}

// TestWhichHostsAreOrderedFor: those with TLS that no certificate covers, of Ingresses that ask.
func TestWhichHostsAreOrderedFor(t *testing.T) {
	now := time.Now()
	const host = " Ingress default/i: spec.rules[0].host: "
	for _, c := range []struct {
		name      string
		ingresses []string
		off       bool // nothing is ordered at all
		want      string
		problems  []string
	}{
		{"no Secret is named", []string{asking("i", "[{hosts: [a.test]}]", "a.test")}, false, "a.test", nil},
		{"an entry without hosts", []string{asking("i", "[{}]", "a.test", "b.test")}, false, "a.test b.test", nil},
		{"the Secret does not exist", []string{asking("i", "[{hosts: [a.test, b.test], secretName: none}]", "a.test", "b.test")}, false, "a.test b.test", nil},
		{"the Secret is one of two that exist", []string{asking("i", "[{hosts: [a.test], secretName: a}, {hosts: [b.test]}]", "a.test", "b.test")}, false, "b.test", nil},
		{"the Secret is for another host", []string{asking("i", "[{hosts: [b.test], secretName: a}]", "b.test")}, false, "b.test", nil},
		{"nobody asks", []string{withTLS("i", "[{hosts: [a.test]}]", "a.test")}, false, "", nil},
		{"one of two Ingresses asks", []string{withTLS("z", "[{}]", "a.test"), asking("i", "[{}]", "a.test")}, false, "a.test", []string{"error Ingress default/i: spec.rules[0].http.paths[0].path: PathConflict"}},
		{"another namespace asks for a host", []string{
			withTLS("z", "[{}]", "a.test"),
			strings.Replace(strings.Replace(asking("i", "[{}]", "a.test"), "metadata: {", "metadata: {namespace: a, ", 1), "path: /,", "path: /x,", 1),
		}, false, "", []string{"warning Ingress a/i: spec.rules[0].host: SharedHost", "error Ingress a/i: spec.rules[0].http.paths[0].backend.service.name: ServiceNotFound"}},
		{"a wildcard", []string{asking("i", "[{}]", "*.w.test")}, false, "", []string{"warning" + host + ReasonNotOrdered}},
		{"no TLS", []string{strings.Replace(pathTo("i", "a.test", "/"), "metadata: {", `metadata: {annotations: {ingress.kubernetes.io/acme: "true"}, `, 1)}, false, "", []string{"warning Ingress default/i: spec.tls: " + ReasonNotOrdered}},
		{"nobody agreed to the terms", []string{asking("i", "[{hosts: [a.test], secretName: none}]", "a.test")}, true, "", []string{"warning" + host + ReasonNotOrdered, "error Ingress default/i: spec.tls[0].secretName: " + ReasonSecretNotFound}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := everyIngress()
			if !c.off {
				o.ACMENamespace = "own"
			}
			s := snapshotOf(t, append(c.ingresses, webService)...)
			s.Set(secretFor(t, "a", now, "a.test"))
			b := NewBuilder(o)
			r := b.Build(s)
			var hosts []string
			for _, order := range b.Orders() {
				hosts = append(hosts, order.Name)
				if order.Pair != nil {
					t.Errorf("%s has a certificate already", order.Name)
				}
			}
			if got := strings.Join(hosts, " "); got != c.want {
				t.Errorf("ordered for %q, want %q", got, c.want)
			}
			wantProblems(t, r.Problems, c.problems...)
		})
	}
}

// TestAnOrderedCertificateIsServed when its Secret comes, builds no table, and gives way to one that the Ingress has itself.
func TestAnOrderedCertificateIsServed(t *testing.T) {
	now := time.Now()
	o := everyIngress()
	o.ACMENamespace = "own"
	s := snapshotOf(t, webService, asking("i", "[{hosts: [a.test], secretName: a}]", "a.test"))
	b := NewBuilder(o)
	b.Build(s)
	secret := secretFor(t, "x", now, "a.test")
	s.Set(OrderedSecret("own", acme.CertificateName("a.test"), map[string][]byte{
		acme.CertificateKey: secret.Data[corev1.TLSCertKey], acme.PrivateKeyKey: secret.Data[corev1.TLSPrivateKeyKey], acme.DirectoryKey: []byte("https://ca.test"),
	}))
	r := b.Build(s)
	if got := shown(t, r.Certificates, "a.test"); got != "a.test" || r.TableChanged {
		t.Errorf("a.test gets the certificate %q, another table: %v", got, r.TableChanged)
	}
	orders := b.Orders()
	if len(orders) != 1 || orders[0].Pair == nil || orders[0].Directory != "https://ca.test" || orders[0].Ingress.Name != "i" || orders[0].Field != "spec.rules[0].host" {
		t.Errorf("the orders are %+v", orders)
	}
	wantProblems(t, r.Problems)

	s.Set(secretFor(t, "a", now, "a.test"))
	r = b.Build(s)
	if got := shown(t, r.Certificates, "a.test"); got != "a.test" || len(b.Orders()) != 0 {
		t.Errorf("with a Secret of its own a.test gets %q and there are orders %+v", got, b.Orders())
	}
	s.Delete(Ref{"Secret", "default", "a"})
	b.Build(s)
	s.Delete(Ref{"Ingress", "default", "i"})
	b.Build(s)
	if len(b.Orders()) != 0 || len(b.secrets) != 0 || len(b.certificates) != 0 {
		t.Errorf("without the Ingress there are orders %+v, and Secrets are remembered: %v, %v", b.Orders(), b.secrets, b.certificates)
	}
}
