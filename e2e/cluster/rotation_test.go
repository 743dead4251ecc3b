//go:build controlplane

package cluster_test

import (
	"crypto/tls"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestASecretIsRotatedUnderLoad updates a Secret again and again while two hundred clients a second come: every handshake
// succeeds, and from a tenth of a second after the API server has acknowledged an update nobody is shown the certificate before.
func TestASecretIsRotatedUnderLoad(t *testing.T) {
	const rotations = 50
	c := cluster.Start(t)
	r := newRotation(t, c)
	c.Apply(t, app("web", 1)+ingress("secure", ours, "tls: [{hosts: [secure.test], secretName: secure}]", "rules:", rule("secure.test", "/", "Prefix", "web")))
	root := e2e.NewAuthority(t, "root")
	pairs := []*tls.Certificate{pairOf(t, r.contents[r.now])}
	s := c.Sallyport(t)
	s.Expect(t, "https://secure.test/", shown("secure.test"))

	load := e2e.StartHandshakes(t, s.HTTPS, "secure.test", 200, pairs[0])
	load.Shown(t, 20)
	for range rotations {
		pair := root.Issue(t, "secure.test")
		certificate, key := e2e.PairPEM(t, pair)
		next := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secure"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}}
		if _, err := c.Client().CoreV1().Secrets("default").Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		load.Wrote(pair)
		load.Shown(t, 20)
	}
	load.Stop(t, soon)
}

func pairOf(t testing.TB, secret *corev1.Secret) *tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}
