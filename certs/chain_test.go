package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// An authority issues certificates through an intermediate.
type authority struct {
	root, intermediate []byte // PEM
	issuer             *x509.Certificate
	key                crypto.Signer
	url                string // where issuers are to be fetched; empty: it does not say
	ocsp               string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	rootKey, key := newKey(t), newKey(t)
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
	}
	root := template("Root")
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	issuerDER, err := x509.CreateCertificate(rand.Reader, template("Intermediate"), root, key.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := x509.ParseCertificate(issuerDER)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{root: encode("CERTIFICATE", rootDER), intermediate: encode("CERTIFICATE", issuerDER), issuer: issuer, key: key}
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue makes a certificate, as the texts of a Secret.
func (a *authority) issue(t testing.TB, names ...string) (cert, key []byte) {
	t.Helper()
	private := newKey(t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	if a.url != "" {
		template.IssuingCertificateURL = []string{a.url}
	}
	if a.ocsp != "" {
		template.OCSPServer = []string{a.ocsp}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.issuer, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

func TestChainsArePutInOrderAndChecked(t *testing.T) {
	ca, public := newAuthority(t), newAuthority(t)
	public.url = "http://ca.test/intermediate"
	leaf, key := ca.issue(t, "a.test")
	publicLeaf, publicKey := public.issue(t, "a.test")
	stranger, _ := issue(t, "stranger.test")
	mid, root := ca.intermediate, ca.root
	for _, c := range []struct {
		name       string
		chain      [][]byte
		key, known []byte
		served     [][]byte
		want       string // in the message; empty: there is none
	}{
		{"whole", [][]byte{leaf, mid, root}, key, nil, [][]byte{leaf, mid, root}, ""},
		{"without the root", [][]byte{leaf, mid}, key, nil, [][]byte{leaf, mid}, ""},
		{"upside down", [][]byte{root, mid, leaf}, key, nil, [][]byte{leaf, mid, root}, ""},
		{"issuers swapped", [][]byte{leaf, root, mid}, key, nil, [][]byte{leaf, mid, root}, ""},
		{"twice", [][]byte{leaf, leaf, mid, mid}, key, nil, [][]byte{leaf, mid}, ""},
		{"a private authority, of which nothing is known", [][]byte{leaf}, key, nil, [][]byte{leaf}, ""},
		{"ca.crt issued it", [][]byte{leaf}, key, mid, [][]byte{leaf}, ""},
		{"ca.crt issued it, and its own issuer is there too", [][]byte{leaf}, key, slices.Concat(root, mid), [][]byte{leaf}, `lacks its issuer, CN=Intermediate`},
		{"ca.crt is further up", [][]byte{leaf}, key, root, [][]byte{leaf}, `lacks its issuer, CN=Intermediate`},
		{"ca.crt issued the intermediate", [][]byte{leaf, mid}, key, root, [][]byte{leaf, mid}, ""},
		{"ca.crt is no certificate", [][]byte{leaf}, key, []byte("rubbish"), [][]byte{leaf}, ""},
		{"a public authority", [][]byte{publicLeaf}, publicKey, nil, [][]byte{publicLeaf}, `lacks its issuer, CN=Intermediate`},
		{"a public authority, whole", [][]byte{publicLeaf, public.intermediate}, publicKey, nil, [][]byte{publicLeaf, public.intermediate}, ""},
		{"a gap", [][]byte{leaf, root}, key, nil, [][]byte{leaf}, `certificate 2 ("Root") has no place in the chain`},
		{"a stranger", [][]byte{leaf, mid, stranger}, key, nil, [][]byte{leaf, mid}, `certificate 3 ("stranger.test") has no place in the chain`},
		{"another authority's intermediate of the same name", [][]byte{leaf, public.intermediate}, key, nil, [][]byte{leaf}, `certificate 2 ("Intermediate") has no place in the chain`},
	} {
		text := bytes.Join(c.chain, nil)
		pair, err := Parse(text, c.key)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var served [][]byte
		for _, der := range pair.Certificate {
			served = append(served, encode("CERTIFICATE", der))
		}
		if !slices.EqualFunc(served, c.served, bytes.Equal) {
			t.Errorf("%s: %d certificates are served, want %d in order", c.name, len(served), len(c.served))
		}
		got := CheckChain(pair, text, c.known, time.Now())
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
		if got := CheckChain(pair, text, c.known, time.Now().Add(2*time.Hour)); len(c.served) > 1 && !strings.Contains(got, "expired at") && c.want == "" {
			t.Errorf("%s, when the issuer has expired: %q", c.name, got)
		}
	}
}

func TestChainsAreBounded(t *testing.T) {
	leaf, key := issue(t, "a.test")
	text := bytes.Clone(leaf)
	for range maxChain {
		other, _ := issue(t, "b.test")
		text = append(text, other...)
	}
	if _, err := Parse(text, key); err == nil || !strings.Contains(err.Error(), "more than 16 certificates") {
		t.Errorf("%v, want the limit", err)
	}
}

// TestKeysThatTakeLongAreNotComputedWith: whoever may write a Secret would have everybody wait for that.
func TestKeysThatTakeLongAreNotComputedWith(t *testing.T) {
	leaf, key := issue(t, "a.test")
	signer := newKey(t)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "long"}, IsCA: true, BasicConstraintsValid: true}
	n := new(big.Int).SetBit(big.NewInt(1), maxRSA, 1)
	der, err := x509.CreateCertificate(rand.Reader, form, form, &rsa.PublicKey{N: n, E: 65537}, signer)
	if err != nil {
		t.Fatal(err)
	}
	long := encode("CERTIFICATE", der)
	for _, c := range []struct {
		name      string
		cert, key []byte
		want      string
	}{
		{"that of an issuer", slices.Concat(leaf, long), key, "certificate 2 of the chain: the RSA key has 8193 bits: expected 8192 or fewer"},
		{"that of the host", long, key, "certificate 1 of the chain: the RSA key has 8193 bits: expected 8192 or fewer"},
		{"the private one", leaf, encode("RSA PRIVATE KEY", make([]byte, maxRSA+1)), "the private key has 8193 bytes: expected one of 8192 bits or fewer"},
	} {
		if pair, err := Parse(c.cert, c.key); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, %v; want %q", c.name, pair, err, c.want)
		}
	}
}

func TestACertificateIsForServers(t *testing.T) {
	for _, c := range []struct {
		name string
		leaf x509.Certificate
		want string
	}{
		{"it says nothing", x509.Certificate{}, ""},
		{"for servers", x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}, ""},
		{"for anything", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}, ""},
		{"for clients", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, "extended key usage"},
		{"for what nobody knows", x509.Certificate{UnknownExtKeyUsage: []asn1.ObjectIdentifier{{1, 2, 3}}}, "extended key usage"},
		{"for an authority", x509.Certificate{KeyUsage: x509.KeyUsageCertSign}, "key usage lacks digitalSignature"},
		{"for the key exchange of old", x509.Certificate{KeyUsage: x509.KeyUsageKeyEncipherment}, "key usage lacks digitalSignature"},
	} {
		if got := CheckUsage(&c.leaf); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
}
