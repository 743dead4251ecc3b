package trust

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// sent is what the other side sends of a chain.
func sent(t testing.TB, chain [][]byte) (all []*x509.Certificate) {
	t.Helper()
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func parsed(t testing.TB, certificates []byte, lists []byte) *Bundle {
	t.Helper()
	b, err := Parse(certificates, lists)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type change = func(*x509.Certificate)

func TestVerdicts(t *testing.T) {
	now := time.Now()
	root, other := e2e.NewAuthority(t, "root"), e2e.NewAuthority(t, "other")
	impostor := e2e.NewAuthority(t, "root") // another key under the same name
	one := root.Sub(t, "one")
	two := one.Sub(t, "two")
	pinned := (*e2e.Authority)(nil).Issue(t, "pinned")
	narrow := root.Sub(t, "narrow", func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true })
	constrained := root.Sub(t, "constrained", func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"a.test"}, true
	})
	var ( // changes
		expired change = func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }
		early   change = func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }
		server  change = func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
		noUsage change = func(c *x509.Certificate) { c.ExtKeyUsage = nil }
	)
	revoked, good, ofOne := root.Issue(t, "revoked"), root.Issue(t, "good"), one.Issue(t, "x")
	in, past := now.Add(time.Hour), now.Add(-time.Hour)
	all := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	leafless := slices.Clone(ofOne.Certificate[:1])
	for _, c := range []struct {
		name         string
		certificates []byte
		lists        []byte
		chain        [][]byte
		depth        int
		want         error
	}{
		{"good", root.PEM(), nil, good.Certificate, 1, nil},
		{"no usage said", root.PEM(), nil, root.Issue(t, "x", noUsage).Certificate, 1, nil},
		{"nothing sent", root.PEM(), nil, nil, 1, ErrNone},
		{"another authority", other.PEM(), nil, good.Certificate, 1, ErrUnknown},
		{"an authority of the same name", root.PEM(), nil, impostor.Issue(t, "good").Certificate, 1, ErrUnknown},
		{"signs itself", root.PEM(), nil, (*e2e.Authority)(nil).Issue(t, "good").Certificate, 1, ErrSelf},
		{"signs itself, and is meant", encoded(t, pinned.Certificate[0]), nil, pinned.Certificate, 1, nil},
		{"the authority itself is sent along and is another's", root.PEM(), nil, append(slices.Clone(impostor.Issue(t, "good").Certificate), impostor.Raw), 1, ErrUnknown},
		{"expired", root.PEM(), nil, root.Issue(t, "x", expired).Certificate, 1, ErrExpired},
		{"not yet valid", root.PEM(), nil, root.Issue(t, "x", early).Certificate, 1, ErrTooEarly},
		{"for servers", root.PEM(), nil, root.Issue(t, "x", server).Certificate, 1, ErrPurpose},
		{"a link that is for servers", root.PEM(), nil, root.Sub(t, "x", server).Issue(t, "x").Certificate, 1, ErrPurpose},
		{"a link that is no authority", root.PEM(), nil, root.Sub(t, "x", func(c *x509.Certificate) { c.IsCA = false }).Issue(t, "x").Certificate, 1, ErrUnknown},
		{"a link that may have none below it", root.PEM(), nil, narrow.Sub(t, "x").Issue(t, "x").Certificate, 5, ErrTooLong},
		{"a link that may not vouch for the name", root.PEM(), nil, constrained.Issue(t, "b.test").Certificate, 1, ErrInvalid},
		{"an expired link", root.PEM(), nil, root.Sub(t, "x", expired).Issue(t, "x").Certificate, 1, ErrExpired},
		{"an expired end", e2e.NewAuthority(t, "x", expired).PEM(), nil, good.Certificate, 1, ErrUnknown},
		{"one link, sent", root.PEM(), nil, ofOne.Certificate, 1, nil},
		{"one link, missing", root.PEM(), nil, leafless, 1, ErrUnknown},
		{"one link, in the bundle", all(root.PEM(), one.PEM()), nil, leafless, 1, nil},
		{"one link alone in the bundle", one.PEM(), nil, leafless, 1, nil},
		{"two links", root.PEM(), nil, two.Issue(t, "x").Certificate, 1, ErrTooLong},
		{"two links in the bundle", all(root.PEM(), one.PEM(), two.PEM()), nil, two.Issue(t, "x").Certificate[:1], 1, ErrTooLong},
		{"two links, and they may be", root.PEM(), nil, two.Issue(t, "x").Certificate, 2, nil},
		{"too many certificates", root.PEM(), nil, append(slices.Clone(good.Certificate), slices.Repeat(ofOne.Certificate, 6)...), 9, ErrTooLong},
		{"a list without it", root.PEM(), root.Revoke(t, in, revoked.Leaf), good.Certificate, 1, nil},
		{"revoked", root.PEM(), root.Revoke(t, in, revoked.Leaf), revoked.Certificate, 1, ErrRevoked},
		{"revoked by an old list", root.PEM(), root.Revoke(t, past, revoked.Leaf), revoked.Certificate, 1, ErrRevoked},
		{"an old list", root.PEM(), root.Revoke(t, past), good.Certificate, 1, ErrOldList},
		{"an old list and a new one", root.PEM(), all(root.Revoke(t, past), root.Revoke(t, in)), good.Certificate, 1, nil},
		{"a list of somebody else", all(root.PEM(), other.PEM()), other.Revoke(t, in), good.Certificate, 1, ErrNoList},
		{"no list of the link", root.PEM(), root.Revoke(t, in), ofOne.Certificate, 1, ErrNoList},
		{"lists of both", root.PEM(), all(root.Revoke(t, in), one.Revoke(t, in)), ofOne.Certificate, 1, nil},
		{"a revoked link", root.PEM(), all(root.Revoke(t, in, one.Certificate), one.Revoke(t, in)), ofOne.Certificate, 1, ErrRevoked},
		{"revoked by a link", root.PEM(), all(root.Revoke(t, in), one.Revoke(t, in, ofOne.Leaf)), ofOne.Certificate, 1, ErrRevoked},
	} {
		v := parsed(t, c.certificates, c.lists).Verify(sent(t, c.chain), Terms{Usage: x509.ExtKeyUsageClientAuth, Depth: c.depth, Now: now})
		if !errors.Is(v.Err, c.want) || !v.Until.After(now) || v.Until.After(in.Add(time.Minute)) {
			t.Errorf("%s: %v until %v, want %v", c.name, v.Err, v.Until, c.want)
		}
	}
}

func encoded(t testing.TB, der []byte) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestOfWhatIsSentOneKeyANameIsTried: strangers do not choose how many signatures are checked.
func TestOfWhatIsSentOneKeyANameIsTried(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	right, wrong, other := root.Sub(t, "one"), root.Sub(t, "one"), e2e.NewAuthority(t, "other")
	again := other.Sub(t, "one")
	leaf := right.Issue(t, "x").Certificate[0]
	unnamed := sent(t, [][]byte{leaf})
	unnamed[0].AuthorityKeyId = nil
	var evil [][]byte
	for range maxSent - 1 {
		evil = append(evil, e2e.NewAuthority(t, "one").Raw)
	}
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		links int
		want  error
	}{
		"the one that is named by its key":  {sent(t, [][]byte{leaf, wrong.Raw, again.Raw, right.Raw}), 1, nil},
		"the first where nothing is said":   {append(unnamed[:1:1], sent(t, [][]byte{right.Raw, wrong.Raw})...), 1, nil},
		"any number of the name":            {sent(t, append([][]byte{leaf}, evil...)), 1, ErrUnknown},
		"the root along with it, before it": {sent(t, [][]byte{leaf, root.Raw, right.Raw}), 2, nil},
		"others that nobody needs":          {sent(t, [][]byte{leaf, other.Raw, right.Raw}), 1, nil},
	} {
		if n := len(leading(c.chain, 2)); n != c.links {
			t.Errorf("%s: %d are looked at, want %d", name, n, c.links)
		}
		v := parsed(t, root.PEM(), nil).Verify(c.chain, Terms{Usage: x509.ExtKeyUsageClientAuth, Depth: 1, Now: time.Now()})
		if !errors.Is(v.Err, c.want) {
			t.Errorf("%s: %v, want %v", name, v.Err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	b := parsed(t, root.PEM(), nil)
	chain := sent(t, root.Issue(t, "a.test").Certificate)
	for name, want := range map[string]error{"a.test": nil, "A.test": nil, "b.test": ErrName, "x.a.test": ErrName, "127.0.0.1": ErrName, "": nil} {
		if v := b.Verify(chain, Terms{Usage: x509.ExtKeyUsageServerAuth, Name: name, Depth: 1, Now: time.Now()}); !errors.Is(v.Err, want) {
			t.Errorf("%q: %v, want %v", name, v.Err, want)
		}
	}
}

func TestTheSystemVouchesForNoneOfOurs(t *testing.T) {
	chain := sent(t, e2e.NewAuthority(t, "root").Issue(t, "a.test").Certificate)
	v := (*Bundle)(nil).Verify(chain, Terms{Usage: x509.ExtKeyUsageServerAuth, Name: "a.test", Depth: 1, Now: time.Now()})
	if !errors.Is(v.Err, ErrUnknown) && !errors.Is(v.Err, ErrSystem) {
		t.Errorf("%v", v.Err)
	}
}

// TestBrokenBundles: each has one message, which says where the fault is.
func TestBrokenBundles(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	impostor := e2e.NewAuthority(t, "root")
	leaf := root.Issue(t, "leaf")
	certificate, key := e2e.PairPEM(t, leaf)
	good, in := root.PEM(), time.Now().Add(time.Hour)
	list := root.Revoke(t, in)
	wrapped := func(kind, body string) []byte {
		return []byte("-----BEGIN " + kind + "-----\n" + body + "\n-----END " + kind + "-----\n")
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	flipped := bytes.Clone(root.Raw)
	flipped[2] ^= 0x40
	for _, c := range []struct {
		name                string
		certificates, lists []byte
		want                string
	}{
		{"nothing", nil, nil, "there is nothing in it"},
		{"spaces", []byte(" \n\t"), nil, "there is nothing in it"},
		{"words", []byte("my ca"), nil, "it is no PEM: -----BEGIN CERTIFICATE----- is expected"},
		{"DER", root.Raw, nil, "it is no PEM"},
		{"base64 of PEM", []byte("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"), nil, "it is no PEM"},
		{"a key", key, nil, "block 1 is a PRIVATE KEY, not a CERTIFICATE"},
		{"a key behind", join(good, key), nil, "block 2 is a PRIVATE KEY, not a CERTIFICATE"},
		{"a list", list, nil, "block 1 is a X509 CRL, not a CERTIFICATE"},
		{"an empty block", wrapped("CERTIFICATE", ""), nil, "block 1: x509: malformed certificate"},
		{"no base64", wrapped("CERTIFICATE", "????"), nil, "block 1 is no PEM, or was cut off"},
		{"no certificate", wrapped("CERTIFICATE", "AAAA"), nil, "block 1: x509: malformed certificate"},
		{"a changed one", encoded(t, flipped), nil, "block 1: x509: malformed certificate"},
		{"cut off", good[:len(good)-40], nil, "block 1 is no PEM, or was cut off"},
		{"cut off behind", join(good, good[:len(good)-40]), nil, "block 2 is no PEM, or was cut off"},
		{"cut off before", join(good[:len(good)-40], []byte("\n"), good), nil, "block 1 is no PEM, or was cut off"},
		{"a leaf", certificate, nil, `block 1: "CN=leaf" is not the certificate of an authority`},
		{"a leaf behind", join(good, certificate), nil, `block 2: "CN=leaf" is not the certificate of an authority`},
		{"too many", bytes.Repeat(good, maxAuthorities+1), nil, "there are more than 1000 blocks"},
		{"an empty list", good, []byte{}, "the revocation list is empty"},
		{"a list that is a certificate", good, good, "block 1 is a CERTIFICATE, not a X509 CRL"},
		{"a list of words", good, []byte("nobody"), "it is no PEM: -----BEGIN X509 CRL----- is expected"},
		{"no list", good, wrapped("X509 CRL", "AAAA"), "block 1: x509: malformed crl"},
		{"a list cut off", good, list[:len(list)-40], "block 1 is no PEM, or was cut off"},
		{"a list that somebody else signed", good, impostor.Revoke(t, in), `block 1: the list of "CN=root" is not signed by the authority of that name`},
	} {
		b, err := Parse(c.certificates, c.lists)
		if b != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want %q", c.name, b, err, c.want)
		}
	}
}

// TestAuthoritiesAreNotCheckedAgainstAllOthers: whoever may write a Secret would have everybody wait for that.
func TestAuthoritiesAreNotCheckedAgainstAllOthers(t *testing.T) {
	const many = 50
	if many*many <= maxChecks {
		t.Fatal("there are too few")
	}
	var named, nameless bytes.Buffer
	unknown, root := e2e.NewAuthority(t, "unknown"), e2e.NewAuthority(t, "root")
	last := root
	for i := range many {
		last = unknown.Sub(t, fmt.Sprint("authority ", i))
		named.Write(last.PEM())
		nameless.Write(root.Sub(t, "root").PEM())
	}
	b := parsed(t, named.Bytes(), nil)
	if v := b.Verify(sent(t, last.Issue(t, "x").Certificate), Terms{Usage: x509.ExtKeyUsageClientAuth, Depth: 1, Now: time.Now()}); v.Err != nil {
		t.Errorf("%v, want what one of many vouches for", v.Err)
	}
	if _, err := Parse(nameless.Bytes(), nil); err == nil || !strings.Contains(err.Error(), "too many of its authorities have the same name") {
		t.Errorf("%v, want it said that too many have the same name", err)
	}
}

// longRSA is a certificate with an RSA key of so many bits, of which nobody has the private half.
func longRSA(t testing.TB, bits int) []byte {
	t.Helper()
	signer := e2e.NewAuthority(t, "signer").Issue(t, "signer")
	n := new(big.Int).SetBit(big.NewInt(1), bits-1, 1)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "long"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &rsa.PublicKey{N: n, E: 65537}, signer.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestKeysThatTakeLongAreNotComputedWith(t *testing.T) {
	const want = `block 1: the RSA key of "CN=long" has 8193 bits: expected 8192 or fewer`
	if _, err := Parse(encoded(t, longRSA(t, maxRSA+1)), nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	certificate, key := e2e.PairPEM(t, e2e.NewAuthority(t, "root").Issue(t, "x"))
	long := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: make([]byte, maxRSA+1)})
	if _, err := Pair(certificate, long); err == nil || !strings.Contains(err.Error(), "the private key is too long") {
		t.Errorf("%v, want it said that the key is too long", err)
	}
	if pair, err := Pair(certificate, key); err != nil || pair.Leaf.Subject.CommonName != "x" {
		t.Errorf("%v, %v; want the pair", pair, err)
	}
}

func TestStale(t *testing.T) {
	now := time.Now()
	root := e2e.NewAuthority(t, "root")
	for text, b := range map[string]*Bundle{
		"":                                     parsed(t, root.PEM(), root.Revoke(t, now.Add(time.Hour))),
		"every authority in it has expired":    parsed(t, e2e.NewAuthority(t, "old", func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }).PEM(), nil),
		`the revocation list of "CN=root" was`: parsed(t, root.PEM(), root.Revoke(t, now.Add(-time.Minute))),
	} {
		if got := b.Stale(now); !strings.HasPrefix(got, text) || (got == "") != (text == "") {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	root := e2e.NewAuthority(f, "root")
	f.Add(root.PEM(), root.Revoke(f, time.Now()))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte{})
	chain := []*x509.Certificate{root.Issue(f, "x").Leaf}
	f.Fuzz(func(t *testing.T, certificates, lists []byte) {
		if b, err := Parse(certificates, lists); err == nil {
			b.Stale(time.Now())
			if v := b.Verify(chain, Terms{Usage: x509.ExtKeyUsageClientAuth, Now: time.Now()}); v.Err == nil && !bytes.Contains(certificates, []byte("BEGIN")) {
				t.Error("somebody vouches")
			}
		}
	})
}
