package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Parse makes a certificate, Leaf included, of the PEM texts of a chain and of the private key of its first certificate. A
// chain that is not in order is put in order. The error says which of the two is wrong and what was expected.
func Parse(cert, key []byte) (*tls.Certificate, error) {
	if err := checkPEM("certificate", "CERTIFICATE", cert); err != nil {
		return nil, err
	}
	if err := checkPEM("private key", "PRIVATE KEY", key); err != nil {
		return nil, err
	}
	if err := checkLength(key); err != nil {
		return nil, err
	}
	chain, err := parseChain(cert)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(encodePEM(chain[0]), key)
	for _, other := range chain[1:] {
		if err == nil || !foreign(err) {
			break
		}
		if found, otherErr := tls.X509KeyPair(encodePEM(other), key); otherErr == nil {
			pair, err = found, nil
		}
	}
	switch {
	case err == nil:
	case foreign(err):
		return nil, errors.New("the private key does not belong to the certificate: expected the key that the first certificate of the chain was made with")
	default:
		return nil, fmt.Errorf("not a pair of certificate and private key: %s", strings.TrimPrefix(err.Error(), "tls: "))
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
	}
	if err := checkKey(pair.Leaf.PublicKey); err != nil {
		return nil, err
	}
	pair.Certificate = nil
	for _, c := range inOrder(pair.Leaf, chain) {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return &pair, nil
}

// foreign reports whether a pair is none because its halves are of two.
func foreign(err error) bool {
	return strings.Contains(err.Error(), "does not match") || strings.Contains(err.Error(), "type does not match")
}

func encodePEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// maxRSA is the longest RSA key, in bits, that crypto/tls takes of anybody. One that fills a Secret takes minutes to compute with
// once, and whoever reads Secrets does so for everybody.
const maxRSA = 8192

// checkLength refuses a private key, in PEM, that would take too long to be read.
func checkLength(key []byte) error {
	for rest := key; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") && len(block.Bytes) > maxRSA { // one of so many bits has some 4,700 bytes
			return fmt.Errorf("the private key has %d bytes: expected one of %d bits or fewer", len(block.Bytes), maxRSA)
		}
	}
}

// checkRSA refuses a certificate whose key takes too long to compute with.
func checkRSA(public any) error {
	if key, ok := public.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
		return fmt.Errorf("the RSA key has %d bits: expected %d or fewer", key.N.BitLen(), maxRSA)
	}
	return nil
}

// checkKey refuses keys with which no handshake can be made.
func checkKey(public any) error {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < 1024 {
			return fmt.Errorf("the RSA key has %d bits: expected 2048 or more", key.N.BitLen())
		}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
		default:
			return fmt.Errorf("the key is on the curve %s: expected P-256, P-384 or P-521", key.Curve.Params().Name)
		}
	}
	return nil
}

// checkPEM says in plain words why text holds no block of a kind.
func checkPEM(what, kind string, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("the %s is empty: expected PEM text that begins with -----BEGIN %s-----", what, kind)
	}
	found := ""
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return fmt.Errorf("the %s is encrypted: expected one without a passphrase", what)
		}
		if strings.HasSuffix(block.Type, kind) {
			return nil
		}
		found = block.Type
	}
	if found != "" {
		return fmt.Errorf("the %s holds a PEM block of type %q: expected %q", what, found, kind)
	}
	return fmt.Errorf("the %s is not PEM: expected text that begins with -----BEGIN %s-----", what, kind)
}

// Best keeps, of the certificates for one name, the first of each kind of key, and puts those first that cost least:
// elliptic curves before RSA.
func Best(pairs []*tls.Certificate) []*tls.Certificate {
	if len(pairs) < 2 {
		return pairs
	}
	var best []*tls.Certificate
	for _, pair := range pairs {
		if !slices.ContainsFunc(best, func(b *tls.Certificate) bool { return b.Leaf.PublicKeyAlgorithm == pair.Leaf.PublicKeyAlgorithm }) {
			best = append(best, pair)
		}
	}
	slices.SortStableFunc(best, func(a, b *tls.Certificate) int { return cost(a) - cost(b) })
	return best
}

func cost(pair *tls.Certificate) int {
	switch pair.Leaf.PublicKeyAlgorithm {
	case x509.ECDSA:
		return 0
	case x509.RSA:
		return 1
	}
	return 2 // Ed25519, which few clients take
}

// Covers reports whether the certificate is for host, by its subject alternative names (RFC 9525). A wildcard host is
// covered by the same wildcard.
func Covers(c *tls.Certificate, host string) bool {
	if c == nil || c.Leaf == nil {
		return false
	}
	if strings.HasPrefix(host, "*.") {
		for _, name := range c.Leaf.DNSNames {
			if strings.EqualFold(name, host) {
				return true
			}
		}
		return false
	}
	return c.Leaf.VerifyHostname(host) == nil
}

// The names that ingress-nginx gives its own default certificate: people know them, and look for them.
const (
	selfSignedName = "Kubernetes Ingress Controller Fake Certificate"
	selfSignedHost = "ingress.local"
)

// SelfSigned makes a certificate that no client trusts, for names that have none. It is valid for a year.
func SelfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the default certificate: %w", err)
	}
	form, err := templateFrom(time.Now(), 365*24*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("make the default certificate: %w", err)
	}
	form.Subject = pkix.Name{CommonName: selfSignedName, Organization: []string{"Sallyport"}}
	form.DNSNames = []string{selfSignedHost}
	form.KeyUsage = x509.KeyUsageDigitalSignature
	form.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return certify(form, form, key, key)
}
