package certs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

func TestParseKeepsTheChainAndTheLeaf(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t, "a.test")
	issuer := ca.intermediate
	pair, err := Parse(append(append([]byte("some words first\n"), cert...), issuer...), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(pair.Certificate) != 2 {
		t.Errorf("%d certificates, want 2", len(pair.Certificate))
	}
	if pair.Leaf == nil || pair.Leaf.Subject.CommonName != "a.test" {
		t.Errorf("leaf %v, want that of a.test", pair.Leaf)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	cert, key := issue(t, "a.test")
	_, foreign := issue(t, "b.test")
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(ed)
	if err != nil {
		t.Fatal(err)
	}
	legacy := pem.EncodeToMemory(&pem.Block{
		Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte("x"),
	})
	for _, c := range []struct {
		name      string
		cert, key []byte
		want      string
	}{
		{"no certificate", nil, key, "the certificate is empty"},
		{"blank certificate", []byte(" \n\t"), key, "the certificate is empty"},
		{"no key", cert, nil, "the private key is empty"},
		{"certificate of words", []byte("certificate"), key, "the certificate is not PEM"},
		{"key of words", cert, []byte("key"), "the private key is not PEM"},
		{"cut certificate", cert[:len(cert)/2], key, "the certificate is not PEM"},
		{"DER", []byte{0x30, 0x82, 1, 2}, key, "the certificate is not PEM"},
		{"a key for a certificate", key, key, `the certificate holds a PEM block of type "PRIVATE KEY": expected "CERTIFICATE"`},
		{"a certificate for a key", cert, cert, `the private key holds a PEM block of type "CERTIFICATE": expected "PRIVATE KEY"`},
		{"swapped", key, cert, `the certificate holds a PEM block of type "PRIVATE KEY"`},
		{"encrypted key", cert, encode("ENCRYPTED PRIVATE KEY", []byte("x")), "the private key is encrypted"},
		{"encrypted key of old", cert, legacy, "the private key is encrypted"},
		{"another key", cert, foreign, "the private key does not belong to the certificate"},
		{"a key of another kind", cert, encode("PRIVATE KEY", other), "the private key does not belong to the certificate"},
		{"rubbish in the key", cert, encode("PRIVATE KEY", []byte("rubbish")), "not a pair of certificate and private key"},
		{"rubbish in the certificate", encode("CERTIFICATE", []byte("rubbish")), key, "not a pair of certificate and private key"},
		{"rubbish in the chain", append(bytes.Clone(cert), encode("CERTIFICATE", []byte("rubbish"))...), key, "certificate 2 of the chain"},
	} {
		pair, err := Parse(c.cert, c.key)
		if err == nil || pair != nil {
			t.Errorf("%s: got a pair, want an error", c.name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, err, c.want)
		}
	}
}

func TestNoErrorShowsTheKey(t *testing.T) {
	cert, key := issue(t, "a.test")
	_, err := Parse(key, cert)
	if err == nil {
		t.Fatal("a swapped pair was taken")
	}
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-") && strings.Contains(err.Error(), line) {
			t.Errorf("the error has a line of the key in it: %v", err)
		}
	}
}

func TestCovers(t *testing.T) {
	pair := pairFor(t, "a.test", "*.w.test")
	for host, want := range map[string]bool{
		"a.test": true, "A.test": true, "b.test": false, "x.w.test": true, "w.test": false, "x.y.w.test": false,
		"*.w.test": true, "*.W.test": true, "*.test": false, "*.a.test": false, "*.x.w.test": false, "": false,
	} {
		if got := Covers(pair, host); got != want {
			t.Errorf("host %q: %v, want %v", host, got, want)
		}
	}
	if Covers(nil, "a.test") || Covers(new(tls.Certificate), "a.test") {
		t.Error("nothing covers a host")
	}
}

func TestCommonNameCoversNothing(t *testing.T) {
	pair := pairFor(t, "a.test")
	pair.Leaf.DNSNames = nil
	if Covers(pair, "a.test") {
		t.Error("a certificate without subject alternative names covers its common name")
	}
}

func FuzzParse(f *testing.F) {
	cert, key := issue(f, "a.test")
	f.Add(cert, key)
	f.Add(key, cert)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), key)
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		pair, err := Parse(cert, key)
		if (pair == nil) == (err == nil) {
			t.Fatalf("pair %v and error %v", pair, err)
		}
		if pair != nil && pair.Leaf == nil {
			t.Fatal("a pair without leaf")
		}
	})
}
