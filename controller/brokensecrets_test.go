package controller

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Twenty Secrets are wrong in twenty ways, each of a host of its own, beside one that is right.
func TestABrokenSecretIsOneMessageAndNoOtherHosts(t *testing.T) {
	now := time.Now()
	good := func() *corev1.Secret { return secretFor(t, "x", now, "x.test") }
	with := func(cert, key []byte) *corev1.Secret {
		s := good()
		s.Data = map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
		return s
	}
	own := good()
	cert, key := own.Data[corev1.TLSCertKey], own.Data[corev1.TLSPrivateKeyKey]
	stranger := secretFor(t, "x", now, "stranger.test").Data[corev1.TLSCertKey]
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rubbish := []byte("-----BEGIN CERTIFICATE-----\ncnViYmlzaA==\n-----END CERTIFICATE-----\n")
	dated := func(begin, end time.Time) *corev1.Secret {
		return secretWith(t, "x", newKey(t), &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"x.test"}, NotBefore: begin, NotAfter: end})
	}
	long := bytes.Clone(cert)
	for i := range 20 {
		long = append(long, secretFor(t, "x", now, fmt.Sprintf("n%d.test", i)).Data[corev1.TLSCertKey]...)
	}
	for name, c := range map[string]struct {
		secret *corev1.Secret // nil: there is none
		reason string
	}{
		"missing":                   {nil, ReasonSecretNotFound},
		"without data":              {with(nil, nil), ReasonBadCertificate},
		"no certificate":            {with(nil, key), ReasonBadCertificate},
		"no key":                    {with(cert, nil), ReasonBadCertificate},
		"blank certificate":         {with([]byte(" \n"), key), ReasonBadCertificate},
		"words":                     {with([]byte("certificate"), []byte("key")), ReasonBadCertificate},
		"swapped":                   {with(key, cert), ReasonBadCertificate},
		"a certificate for the key": {with(cert, cert), ReasonBadCertificate},
		"cut certificate":           {with(cert[:len(cert)/2], key), ReasonBadCertificate},
		"cut key":                   {with(cert, key[:len(key)/2]), ReasonBadCertificate},
		"another's key":             {with(cert, good().Data[corev1.TLSPrivateKeyKey]), ReasonBadCertificate},
		"rubbish in PEM":            {with(rubbish, key), ReasonBadCertificate},
		"rubbish in the chain":      {with(append(bytes.Clone(cert), rubbish...), key), ReasonBadCertificate},
		"an encrypted key":          {with(cert, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMTIz\n-----END ENCRYPTED PRIVATE KEY-----\n")), ReasonBadCertificate},
		"DER":                       {with([]byte{0x30, 0x82, 1, 2}, key), ReasonBadCertificate},
		"expired":                   {dated(now.Add(-2*time.Hour), now.Add(-time.Hour)), ReasonBadCertificate},
		"not valid yet":             {dated(now.Add(time.Hour), now.Add(2*time.Hour)), ReasonBadCertificate},
		"about to expire":           {dated(now.Add(-99*time.Hour), now.Add(time.Hour)), ReasonCertificateExpires},
		"a stranger in the chain":   {with(append(bytes.Clone(cert), stranger...), key), ReasonBrokenChain},
		"a chain without end":       {with(long, key), ReasonBadCertificate},
		"a curve that TLS has not":  {secretWith(t, "x", p224, &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"x.test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}), ReasonBadCertificate},
		"for clients":               {secretWith(t, "x", newKey(t), &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"x.test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(2 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), ReasonUnfitCertificate},
		"for another host":          {secretFor(t, "x", now, "other.test"), ReasonHostNotCovered},
	} {
		s := snapshotOf(t, webService, withTLS("broken", "[{hosts: [x.test], secretName: x}]", "x.test"), withTLS("whole", "[{hosts: [a.test], secretName: a}]", "a.test"))
		s.Set(secretFor(t, "a", now, "a.test"))
		if c.secret != nil {
			s.Set(c.secret)
		}
		r := NewBuilder(everyIngress()).Build(s)
		if len(r.Problems) != 1 || r.Problems[0].Reason != c.reason || r.Problems[0].Object.Name != "broken" || !strings.Contains(r.Problems[0].Message, "x") {
			t.Errorf("%s: problems\n%swant one, %s", name, problemLines(r.Problems), c.reason)
		}
		if got := shown(t, r.Certificates, "a.test"); got != "a.test" {
			t.Errorf("%s: the other host has the certificate %q", name, got)
		}
		served := c.reason == ReasonCertificateExpires || c.reason == ReasonBrokenChain || c.reason == ReasonUnfitCertificate
		if got := shown(t, r.Certificates, "x.test"); (got == "x.test") != served || !served && got != "default" {
			t.Errorf("%s: the host has the certificate %q", name, got)
		}
	}
}
