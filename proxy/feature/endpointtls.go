package feature

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/proxy/feature/trust"
	"sallyport/proxy/upstream"
)

// endpointTLS is what endpoints are shown over TLS, and what is asked of them (reference B8). It must come before
// healthChecks, which show the same.
func endpointTLS(a *Annotations, d *Draft) {
	a.Section("TLS to the endpoints", ReachPaths, "They count where HTTPS or GRPCS is spoken to endpoints. ingress-nginx ignores all of them without proxy-ssl-secret; here each works by "+
		"itself, and with proxy-ssl-verify the authorities of the system count where the Secret has no ca.crt. The name that an endpoint is asked for and must have a certificate for is proxy-ssl-name, else "+
		"the host that it is told: the client's, or upstream-vhost. ingress-nginx takes a name of its own making, which no certificate has, asks for no name unless told to, and speaks TLS 1.2 alone. Paths of another Ingress take nothing over from "+
		"this one, as with proxy-ssl-location-only. An endpoint that fails is answered for with 502, and the log says why, once in a while. A Secret that changes counts from the next connection on, and connections made with the old one are not used again. "+
		"What cannot be read of proxy-ssl-secret and proxy-ssl-verify closes the routes rather than have them trust anybody. A ca.crl in the Secret is a list of revoked certificates.")
	guarded := a.Shared().Strict()
	name := "proxy-ssl-secret"
	data := guarded.Secret(name, "has the certificate that endpoints are shown, tls.crt and tls.key, the authorities that theirs must be from, ca.crt, or both")
	verify := guarded.OnOff("proxy-ssl-verify", false, "whether the certificate of an endpoint must be from a known authority and for the name")
	depth := a.Shared().Int("proxy-ssl-verify-depth", 1, "how many authorities may stand between an endpoint's certificate and the one that is trusted by itself; 0 means 1")
	serverName := a.Shared().proxySSLName()
	named := a.Shared().OnOff("proxy-ssl-server-name", true, "whether endpoints are told the name that is meant (SNI)")
	minVersion, maxVersion := a.Shared().proxySSLProtocols()
	suites := a.Shared().ciphers("proxy-ssl-ciphers", "DEFAULT", "the cipher suites of TLS 1.2 that endpoints may choose from; those of TLS 1.3 are always there")
	a.Config().Bool("proxy-ssl-location-only", true, "accepted; paths never take over what another Ingress says")

	s := endpointSecret{}
	if data != nil {
		var complaint string
		if s, complaint = readEndpointSecret(data); complaint != "" {
			guarded.Refuse(name, complaint)
			return
		}
		if stale := s.stale(time.Now()); stale != "" {
			guarded.warn(name, stale)
		}
	}
	if data == nil && !verify && serverName == "" && named && minVersion == 0 && maxVersion == 0 && suites == nil {
		return
	}
	// The connections of before stay in use while all of this is as it was.
	key := fmt.Sprintf("endpoint tls %q %v %d %q %v %d %d %v", s.id, verify, depth, serverName, named, minVersion, maxVersion, suites)
	t := Recall(d, key, func() *endpointIdentity {
		config := &tls.Config{
			InsecureSkipVerify: true, // verified by peer, if at all
			ServerName:         serverName, MinVersion: minVersion, MaxVersion: maxVersion, CipherSuites: suites,
		}
		if s.pair != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.pair, nil }
		}
		peer := &upstream.Peer{Unnamed: !named}
		if verify {
			peer.Verify = verifyEndpoint(s.bundle, max(depth, 1))
		}
		return &endpointIdentity{config, peer}
	})
	d.Upstream.TLS, d.Upstream.Peer = t.config, t.peer
}

// An endpointIdentity is what connections are made with. Connections of one are not used for another.
type endpointIdentity struct {
	config *tls.Config
	peer   *upstream.Peer
}

// verifyEndpoint judges endpoints. bundle may be nil: the system's authorities.
func verifyEndpoint(bundle *trust.Bundle, depth int) func(string, []*x509.Certificate) error {
	return func(name string, sent []*x509.Certificate) error {
		if name == "" {
			return errors.New("the host that the endpoint is told can be no name of a certificate, and proxy-ssl-name says none")
		}
		return bundle.Verify(sent, trust.Terms{Usage: x509.ExtKeyUsageServerAuth, Name: name, Depth: depth, Now: time.Now()}).Err
	}
}

// An endpointSecret is what a Secret says about endpoints.
type endpointSecret struct {
	id     string           // of what it was made of
	pair   *tls.Certificate // nil: endpoints are shown none
	bundle *trust.Bundle    // nil: there is none
}

// readEndpointSecret says what is wrong with the data of a Secret, if anything is.
func readEndpointSecret(data map[string][]byte) (s endpointSecret, complaint string) {
	sum := sha256.New()
	for _, key := range []string{"tls.crt", "tls.key", "ca.crt", "ca.crl"} {
		fmt.Fprintf(sum, "%d:%s", len(data[key]), data[key])
	}
	s.id = string(sum.Sum(nil))
	certificate, key, authorities, lists := data["tls.crt"], data["tls.key"], data["ca.crt"], data["ca.crl"]
	if len(certificate)+len(key)+len(authorities) == 0 {
		return s, fmt.Sprintf("the Secret has neither tls.crt and tls.key nor ca.crt; it has %s", keysOf(data))
	}
	if len(certificate)+len(key) > 0 {
		switch {
		case len(key) == 0:
			return s, "the Secret has a tls.crt without a tls.key"
		case len(certificate) == 0:
			return s, "the Secret has a tls.key without a tls.crt"
		}
		pair, err := trust.Pair(certificate, key)
		if err != nil {
			return s, "tls.crt and tls.key of the Secret are no certificate and its key: " + strings.TrimPrefix(err.Error(), "tls: ")
		}
		s.pair = pair
	}
	if len(authorities) == 0 {
		if len(lists) > 0 {
			return s, "the Secret has a ca.crl without a ca.crt"
		}
		return s, ""
	}
	s.bundle, complaint = readBundle(authorities, data)
	return s, complaint
}

// stale says what has run out.
func (s *endpointSecret) stale(now time.Time) string {
	if s.pair != nil && now.After(s.pair.Leaf.NotAfter) {
		return fmt.Sprintf("tls.crt of the Secret expired at %s; endpoints may refuse it", s.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if s.bundle != nil {
		if stale := s.bundle.Stale(now); stale != "" {
			return "ca.crt of the Secret vouches for nobody: " + stale
		}
	}
	return ""
}

// readBundle reads ca.crt, and ca.crl where there is one.
func readBundle(authorities []byte, data map[string][]byte) (b *trust.Bundle, complaint string) {
	b, err := trust.Parse(authorities, nil)
	if err != nil {
		return nil, "ca.crt of the Secret cannot be read: " + err.Error()
	}
	if lists, ok := data["ca.crl"]; ok {
		if lists == nil {
			lists = []byte{}
		}
		if b, err = b.With(lists); err != nil {
			return nil, "ca.crl of the Secret cannot be read: " + err.Error()
		}
	}
	return b, ""
}

// keysOf are the keys of a Secret, never their values.
func keysOf(data map[string][]byte) string {
	if len(data) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(data)), ", ")
}

// proxySSLName reads the name that endpoints are to have a certificate for. Empty: the host they are told.
func (a *Annotations) proxySSLName() string {
	d := Declaration{Name: "proxy-ssl-name", Values: "the name of a host, or an address", Usage: "the name that endpoints are asked for, and that they must have a certificate for"}
	return read(a, d, "", func(value string) (string, string) {
		name := strings.TrimSuffix(value, ".")
		return name, unless(upstream.ServerName(name) == name && name != "", `expected a name as in "app.internal", without variables, or an address`)
	})
}

// proxySSLProtocols reads versions of TLS. Zero: the usual ones.
func (a *Annotations) proxySSLProtocols() (least, most uint16) {
	const values = "TLSv1.2, TLSv1.3 or both, separated by spaces"
	d := Declaration{Name: "proxy-ssl-protocols", Values: values, Default: "TLSv1.2 TLSv1.3", Usage: "the versions of TLS that are spoken to endpoints"}
	versions := read(a, d, [2]uint16{}, func(value string) (v [2]uint16, expected string) {
		known := map[string]uint16{"tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13}
		for word := range strings.FieldsSeq(strings.ToLower(value)) {
			version := known[word]
			if version == 0 {
				return v, "expected " + values
			}
			v[0], v[1] = min(cmp.Or(v[0], version), version), max(v[1], version)
		}
		if v == [2]uint16{tls.VersionTLS12, tls.VersionTLS13} {
			v = [2]uint16{}
		}
		return v, unless(strings.TrimSpace(value) != "", "expected "+values)
	})
	return versions[0], versions[1]
}
