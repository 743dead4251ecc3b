package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A certificate is three files of the same: what is public, the key, and both in one.
type certificate struct{ cert, key, both string }

// The kinds of key that certificates have.
const (
	ecdsaP256 = "ECDSA P-256"
	rsa2048   = "RSA 2048"
)

// newCertificate makes a self-signed certificate for the host and writes it into the folder.
func newCertificate(folder, kind string) (certificate, error) {
	var (
		key crypto.Signer
		err error
	)
	if kind == rsa2048 {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: host},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(60 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{host},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	c := certificate{cert: filepath.Join(folder, "cert.pem"), key: filepath.Join(folder, "key.pem"), both: filepath.Join(folder, "both.pem")}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return c, err
	}
	for path, text := range map[string][]byte{c.cert: cert, c.key: secret, c.both: slices.Concat(cert, secret)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return c, err
		}
	}
	return c, nil
}
