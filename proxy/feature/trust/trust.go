// Package trust says whom authorities vouch for: bundles of certificates, revocation lists, and how long a chain may be.
//
//	bundle, err := trust.Parse(secret["ca.crt"], secret["ca.crl"])
//	verdict := bundle.Verify(chain, trust.Terms{Usage: x509.ExtKeyUsageClientAuth, Depth: 1, Now: time.Now()})
//	if verdict.Err != nil { ... }
//
// # What is trusted
//
// As with OpenSSL, the authorities that vouch for themselves end a chain, and the others of a bundle are links of it, which
// count towards its depth. One whose own authority is not in the bundle ends a chain too: who writes an intermediate alone
// means it.
//
// With revocation lists every certificate of a chain, but for its end, needs one of its authority that is in force. A list
// that is missing or has run out lets nobody in: who has none that counts cannot know who was thrown out.
//
// # What it does not do
//
// It fetches nothing, neither lists nor missing links, and asks nobody about a certificate (OCSP).
package trust

import (
	"bytes"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Bundle is authorities and their revocation lists. It never changes. The nil Bundle is the system's authorities.
type Bundle struct {
	anchors *x509.CertPool      // that end a chain
	links   []*x509.Certificate // that do not
	names   *x509.CertPool      // all of them
	all     []*x509.Certificate
	lists   []*list // nil: nobody is asked about revocation
}

// A list is one revocation list.
type list struct {
	*x509.RevocationList
	revoked map[string]bool // by serial number, in bytes
}

// Bounds of what is read: a Secret has 1 MiB, a folder may have more.
const (
	maxAuthorities = 1000
	maxLists       = 100
	maxSent        = 10 // certificates that the other side sends
)

// Parse reads certificates and revocation lists in PEM. No lists are fine, no certificates are not. An error says which
// block is at fault; of several, the first.
func Parse(certificates, lists []byte) (*Bundle, error) {
	b := &Bundle{anchors: x509.NewCertPool(), names: x509.NewCertPool()}
	w := work{left: maxChecks}
	err := blocks(certificates, "CERTIFICATE", maxAuthorities, func(der []byte) error {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		if err := checkKey(c); err != nil {
			return err
		}
		if !vouches(c) && !w.signsItself(c) {
			return fmt.Errorf("%q is not the certificate of an authority", c.Subject.String())
		}
		b.all = append(b.all, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	byName := make(map[string][]*x509.Certificate, len(b.all))
	for _, c := range b.all {
		byName[string(c.RawSubject)] = append(byName[string(c.RawSubject)], c)
	}
	for _, c := range b.all {
		b.names.AddCert(c)
		if w.signsItself(c) || !slices.ContainsFunc(byName[string(c.RawIssuer)], func(o *x509.Certificate) bool { return w.signed(o, c) }) {
			b.anchors.AddCert(c)
		} else {
			b.links = append(b.links, c)
		}
	}
	if w.left < 0 {
		return nil, fmt.Errorf("too many of its authorities have the same name: more than %d signatures would have to be checked to tell who vouches for whom", maxChecks)
	}
	if lists == nil {
		return b, nil
	}
	return b.With(lists)
}

// With returns the bundle with revocation lists in PEM. None at all are an error: somebody meant there to be some.
func (b *Bundle) With(lists []byte) (*Bundle, error) {
	if len(bytes.TrimSpace(lists)) == 0 {
		return nil, errors.New("the revocation list is empty")
	}
	with := *b
	with.lists = nil
	w := work{left: maxChecks}
	if err := blocks(lists, "X509 CRL", maxLists, func(der []byte) error { return with.addList(der, &w) }); err != nil {
		return nil, err
	}
	return &with, nil
}

// maxChecks bounds the signatures that are computed with to read a bundle: one or two for each of its authorities, where no
// two have the same name. They are read where the table is built, for everybody: whoever fills a Secret with hundreds of one
// name would otherwise have each checked against each, for minutes in which nobody's changes are served.
const maxChecks = 2 * maxAuthorities

// work is what is left of maxChecks. Below zero no check succeeds any more.
type work struct{ left int }

// signed reports whether the key of an authority has signed a certificate.
func (w *work) signed(by, c *x509.Certificate) bool {
	w.left--
	return w.left >= 0 && c.CheckSignatureFrom(by) == nil
}

func (w *work) signsItself(c *x509.Certificate) bool {
	if !bytes.Equal(c.RawSubject, c.RawIssuer) {
		return false
	}
	w.left--
	return w.left >= 0 && signsItself(c)
}

// maxRSA is the longest RSA key, in bits, that crypto/tls takes of anybody. To check one signature of a key that fills a Secret
// would take minutes.
const maxRSA = 8192

func checkKey(c *x509.Certificate) error {
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
		return fmt.Errorf("the RSA key of %q has %d bits: expected %d or fewer", c.Subject.String(), key.N.BitLen(), maxRSA)
	}
	return nil
}

// Pair reads a certificate and its key, in PEM, to show to others.
func Pair(certificate, key []byte) (*tls.Certificate, error) {
	for rest := key; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if len(block.Bytes) > maxRSA { // which has some 4,700 bytes, and the key is not looked at before it is read
			return nil, fmt.Errorf("the private key is too long: expected one of %d bits or fewer", maxRSA)
		}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	if err := checkKey(pair.Leaf); err != nil {
		return nil, err
	}
	return &pair, nil
}

// blocks reads PEM of one type.
func blocks(text []byte, kind string, most int, each func(der []byte) error) error {
	rest := bytes.TrimSpace(text)
	if len(rest) == 0 {
		return errors.New("there is nothing in it")
	}
	n := 0
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			if bytes.Contains(rest, []byte("-----BEGIN")) {
				return fmt.Errorf("block %d is no PEM, or was cut off", n+1)
			}
			break
		}
		n++
		switch {
		case block.Type != kind:
			return fmt.Errorf("block %d is a %s, not a %s", n, block.Type, kind)
		case n > most:
			return fmt.Errorf("there are more than %d blocks", most)
		}
		// What stands before a block is a comment, unless it was to be one: pem.Decode skips what it cannot read.
		if skipped := rest[:len(rest)-len(after)]; bytes.Count(skipped, []byte("-----BEGIN")) > 1 {
			return fmt.Errorf("block %d is no PEM, or was cut off", n)
		}
		if err := each(block.Bytes); err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
		rest = after
	}
	if n == 0 {
		return fmt.Errorf("it is no PEM: -----BEGIN %s----- is expected", kind)
	}
	return nil
}

// vouches reports whether a certificate may sign others. Those of version 1 could not say so.
func vouches(c *x509.Certificate) bool {
	if c.Version < 3 {
		return true
	}
	return c.BasicConstraintsValid && c.IsCA && (c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0)
}

func signsItself(c *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, c.RawIssuer) && c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

var (
	oidAuthorityKeyID = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidNumber         = asn1.ObjectIdentifier{2, 5, 29, 20}
)

func (b *Bundle) addList(der []byte, w *work) error {
	l, err := x509.ParseRevocationList(der)
	if err != nil {
		return err
	}
	for _, e := range l.Extensions {
		if e.Critical && !e.Id.Equal(oidAuthorityKeyID) && !e.Id.Equal(oidNumber) {
			return fmt.Errorf("the list of %q is only a part of one (extension %s), which is not understood", l.Issuer.String(), e.Id)
		}
	}
	named := func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, l.RawIssuer) }
	signed := func(c *x509.Certificate) bool {
		if !named(c) {
			return false
		}
		w.left--
		return w.left >= 0 && l.CheckSignatureFrom(c) == nil
	}
	if slices.ContainsFunc(b.all, named) && !slices.ContainsFunc(b.all, signed) {
		return fmt.Errorf("the list of %q is not signed by the authority of that name", l.Issuer.String())
	}
	known := &list{l, make(map[string]bool, len(l.RevokedCertificateEntries))}
	for _, e := range l.RevokedCertificateEntries {
		known.revoked[string(e.SerialNumber.Bytes())] = true
	}
	b.lists = append(b.lists, known)
	return nil
}

// Pool has every authority of the bundle, for those who want to name them to others. Do not change it.
func (b *Bundle) Pool() *x509.CertPool { return b.names }

// Stale says why the bundle vouches for nobody at a time, though it was read well: every authority has run out, or a
// list has. Empty: it may.
func (b *Bundle) Stale(now time.Time) string {
	if !slices.ContainsFunc(b.all, func(c *x509.Certificate) bool { return !now.After(c.NotAfter) }) {
		return fmt.Sprintf("every authority in it has expired, the last at %s", latest(b.all).UTC().Format(time.RFC3339))
	}
	for _, l := range b.lists {
		if !l.inForce(now) {
			return fmt.Sprintf("the revocation list of %q was to be renewed by %s", l.Issuer.String(), l.NextUpdate.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

func latest(all []*x509.Certificate) (t time.Time) {
	for _, c := range all {
		if c.NotAfter.After(t) {
			t = c.NotAfter
		}
	}
	return t
}

func (l *list) inForce(now time.Time) bool {
	return !now.Before(l.ThisUpdate) && (l.NextUpdate.IsZero() || !now.After(l.NextUpdate))
}

// Terms are what a certificate must be good for.
type Terms struct {
	Usage x509.ExtKeyUsage
	Name  string // the host or address that it must be for; empty: any
	Depth int    // how many authorities may stand between it and the end of its chain
	Now   time.Time
}

// A Verdict is what came of a certificate.
type Verdict struct {
	Err   error     // why it is refused, in fixed words, OpenSSL's where it has some; nil: it is good
	Until time.Time // when to ask again
}

// The reasons to refuse.
var (
	ErrNone      = errors.New("no certificate")
	ErrExpired   = errors.New("certificate has expired")
	ErrTooEarly  = errors.New("certificate is not yet valid")
	ErrSelf      = errors.New("self-signed certificate")
	ErrUnknown   = errors.New("unable to get local issuer certificate")
	ErrTooLong   = errors.New("certificate chain too long")
	ErrPurpose   = errors.New("unsuitable certificate purpose")
	ErrName      = errors.New("hostname mismatch")
	ErrRevoked   = errors.New("certificate revoked")
	ErrNoList    = errors.New("unable to get certificate CRL")
	ErrOldList   = errors.New("CRL has expired")
	ErrInvalidCA = errors.New("invalid CA certificate")
	ErrInvalid   = errors.New("certificate is not valid")
	ErrSystem    = errors.New("the system has no authorities")
)

// again is how long a refusal is good for: a list or a clock may change.
const again = time.Minute

// Verify judges a certificate with those that were sent behind it.
func (b *Bundle) Verify(sent []*x509.Certificate, terms Terms) Verdict {
	refused := func(err error) Verdict { return Verdict{err, terms.Now.Add(again)} }
	switch {
	case len(sent) == 0:
		return refused(ErrNone)
	case len(sent) > maxSent:
		return refused(ErrTooLong)
	}
	o := x509.VerifyOptions{
		DNSName: terms.Name, CurrentTime: terms.Now, KeyUsages: []x509.ExtKeyUsage{terms.Usage},
		Intermediates: x509.NewCertPool(),
	}
	for _, c := range leading(sent, terms.Depth+1) {
		o.Intermediates.AddCert(c)
	}
	if b != nil {
		o.Roots = b.anchors
		for _, c := range b.links {
			o.Intermediates.AddCert(c)
		}
	}
	chains, err := sent[0].Verify(o)
	if err != nil {
		return refused(explain(err, sent[0], terms.Now))
	}
	for _, chain := range chains {
		var until time.Time
		if until, err = b.accept(chain, terms); err == nil {
			return Verdict{nil, until}
		}
	}
	return refused(err)
}

// leading are those of the certificates that were sent which may lead on from the first, so many steps at most. Of two
// authorities of one name it is the one that the step before names by its key, else the one that was sent first: with several
// keys to try at every step a stranger would have a hundred signatures checked for one request, with the longest keys there are.
func leading(sent []*x509.Certificate, steps int) (links []*x509.Certificate) {
	at := sent[:1]
	for range steps {
		var next []*x509.Certificate
		for _, c := range at {
			named := func(o *x509.Certificate) bool { return bytes.Equal(o.RawSubject, c.RawIssuer) }
			issuer := slices.IndexFunc(sent[1:], func(o *x509.Certificate) bool {
				return named(o) && len(c.AuthorityKeyId) > 0 && bytes.Equal(o.SubjectKeyId, c.AuthorityKeyId)
			})
			if issuer < 0 {
				issuer = slices.IndexFunc(sent[1:], named)
			}
			if issuer < 0 {
				continue
			}
			for _, o := range sent[1:] { // one key may be vouched for by several
				if named(o) && bytes.Equal(o.RawSubjectPublicKeyInfo, sent[1+issuer].RawSubjectPublicKeyInfo) && !slices.Contains(links, o) && len(links) < maxSent {
					links, next = append(links, o), append(next, o)
				}
			}
		}
		at = next
	}
	return links
}

// accept judges one whole chain.
func (b *Bundle) accept(chain []*x509.Certificate, terms Terms) (until time.Time, err error) {
	if len(chain)-2 > terms.Depth {
		return until, ErrTooLong
	}
	until = chain[0].NotAfter
	for _, c := range chain {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	if b == nil || b.lists == nil {
		return until, nil
	}
	for i, c := range chain[:max(len(chain)-1, 1)] {
		issuer := chain[min(i+1, len(chain)-1)]
		ends, err := b.standing(c, issuer, terms.Now)
		if err != nil {
			return until, err
		}
		if !ends.IsZero() && ends.Before(until) {
			until = ends
		}
	}
	return until, nil
}

// standing asks the lists of an authority about a certificate of its. It returns when they run out, zero for never.
func (b *Bundle) standing(c, issuer *x509.Certificate, now time.Time) (until time.Time, err error) {
	err = ErrNoList
	for _, l := range b.lists {
		if !bytes.Equal(l.RawIssuer, c.RawIssuer) || l.CheckSignatureFrom(issuer) != nil {
			continue
		}
		if l.revoked[string(c.SerialNumber.Bytes())] {
			return until, ErrRevoked // by an old list too
		}
		if !l.inForce(now) {
			if err != nil {
				err = ErrOldList
			}
			continue
		}
		if err != nil || l.NextUpdate.Before(until) {
			until, err = l.NextUpdate, nil
		}
	}
	return until, err
}

// explain is an error of x509 in words that hold nothing the other side wrote.
func explain(err error, leaf *x509.Certificate, now time.Time) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var system x509.SystemRootsError
	switch {
	case errors.As(err, &name):
		return ErrName
	case errors.As(err, &system):
		return ErrSystem
	case errors.As(err, &unknown):
		if signsItself(leaf) {
			return ErrSelf
		}
		return ErrUnknown
	case errors.As(err, &invalid):
		switch invalid.Reason {
		case x509.Expired:
			if invalid.Cert != nil && now.Before(invalid.Cert.NotBefore) {
				return ErrTooEarly
			}
			return ErrExpired
		case x509.IncompatibleUsage:
			return ErrPurpose
		case x509.TooManyIntermediates:
			return ErrTooLong
		case x509.NotAuthorizedToSign:
			return ErrInvalidCA
		}
	}
	return ErrInvalid
}
