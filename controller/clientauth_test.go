package controller

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/proxy"
)

// TestWhoseWordOnClientCertificatesCounts: what was to be guarded never stands open, and nobody closes another namespace's
// host. A route that asks answers 400, because nobody shows a certificate; one that stands open goes upstream, in vain.
func TestWhoseWordOnClientCertificatesCounts(t *testing.T) {
	const asks, closed, open, none = proxy.NoClientCert, proxy.ClientCertOnly, proxy.ClientClosed, proxy.NoRoute
	secret := func(namespace, name string, text []byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"ca.crt": text}}
	}
	one, two := e2e.NewAuthority(t, "one").PEM(), e2e.NewAuthority(t, "two").PEM()
	ingress := func(age, namespace, name, host, path, secret string) string {
		text := pathTo(name, host, path)
		annotations := ""
		if secret != "" {
			annotations = ", annotations: {nginx.ingress.kubernetes.io/auth-tls-secret: " + secret + "}"
		}
		return strings.Replace(text, "{name: "+name+"}", "{name: "+name+", namespace: "+namespace+", creationTimestamp: \"2026-01-0"+age+"T00:00:00Z\""+annotations+"}", 1)
	}
	const theirs = "error Ingress b/i: spec.rules[0].host: ClientAuthConflict"
	for _, c := range []struct {
		name      string
		ingresses []string
		at        map[string]proxy.Reason // by path
		policy    bool                    // handshakes ask
		problems  []string                // of client certificates
	}{
		{"one asks for all", []string{ingress("1", "a", "i", "h.test", "/i", ""), ingress("2", "a", "j", "h.test", "/j", "one")}, map[string]proxy.Reason{"/i": asks, "/j": asks, "/none": asks}, true, nil},
		{"the older asks for all", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "b", "i", "h.test", "/j", "")}, map[string]proxy.Reason{"/i": asks, "/j": asks, "/none": asks}, true, nil},
		{"both ask for the same", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "a", "j", "h.test", "/j", "same")}, map[string]proxy.Reason{"/i": asks, "/j": asks, "/none": asks}, true, nil},
		{"they disagree", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "a", "j", "h.test", "/j", "two"), ingress("3", "a", "k", "h.test", "/k", "")},
			map[string]proxy.Reason{"/i": closed, "/j": closed, "/k": closed, "/none": closed}, false, []string{"error Ingress a/i: spec.rules[0].host: ClientAuthConflict", "error Ingress a/j: spec.rules[0].host: ClientAuthConflict"}},
		{"one is broken", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "a", "j", "h.test", "/j", "none")}, map[string]proxy.Reason{"/i": closed, "/j": closed, "/none": closed}, false, nil},
		{"another namespace asks", []string{ingress("1", "a", "i", "h.test", "/i", ""), ingress("2", "b", "i", "h.test", "/j", "one")}, map[string]proxy.Reason{"/i": open, "/j": closed, "/none": none}, false, []string{theirs}},
		{"another namespace asks for something else", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "b", "i", "h.test", "/j", "two")}, map[string]proxy.Reason{"/i": asks, "/j": closed, "/none": asks}, true, []string{theirs}},
		{"another namespace asks for the same", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "b", "i", "h.test", "/j", "one")}, map[string]proxy.Reason{"/i": asks, "/j": asks}, true, nil},
		{"another namespace's is broken", []string{ingress("1", "a", "i", "h.test", "/i", ""), ingress("2", "b", "i", "h.test", "/j", "none")}, map[string]proxy.Reason{"/i": open, "/j": closed, "/none": none}, false, nil},
		{"another namespace's is broken where one asks", []string{ingress("1", "a", "i", "h.test", "/i", "one"), ingress("2", "b", "i", "h.test", "/j", "none")}, map[string]proxy.Reason{"/i": asks, "/j": closed, "/none": asks}, true, nil},
		{"the other namespace's path under ours", []string{ingress("1", "a", "i", "h.test", "/", "one"), ingress("2", "b", "i", "h.test", "/j", "")}, map[string]proxy.Reason{"/": asks, "/j": asks}, true, nil},
		{"no host", []string{ingress("1", "a", "i", "", "/i", "one"), ingress("2", "b", "i", "", "/j", "")}, map[string]proxy.Reason{"/i": closed, "/j": open}, false, []string{"error Ingress a/i: spec.rules[0]: ClientAuthConflict"}},
	} {
		s := new(Snapshot)
		for _, namespace := range []string{"a", "b"} {
			for _, o := range objects(t, webService) {
				o.SetNamespace(namespace)
				s.Set(o)
			}
			for name, text := range map[string][]byte{"one": one, "two": two, "same": one} {
				s.Set(secret(namespace, name, text))
			}
		}
		b := NewBuilder(everyIngress())
		b.Build(s)
		for _, text := range c.ingresses { // one by one: what is built upon must not matter
			for _, o := range objects(t, text) {
				s.Set(o)
			}
			b.Build(s)
		}
		for _, r := range []Result{b.Build(s), NewBuilder(everyIngress()).Build(s)} {
			host := "h.test"
			if c.name == "no host" {
				host = "x.test"
			}
			for path, want := range c.at {
				if got, reason := ask(t, r, host, path); reason != want || reason == closed && got != 403 {
					t.Errorf("%s: %s is answered %d (%s), want %s", c.name, path, got, reason, want)
				}
			}
			h := r.Certificates.ByHost["h.test"]
			if policy := h != nil && h.Policy.Clients() != nil; policy != c.policy {
				t.Errorf("%s: handshakes ask %v, want %v", c.name, policy, c.policy)
			}
			var found []string
			for _, p := range r.Problems {
				if p.Reason == ReasonClientAuth {
					found = append(found, p.Severity.String()+" "+p.Object.String()+": "+p.Field+": "+p.Reason)
				}
			}
			if strings.Join(found, "\n") != strings.Join(c.problems, "\n") {
				t.Errorf("%s: problems\n%s\nwant\n%s", c.name, strings.Join(found, "\n"), strings.Join(c.problems, "\n"))
			}
		}
	}
}

// TestACASecretThatComesAndGoes: the host is closed without it, and asks again when it is back.
func TestACASecretThatComesAndGoes(t *testing.T) {
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca"}, Data: map[string][]byte{"ca.crt": e2e.NewAuthority(t, "root").PEM()}}
	s := snapshotOf(t, webService, strings.Replace(pathTo("i", "h.test", "/"), "{name: i}", "{name: i, annotations: {nginx.ingress.kubernetes.io/auth-tls-secret: default/ca}}", 1))
	b := NewBuilder(everyIngress())
	for i, want := range []proxy.Reason{proxy.ClientCertOnly, proxy.NoClientCert, proxy.ClientCertOnly, proxy.NoClientCert} {
		if i%2 == 1 {
			s.Set(ca)
		} else {
			s.Delete(Ref{"Secret", "default", "ca"})
		}
		r := b.Build(s)
		if _, got := ask(t, r, "h.test", "/"); got != want {
			t.Errorf("step %d: %s, want %s", i, got, want)
		}
		if asks := r.Certificates.ByHost["h.test"] != nil; asks != (i%2 == 1) {
			t.Errorf("step %d: handshakes ask: %v", i, asks)
		}
	}
}

// TestAliasesThatAreExpressionsAskClients: the handshake for such a name is its host's, for as long as there is one; the order of
// expressions is that of the table.
func TestAliasesThatAreExpressionsAskClients(t *testing.T) {
	guarded := func(name, host, alias string) string {
		return strings.Replace(pathTo(name, host, "/"), "{name: "+name+"}", "{name: "+name+", annotations: {nginx.ingress.kubernetes.io/auth-tls-secret: default/ca, nginx.ingress.kubernetes.io/server-alias: '"+alias+"'}}", 1)
	}
	s := snapshotOf(t, webService, guarded("a", "a.test", "~^x.*[.]test$"), guarded("b", "b.test", "~^xy.*[.]test$"))
	s.Set(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca"}, Data: map[string][]byte{"ca.crt": e2e.NewAuthority(t, "one").PEM()}})
	b := NewBuilder(everyIngress())
	shown := func() (names []string) {
		for _, p := range b.Build(s).Certificates.Patterns {
			names = append(names, p.Name)
			if p.Host.Policy.Clients() == nil {
				t.Errorf("clients who come for %s are asked for nothing", p.Name)
			}
		}
		return names
	}
	if got := shown(); !slices.Equal(got, []string{"~^x.*[.]test$", "~^xy.*[.]test$"}) {
		t.Errorf("handshakes are for the expressions %q, want both in order", got)
	}
	s.Delete(Ref{"Ingress", "default", "a"})
	if got := shown(); !slices.Equal(got, []string{"~^xy.*[.]test$"}) {
		t.Errorf("without the first host handshakes are for the expressions %q", got)
	}
	s.Delete(Ref{"Ingress", "default", "b"})
	if got := shown(); len(got) != 0 {
		t.Errorf("without any host handshakes are for the expressions %q", got)
	}
}
