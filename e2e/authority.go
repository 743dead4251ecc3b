package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// An Authority issues certificates for tests.
type Authority struct {
	*x509.Certificate
	key   *ecdsa.PrivateKey
	chain [][]byte // what those it issues are sent with: itself, if somebody else vouches for it
}

// NewAuthority makes one that vouches for itself. Each change is made to its certificate before it is signed.
func NewAuthority(t testing.TB, name string, changes ...func(*x509.Certificate)) *Authority {
	return (*Authority)(nil).Sub(t, name, changes...)
}

// Sub makes an authority that this one vouches for.
func (a *Authority) Sub(t testing.TB, name string, changes ...func(*x509.Certificate)) *Authority {
	t.Helper()
	authority := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, nil
	}
	pair := a.Issue(t, name, append([]func(*x509.Certificate){authority}, changes...)...)
	s := &Authority{Certificate: pair.Leaf, key: pair.PrivateKey.(*ecdsa.PrivateKey)}
	if a != nil {
		s.chain = pair.Certificate
	}
	return s
}

// Issue makes a certificate with a common name, which is a host name of it too, for servers and clients. A nil Authority
// has it sign itself.
func (a *Authority) Issue(t testing.TB, name string, changes ...func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, change := range changes {
		change(c)
	}
	parent, signer, chain := c, key, [][]byte(nil)
	if a != nil {
		parent, signer, chain = a.Certificate, a.key, a.chain
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: append([][]byte{der}, chain...), PrivateKey: key, Leaf: leaf}
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte { return encodePEM("CERTIFICATE", a.Raw) }

// Revoke makes a revocation list that is to be renewed by a time.
func (a *Authority) Revoke(t testing.TB, renewal time.Time, revoked ...*x509.Certificate) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: renewal}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.Certificate, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("X509 CRL", der)
}

// PairPEM is a certificate with its chain, and its key, as a Secret has them.
func PairPEM(t testing.TB, pair *tls.Certificate) (certificate, key []byte) {
	t.Helper()
	for _, der := range pair.Certificate {
		certificate = append(certificate, encodePEM("CERTIFICATE", der)...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, encodePEM("PRIVATE KEY", der)
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
