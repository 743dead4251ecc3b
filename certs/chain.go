package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

// maxChain is how many certificates a chain may have: more cost every client of the host, and mean a mistake.
const maxChain = 16

// parseChain reads every certificate of a PEM text, each once. There is one.
func parseChain(text []byte) (chain []*x509.Certificate, err error) {
	number := 0
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return chain, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		number++
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil && number == 1:
			return nil, fmt.Errorf("not a pair of certificate and private key: %w", err)
		case err != nil:
			return nil, fmt.Errorf("certificate %d of the chain: %w", number, err)
		case checkRSA(c.PublicKey) != nil:
			return nil, fmt.Errorf("certificate %d of the chain: %w", number, checkRSA(c.PublicKey))
		case number > maxChain:
			return nil, fmt.Errorf("the chain has more than %d certificates: expected that of the host and those of its issuers", maxChain)
		}
		if !contains(chain, c) {
			chain = append(chain, c)
		}
	}
}

func contains(chain []*x509.Certificate, c *x509.Certificate) bool {
	for _, other := range chain {
		if bytes.Equal(other.Raw, c.Raw) {
			return true
		}
	}
	return false
}

// inOrder is the leaf, its issuer, the issuer of that one and so on, as far as there are such among the certificates; clients
// need them in this order (RFC 8446 section 4.4.2 tolerates others, and they do not). Those that belong to nobody are left
// out: they would only be sent.
func inOrder(leaf *x509.Certificate, all []*x509.Certificate) []*x509.Certificate {
	chain := []*x509.Certificate{leaf}
	for last := leaf; !selfIssued(last); {
		issuer := issuerOf(last, all, chain)
		if issuer == nil {
			break
		}
		chain, last = append(chain, issuer), issuer
	}
	return chain
}

func issuerOf(c *x509.Certificate, among, except []*x509.Certificate) *x509.Certificate {
	for _, candidate := range among {
		if bytes.Equal(candidate.RawSubject, c.RawIssuer) && !contains(except, candidate) && c.CheckSignatureFrom(candidate) == nil {
			return candidate
		}
	}
	return nil
}

func selfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }

// CheckChain says what is wrong with the issuers in a chain, as Parse read it of a PEM text; "" for nothing that is known.
// Clients know the roots, and often only those: a chain has to lead there.
//
// issuers are certificates that are known beside it, of the authority that made it: the PEM text of ca.crt; nil: none are.
// Without them nobody can tell whether the issuer of a chain's last certificate is a root, but for those of public
// authorities, which name a place where to fetch it: no root makes such.
func CheckChain(pair *tls.Certificate, text, issuers []byte, now time.Time) string {
	all, err := parseChain(text)
	if err != nil {
		return ""
	}
	chain := make([]*x509.Certificate, 0, len(pair.Certificate))
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return ""
		}
		chain = append(chain, c)
	}
	last := chain[len(chain)-1]
	for i, c := range all {
		if !contains(chain, c) {
			return fmt.Sprintf("certificate %d (%s) has no place in the chain, which ends at %s and lacks its issuer, %s", i+1, nameOf(c), nameOf(last), last.Issuer)
		}
	}
	for i, c := range chain[1:] {
		if now.After(c.NotAfter) {
			return fmt.Sprintf("certificate %d of the chain (%s) expired at %s", i+2, nameOf(c), c.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if selfIssued(last) {
		return ""
	}
	known, err := parseChain(issuers)
	if err != nil {
		known = nil
	}
	// ca.crt is sent to nobody. Whoever writes an intermediate there alone may have clients that trust just that one; beside
	// its own issuer it is a link of the chain, which is missing where clients look for it.
	if issuer := issuerOf(last, known, nil); issuer != nil && (selfIssued(issuer) || issuerOf(issuer, known, nil) == nil) {
		return ""
	}
	missing := fmt.Sprintf("the chain ends at %s and lacks its issuer, %s, without which many clients trust it not", nameOf(last), last.Issuer)
	switch {
	case len(known) > 0:
		return missing
	case len(chain) == 1 && len(last.IssuingCertificateURL) > 0 && !knownRoot(last, now):
		return missing
	}
	return ""
}

// CheckUsage says why clients refuse a certificate as that of a server, though it is for the name; "" for nothing that is known.
func CheckUsage(leaf *x509.Certificate) string {
	forServers := slices.ContainsFunc(leaf.ExtKeyUsage, func(u x509.ExtKeyUsage) bool { return u == x509.ExtKeyUsageServerAuth || u == x509.ExtKeyUsageAny })
	switch {
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 && !forServers:
		return "it is not for servers: its extended key usage lacks serverAuth"
	case leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return "it is not for handshakes, in which servers sign: its key usage lacks digitalSignature"
	}
	return ""
}

// knownRoot reports whether this machine knows the issuer of c as a root.
func knownRoot(c *x509.Certificate, now time.Time) bool {
	_, err := c.Verify(x509.VerifyOptions{CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// nameOf is how people know a certificate.
func nameOf(c *x509.Certificate) string {
	switch {
	case c.Subject.CommonName != "":
		return fmt.Sprintf("%q", c.Subject.CommonName)
	case len(c.DNSNames) > 0:
		return fmt.Sprintf("%q", c.DNSNames[0])
	}
	return fmt.Sprintf("serial number %x", c.SerialNumber)
}
