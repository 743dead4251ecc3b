package value

import (
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"strings"
)

// What $ssl_* give, in the words of nginx and OpenSSL, since that is what the applications behind compare with. All are
// empty without TLS, and $ssl_client_* without a certificate of the client's but for $ssl_client_verify.

func sslProtocol(s source) string {
	if s.r.TLS == nil {
		return ""
	}
	switch s.r.TLS.Version {
	case tls.VersionTLS10:
		return "TLSv1"
	case tls.VersionTLS11:
		return "TLSv1.1"
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS13:
		return "TLSv1.3"
	}
	return tls.VersionName(s.r.TLS.Version)
}

// openSSLSuites are the cipher suites of TLS 1.2 that OpenSSL has names of its own for. Those of TLS 1.3 have one name.
var openSSLSuites = map[uint16]string{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:       "ECDHE-ECDSA-AES128-GCM-SHA256",
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:         "ECDHE-RSA-AES128-GCM-SHA256",
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:       "ECDHE-ECDSA-AES256-GCM-SHA384",
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:         "ECDHE-RSA-AES256-GCM-SHA384",
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:   "ECDHE-RSA-CHACHA20-POLY1305",
}

func sslCipher(s source) string {
	if s.r.TLS == nil {
		return ""
	}
	if name, ok := openSSLSuites[s.r.TLS.CipherSuite]; ok {
		return name
	}
	return tls.CipherSuiteName(s.r.TLS.CipherSuite)
}

func sslServerName(s source) string {
	if s.r.TLS == nil {
		return ""
	}
	return s.r.TLS.ServerName
}

// sslClientVerify is what came of the client's certificate, where the host asks for one. Elsewhere it believes the handshake
// alone: a certificate that it did not check has failed.
func sslClientVerify(s source) string {
	switch {
	case s.e.ClientVerify != "":
		return s.e.ClientVerify
	case s.r.TLS == nil:
		return ""
	case len(s.r.TLS.PeerCertificates) == 0:
		return "NONE"
	case len(s.r.TLS.VerifiedChains) == 0:
		return "FAILED:not verified"
	}
	return "SUCCESS"
}

// certificate is the client's, nil where there is none.
func certificate(s source) *x509.Certificate {
	if s.r.TLS == nil || len(s.r.TLS.PeerCertificates) == 0 {
		return nil
	}
	return s.r.TLS.PeerCertificates[0]
}

func sslClientSubject(s source) string {
	if c := certificate(s); c != nil {
		return DistinguishedName(c.RawSubject)
	}
	return ""
}

func sslClientIssuer(s source) string {
	if c := certificate(s); c != nil {
		return DistinguishedName(c.RawIssuer)
	}
	return ""
}

// sslClientSerial is in whole bytes, in upper case.
func sslClientSerial(s source) string {
	c := certificate(s)
	if c == nil {
		return ""
	}
	digits := strings.ToUpper(c.SerialNumber.Text(16))
	minus := ""
	if strings.HasPrefix(digits, "-") {
		minus, digits = "-", digits[1:]
	}
	if len(digits)%2 != 0 {
		digits = "0" + digits
	}
	return minus + digits
}

// sslClientFingerprint is SHA-1, which names a certificate here and vouches for nothing.
func sslClientFingerprint(s source) string {
	c := certificate(s)
	if c == nil {
		return ""
	}
	sum := sha1.Sum(c.Raw)
	return hex.EncodeToString(sum[:])
}

// attributeNames are those that OpenSSL writes in a name.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
	"2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description",
	"2.5.4.15": "businessCategory", "2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials",
	"2.5.4.44": "generationQualifier", "2.5.4.46": "dnQualifier", "2.5.4.65": "pseudonym", "2.5.4.97": "organizationIdentifier",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC", "1.2.840.113549.1.9.1": "emailAddress",
}

// DistinguishedName is a name of a certificate, given in DER, in the form of RFC 2253 as nginx writes it: the most
// specific attribute first, in ASCII alone. pkix.Name.String will not do: it sorts attributes, and writes those it does
// not know as bytes. It returns "" for what is no name.
func DistinguishedName(der []byte) string {
	var name pkix.RDNSequence
	if rest, err := asn1.Unmarshal(der, &name); err != nil || len(rest) > 0 {
		return ""
	}
	var b strings.Builder
	for i := len(name) - 1; i >= 0; i-- {
		for j := len(name[i]) - 1; j >= 0; j-- {
			switch {
			case j < len(name[i])-1:
				b.WriteByte('+')
			case i < len(name)-1:
				b.WriteByte(',')
			}
			writeAttribute(&b, name[i][j])
		}
	}
	return b.String()
}

func writeAttribute(b *strings.Builder, a pkix.AttributeTypeAndValue) {
	oid := a.Type.String()
	name, known := attributeNames[oid]
	value, isText := a.Value.(string)
	if known && isText {
		b.WriteString(name + "=")
		writeEscaped(b, value)
		return
	}
	if !known {
		name = oid
	}
	der, err := asn1.Marshal(a.Value)
	if err != nil {
		der = nil // a type that cannot be written again: its name alone
	}
	b.WriteString(name + "=#" + strings.ToUpper(hex.EncodeToString(der)))
}

// writeEscaped writes a value by RFC 2253 section 2.4, and bytes that are not printable ASCII as a backslash and two digits.
func writeEscaped(b *strings.Builder, value string) {
	for i := range len(value) {
		switch c := value[i]; {
		case c < ' ' || c > '~':
			b.WriteByte('\\')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
			continue
		case strings.IndexByte(`,+"\<>;`, c) >= 0, c == '#' && i == 0, c == ' ' && (i == 0 || i == len(value)-1):
			b.WriteByte('\\')
		}
		b.WriteByte(value[i])
	}
}
