package controller

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/certs"
	"sallyport/proxy"
)

// secretFor is a Secret with a certificate for hosts that is valid for a day around now.
func secretFor(t testing.TB, name string, now time.Time, hosts ...string) *corev1.Secret {
	t.Helper()
	return secretWith(t, name, newKey(t), &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: hosts, NotBefore: now.Add(-12 * time.Hour), NotAfter: now.Add(12 * time.Hour)})
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func withTLS(name, tls string, hosts ...string) string {
	var rules []string
	for _, host := range hosts {
		rules = append(rules, `{host: "`+host+`", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}`)
	}
	return ingressOf(name, "tls: "+tls+"\nrules: ["+strings.Join(rules, ", ")+"]")
}

// shown is the subject alternative names of the certificate that a name gets, "default" for the default one.
func shown(t testing.TB, c certs.Certificates, host string) string {
	t.Helper()
	var store certs.Store
	store.Set(c)
	pair, err := store.GetCertificate(&tls.ClientHelloInfo{ServerName: host})
	if err != nil {
		t.Fatal(err)
	}
	if len(pair.Leaf.DNSNames) == 1 && pair.Leaf.DNSNames[0] == "ingress.local" {
		return "default"
	}
	return strings.Join(pair.Leaf.DNSNames, " ")
}

func TestCertificateOfAHost(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	secrets := []*corev1.Secret{
		secretFor(t, "a", now, "a.test"),
		secretFor(t, "b", now, "b.test"),
		secretFor(t, "wild", now, "*.w.test"),
		secretFor(t, "old", now.Add(-48*time.Hour), "a.test"),
		secretFor(t, "early", now.Add(48*time.Hour), "a.test"),
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "empty"}},
	}
	mixed := secretFor(t, "mixed", now, "a.test")
	mixed.Data[corev1.TLSPrivateKeyKey] = secrets[1].Data[corev1.TLSPrivateKeyKey]
	secrets = append(secrets, mixed)
	other := withTLS("other", "[{hosts: ['*.w.test'], secretName: wild}]", "*.w.test")
	const atSecret = " Ingress default/i: spec.tls[0].secretName: "
	for _, c := range []struct {
		name      string
		ingresses []string
		host      string
		want      string
		redirects bool
		problems  []string
	}{
		{"entry names the host", []string{withTLS("i", "[{hosts: [a.test], secretName: a}]", "a.test")}, "a.test", "a.test", true, nil},
		{"entry names it in capitals", []string{withTLS("i", "[{hosts: [A.Test], secretName: a}]", "a.test")}, "a.test", "a.test", true, nil},
		{"no entry names it, one covers it", []string{withTLS("i", "[{hosts: [b.test], secretName: b}, {secretName: a}]", "a.test")}, "a.test", "a.test", true, nil},
		{"wildcard certificate", []string{withTLS("i", "[{hosts: ['*.w.test'], secretName: wild}]", "x.w.test")}, "x.w.test", "*.w.test", true, nil},
		{"wildcard host", []string{withTLS("i", "[{hosts: ['*.w.test'], secretName: wild}]", "*.w.test")}, "x.w.test", "*.w.test", true, nil},
		{"no secret means the default one", []string{withTLS("i", "[{hosts: [a.test]}]", "a.test")}, "a.test", "default", true, nil},
		{"nothing at all means the default one", []string{withTLS("i", "[{}]", "a.test")}, "a.test", "default", true, nil},
		{"no tls", []string{pathTo("i", "a.test", "/")}, "a.test", "default", false, nil},
		{"of another Ingress of the host", []string{pathTo("z", "a.test", "/z"), withTLS("i", "[{hosts: [a.test], secretName: a}]", "a.test")}, "a.test", "a.test", true, nil},
		{"missing secret", []string{withTLS("i", "[{hosts: [a.test], secretName: x}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonSecretNotFound}},
		{"secret of another namespace", []string{withTLS("i", "[{hosts: [a.test], secretName: other/a}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonInvalid}},
		{"empty secret", []string{withTLS("i", "[{hosts: [a.test], secretName: empty}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonBadCertificate}},
		{"key of another certificate", []string{withTLS("i", "[{hosts: [a.test], secretName: mixed}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonBadCertificate}},
		{"expired", []string{withTLS("i", "[{hosts: [a.test], secretName: old}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonBadCertificate}},
		{"not valid yet", []string{withTLS("i", "[{hosts: [a.test], secretName: early}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonBadCertificate}},
		{"does not cover", []string{withTLS("i", "[{hosts: [a.test], secretName: b}]", "a.test")}, "a.test", "default", true, []string{"error" + atSecret + ReasonHostNotCovered}},
		{"in no entry and covered by none", []string{withTLS("i", "[{hosts: [b.test], secretName: b}]", "a.test")}, "a.test", "default", true, []string{"warning Ingress default/i: spec.rules[0].host: " + ReasonHostNotCovered}},
		{"bad name among the hosts", []string{withTLS("i", "[{hosts: [a_b, a.test], secretName: a}]", "a.test")}, "a.test", "a.test", true, []string{"error Ingress default/i: spec.tls[0].hosts[0]: " + ReasonInvalid}},
		{"default rather than a wildcard's: secret is missing", []string{other, withTLS("i", "[{hosts: [x.w.test], secretName: x}]", "x.w.test")}, "x.w.test", "default", true, []string{"error" + atSecret + ReasonSecretNotFound}},
		{"default rather than a wildcard's: does not cover", []string{other, withTLS("i", "[{hosts: [x.w.test], secretName: b}]", "x.w.test")}, "x.w.test", "default", true, []string{"error" + atSecret + ReasonHostNotCovered}},
		{"default rather than a wildcard's: no secret is named", []string{other, withTLS("i", "[{hosts: [x.w.test]}]", "x.w.test")}, "x.w.test", "default", true, nil},
		{"the wildcard's where there is no tls", []string{other, pathTo("i", "x.w.test", "/")}, "x.w.test", "*.w.test", true, nil},
		{"without a host", []string{ingressOf("i", "tls: [{secretName: a}]\ndefaultBackend: {service: {name: web, port: {number: 80}}}")}, "a.test", "default", false, []string{"warning" + atSecret + ReasonHostNotCovered}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := everyIngress()
			o.Now = func() time.Time { return now }
			s := snapshotOf(t, append(c.ingresses, webService)...)
			for _, secret := range secrets {
				s.Set(secret)
			}
			r := NewBuilder(o).Build(s)
			if got := shown(t, r.Certificates, c.host); got != c.want {
				t.Errorf("%s gets the certificate %q, want %q", c.host, got, c.want)
			}
			wantProblems(t, r.Problems, c.problems...)
			if got := redirects(t, r, c.host); got != c.redirects {
				t.Errorf("plain HTTP is redirected: %v, want %v", got, c.redirects)
			}
		})
	}
}

// redirects says whether plain HTTP to a host is sent to HTTPS, which shows what features are told of the host.
func redirects(t testing.TB, r Result, host string) bool {
	t.Helper()
	route := r.Table.Lookup(host, "/")
	if route == nil {
		t.Fatalf("no route for %s in\n%s", host, r.Table)
	}
	return askScheme(t, route.Handler, host, "http") == proxy.TLSRedirect
}

func TestNobodyLendsAnotherNamespaceACertificate(t *testing.T) {
	now := time.Now()
	s := snapshotOf(t, webService,
		dated(withTLS("owner", "[{hosts: [a.test], secretName: missing}]", "a.test"), "01"),
		strings.Replace(dated(withTLS("stranger", "[{hosts: [a.test], secretName: a}]", "a.test"), "02"), "metadata: {", "metadata: {namespace: other, ", 1))
	stranger := secretFor(t, "a", now, "a.test")
	stranger.Namespace = "other"
	s.Set(stranger)
	r := NewBuilder(everyIngress()).Build(s)
	if got := shown(t, r.Certificates, "a.test"); got != "default" {
		t.Errorf("a.test gets the certificate %q of another namespace", got)
	}
}

func TestAWildcardsCertificateComesAndGoesWithTheEntryOfTheHost(t *testing.T) {
	now := time.Now()
	s := snapshotOf(t, webService, withTLS("wild", "[{hosts: ['*.w.test'], secretName: wild}]", "*.w.test"), pathTo("i", "x.w.test", "/"))
	s.Set(secretFor(t, "wild", now, "*.w.test"))
	b := NewBuilder(everyIngress())
	expect := func(when, want string) {
		t.Helper()
		if got := shown(t, b.Build(s).Certificates, "x.w.test"); got != want {
			t.Errorf("%s x.w.test gets the certificate %q, want %q", when, got, want)
		}
	}
	expect("without an entry", "*.w.test")
	s.Set(objects(t, withTLS("i", "[{hosts: [x.w.test], secretName: x}]", "x.w.test"))[0])
	expect("with an entry whose Secret is missing", "default")
	s.Set(secretFor(t, "x", now, "x.w.test"))
	expect("with the Secret", "x.w.test")
	s.Delete(Ref{"Secret", "default", "x"})
	expect("with the Secret deleted", "default")
	s.Set(objects(t, pathTo("i", "x.w.test", "/"))[0])
	expect("with the entry removed", "*.w.test")
	s.Set(objects(t, withTLS("i", "[{}]", "x.w.test"))[0])
	expect("with an empty entry", "default")
	s.Delete(Ref{"Ingress", "default", "i"})
	expect("with the Ingress deleted", "*.w.test")
}

func TestRenewedCertificateBuildsNoTable(t *testing.T) {
	now := time.Now()
	s := snapshotOf(t, webService, withTLS("i", "[{hosts: [a.test], secretName: a}]", "a.test"))
	b := NewBuilder(everyIngress())
	r := b.Build(s)
	wantProblems(t, r.Problems, "error Ingress default/i: spec.tls[0].secretName: SecretNotFound")

	var last *tls.Certificate
	for i := range 2 {
		s.Set(secretFor(t, "a", now, "a.test"))
		r = b.Build(s)
		wantProblems(t, r.Problems)
		if r.TableChanged {
			t.Errorf("certificate %d made another table", i)
		}
		host := r.Certificates.ByHost["a.test"]
		if host == nil || len(host.Pairs) != 1 || host.Pairs[0] == last {
			t.Fatalf("certificate %d is not the one served", i)
		}
		last = host.Pairs[0]
	}
	s.Delete(Ref{"Secret", "default", "a"})
	r = b.Build(s)
	wantProblems(t, r.Problems, "error Ingress default/i: spec.tls[0].secretName: SecretNotFound")
	if got := shown(t, r.Certificates, "a.test"); got != "default" {
		t.Errorf("after the Secret went a.test has %q, want the default one", got)
	}
}

func TestSecretIsReadOnceAVersion(t *testing.T) {
	s := snapshotOf(t, webService, withTLS("i", "[{hosts: [a.test, b.test], secretName: a}]", "a.test", "b.test"), withTLS("j", "[{hosts: [a.test], secretName: a}]", "a.test"))
	s.Set(secretFor(t, "a", time.Now(), "a.test", "b.test"))
	r := NewBuilder(everyIngress()).Build(s)
	if a, b := r.Certificates.ByHost["a.test"], r.Certificates.ByHost["b.test"]; a == nil || b == nil || a.Pairs[0] != b.Pairs[0] {
		t.Errorf("a.test has %p, b.test has %p, want one certificate", a, b)
	}
}

func TestWildcardWithTLSRedirectsTheHostsBelow(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("plain", "x.w.test", "/"), pathTo("deeper", "y.x.w.test", "/"))
	b := NewBuilder(everyIngress())
	b.Build(s)
	wild := objects(t, withTLS("wild", "[{}]", "*.w.test"))[0]
	for _, present := range []bool{true, false} {
		if present {
			s.Set(wild)
		} else {
			s.Delete(Ref{"Ingress", "default", "wild"})
		}
		r := b.Build(s)
		if got := redirects(t, r, "x.w.test"); got != present {
			t.Errorf("with the wildcard %v: redirected %v", present, got)
		}
		if redirects(t, r, "y.x.w.test") {
			t.Error("a host two labels below is redirected")
		}
	}
}

func TestDefaultCertificateOfTheProcess(t *testing.T) {
	o := everyIngress()
	o.DefaultCertificate = Key{"default", "fallback"}
	s := new(Snapshot)
	b := NewBuilder(o)
	r := b.Build(s)
	wantProblems(t, r.Problems, "error Secret default/fallback: : SecretNotFound")
	s.Set(secretFor(t, "fallback", time.Now(), "fallback.test"))
	r = b.Build(s)
	wantProblems(t, r.Problems)
	if got := shown(t, r.Certificates, "any.test"); got != "fallback.test" {
		t.Errorf("any.test gets %q, want fallback.test", got)
	}
}

func TestProblemsNeverShowWhatIsInASecret(t *testing.T) {
	const canary = "canary-in-the-key"
	secret := secretFor(t, "a", time.Now(), "b.test")
	for _, data := range []map[string][]byte{
		{corev1.TLSCertKey: []byte(canary), corev1.TLSPrivateKeyKey: []byte(canary)},
		{corev1.TLSCertKey: secret.Data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: []byte(canary)},
		{corev1.TLSCertKey: secret.Data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: []byte(fmt.Sprintf("-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----", canary))},
	} {
		s := snapshotOf(t, webService, withTLS("i", "[{hosts: [a.test], secretName: a}]", "a.test"))
		s.Set(&corev1.Secret{ObjectMeta: secret.ObjectMeta, Data: data})
		lines := problemLines(NewBuilder(everyIngress()).Build(s).Problems)
		if !strings.Contains(lines, ReasonBadCertificate) || strings.Contains(lines, canary) {
			t.Errorf("problems:\n%s", lines)
		}
	}
}

// secretUntil is a Secret with a certificate for a.test.
func secretUntil(t testing.TB, begin, end time.Time) *corev1.Secret {
	t.Helper()
	return secretWith(t, "a", newKey(t), &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.test"}, NotBefore: begin, NotAfter: end})
}

// Nothing changes here but the time.
func TestACertificateIsToldOfWhenItsTimeComes(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, n) }
	now := day(-1)
	o := everyIngress()
	o.Now = func() time.Time { return now }
	s := snapshotOf(t, webService, withTLS("i", "[{hosts: [a.test], secretName: a}]", "a.test"))
	s.Set(secretUntil(t, day(0), day(90)))
	b := NewBuilder(o)
	const at = " Ingress default/i: spec.tls[0].secretName: "
	for _, c := range []struct {
		when    int
		want    string
		problem []string
		again   time.Time
	}{
		{-1, "default", []string{"error" + at + ReasonBadCertificate}, day(0)},
		{0, "a.test", nil, day(76)},
		{75, "a.test", nil, day(76)},
		{76, "a.test", []string{"warning" + at + ReasonCertificateExpires}, day(90).Add(time.Nanosecond)},
		{89, "a.test", []string{"warning" + at + ReasonCertificateExpires}, day(90).Add(time.Nanosecond)},
		{91, "default", []string{"error" + at + ReasonBadCertificate}, time.Time{}},
	} {
		now = day(c.when)
		r := b.Build(s)
		if got := shown(t, r.Certificates, "a.test"); got != c.want {
			t.Errorf("day %d: a.test gets the certificate %q, want %q", c.when, got, c.want)
		}
		wantProblems(t, r.Problems, c.problem...)
		if !r.Again.Equal(c.again) {
			t.Errorf("day %d: to be built again at %v, want %v", c.when, r.Again, c.again)
		}
	}
	s.Set(secretUntil(t, day(90), day(180)))
	wantProblems(t, b.Build(s).Problems)
}

func TestAHostMayHaveACertificateOfEachKindOfKey(t *testing.T) {
	s := snapshotOf(t, webService, withTLS("i", "[{hosts: [a.test], secretName: rsa}, {hosts: [a.test], secretName: ecdsa}, {hosts: [a.test], secretName: more}]", "a.test"))
	s.Set(secretFor(t, "ecdsa", time.Now(), "a.test"))
	s.Set(secretFor(t, "more", time.Now(), "a.test"))
	s.Set(rsaSecretFor(t, "rsa", time.Now(), "a.test"))
	r := NewBuilder(everyIngress()).Build(s)
	wantProblems(t, r.Problems)
	pairs := r.Certificates.ByHost["a.test"].Pairs
	if len(pairs) != 2 || pairs[0].Leaf.PublicKeyAlgorithm != x509.ECDSA || pairs[1].Leaf.PublicKeyAlgorithm != x509.RSA {
		t.Errorf("%d certificates, want an ECDSA and an RSA one", len(pairs))
	}
}

func rsaSecretFor(t testing.TB, name string, now time.Time, hosts ...string) *corev1.Secret {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return secretWith(t, name, key, &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: hosts, NotBefore: now.Add(-12 * time.Hour), NotAfter: now.Add(12 * time.Hour)})
}

// secretWith is a Secret with a certificate that vouches for itself.
func secretWith(t testing.TB, name string, key crypto.Signer, template *x509.Certificate) *corev1.Secret {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}}
}
