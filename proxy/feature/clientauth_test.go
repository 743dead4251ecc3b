package feature

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// TestBrokenAuthoritiesOfClients: each has one message, and closes the host.
func TestBrokenAuthoritiesOfClients(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	impostor := e2e.NewAuthority(t, "root")
	certificate, key := e2e.PairPEM(t, root.Issue(t, "leaf"))
	ca, in, past := root.PEM(), time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	old := e2e.NewAuthority(t, "old", func(c *x509.Certificate) { c.NotAfter = past })
	list := root.Revoke(t, in)
	type data = map[string][]byte
	type set = map[string]string
	for _, c := range []struct {
		name   string
		secret data // nil: there is none
		more   set
		closed bool
		want   string
	}{
		{"no Secret", nil, nil, true, `no Secret is named "ca" in namespace "shop"`},
		{"empty Secret", data{}, nil, true, "the Secret has no ca.crt; it has nothing"},
		{"another key", data{"tls.crt": ca, "tls.key": key}, nil, true, "the Secret has no ca.crt; it has tls.crt, tls.key"},
		{"empty ca.crt", data{"ca.crt": {}}, nil, true, "the Secret has no ca.crt; it has ca.crt"},
		{"spaces", data{"ca.crt": []byte(" \n")}, nil, true, "ca.crt of the Secret cannot be read: there is nothing in it"},
		{"words", data{"ca.crt": []byte("CA")}, nil, true, "ca.crt of the Secret cannot be read: it is no PEM"},
		{"DER", data{"ca.crt": root.Raw}, nil, true, "ca.crt of the Secret cannot be read: it is no PEM"},
		{"a key", data{"ca.crt": key}, nil, true, "block 1 is a PRIVATE KEY"},
		{"a key behind", data{"ca.crt": append(ca[:len(ca):len(ca)], key...)}, nil, true, "block 2 is a PRIVATE KEY"},
		{"a leaf", data{"ca.crt": certificate}, nil, true, `"CN=leaf" is not the certificate of an authority`},
		{"cut off", data{"ca.crt": ca[:len(ca)-30]}, nil, true, "block 1 is no PEM, or was cut off"},
		{"cut off behind", data{"ca.crt": append(ca[:len(ca):len(ca)], ca[:100]...)}, nil, true, "block 2 is no PEM, or was cut off"},
		{"no certificate", data{"ca.crt": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, nil, true, "block 1: x509: malformed certificate"},
		{"a list", data{"ca.crt": list}, nil, true, "block 1 is a X509 CRL"},
		{"an empty list", data{"ca.crt": ca, "ca.crl": {}}, nil, true, "ca.crl of the Secret cannot be read: the revocation list is empty"},
		{"a null list", data{"ca.crt": ca, "ca.crl": nil}, nil, true, "ca.crl of the Secret cannot be read: the revocation list is empty"},
		{"a list of words", data{"ca.crt": ca, "ca.crl": []byte("none")}, nil, true, "ca.crl of the Secret cannot be read: it is no PEM"},
		{"a list that is none", data{"ca.crt": ca, "ca.crl": ca}, nil, true, "block 1 is a CERTIFICATE"},
		{"a list cut off", data{"ca.crt": ca, "ca.crl": list[:len(list)-30]}, nil, true, "block 1 is no PEM, or was cut off"},
		{"a list that somebody else signed", data{"ca.crt": ca, "ca.crl": impostor.Revoke(t, in)}, nil, true, "is not signed by the authority of that name"},
		{"an expired authority", data{"ca.crt": old.PEM()}, nil, false, "nobody is let in: every authority in it has expired"},
		{"an old list", data{"ca.crt": ca, "ca.crl": root.Revoke(t, past)}, nil, false, "nobody is let in: the revocation list"},
		{"another namespace", data{"ca.crt": ca}, set{"auth-tls-secret": "other/ca"}, true, "allow-cross-namespace-resources"},
		{"no name", data{"ca.crt": ca}, set{"auth-tls-secret": "shop/../ca"}, true, "expected the name of a Secret"},
		{"verify-client", data{"ca.crt": ca}, set{"auth-tls-verify-client": "yes"}, true, "expected on, off, optional or optional_no_ca"},
		{"depth", data{"ca.crt": ca}, set{"auth-tls-verify-depth": "one"}, true, "expected a whole number"},
		{"pass", data{"ca.crt": ca}, set{"auth-tls-pass-certificate-to-upstream": "on"}, true, `expected "true" or "false"`},
		{"common name without CN=", data{"ca.crt": ca}, set{"auth-tls-match-cn": "alice"}, true, `expected "CN=" and a regular expression`},
		{"common name that is no expression", data{"ca.crt": ca}, set{"auth-tls-match-cn": "CN=(alice"}, true, `expected "CN=" and a regular expression`},
		{"common name that leaves its group", data{"ca.crt": ca}, set{"auth-tls-match-cn": "CN=a)|(.*"}, true, `expected "CN=" and a regular expression`},
		{"page of nginx's", data{"ca.crt": ca}, set{"auth-tls-error-page": "@help"}, true, "names of nginx's own"},
		{"page with a host alone", data{"ca.crt": ca}, set{"auth-tls-error-page": "//help.test/x"}, true, "expected a URL"},
		{"page with dots", data{"ca.crt": ca}, set{"auth-tls-error-page": "/a/../b"}, true, "expected a URL"},
		{"page of another scheme", data{"ca.crt": ca}, set{"auth-tls-error-page": "javascript:alert(1)"}, true, "expected a URL"},
		{"a slip", data{"ca.crt": ca}, set{"auth-tls-verify-cleint": "on"}, true, "did you mean auth-tls-verify-client?"},
	} {
		annotations := set{NginxPrefix + "auth-tls-secret": "shop/ca"}
		for name, value := range c.more {
			annotations[NginxPrefix+name] = value
		}
		in := Input{Namespace: "shop", Name: "web", Annotations: annotations, Objects: objects{}}
		if c.secret != nil {
			in.Objects = objects{secrets: map[string]map[string][]byte{"shop/ca": c.secret}}
		}
		d, problems := Parse(in)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, c.want) || problems[0].Denies != c.closed {
			t.Errorf("%s: problems %+v; want one with %q", c.name, problems, c.want)
		}
		if d.Host.Clients == nil || d.Host.Clients.Closed() != c.closed {
			t.Errorf("%s: the host has %+v, want it closed: %v", c.name, d.Host.Clients, c.closed)
		}
	}
}

// TestWhatDoesNotGuardWithoutASecret: and what was to guard does not stand open.
func TestWhatDoesNotGuardWithoutASecret(t *testing.T) {
	for _, c := range []struct {
		name, value string
		closed      bool
		problems    int
	}{
		{"auth-tls-verify-client", "on", true, 1}, {"auth-tls-verify-client", "optional", false, 1}, {"auth-tls-verify-client", "optional_no_ca", false, 1},
		{"auth-tls-verify-client", "off", false, 0}, {"auth-tls-match-cn", "CN=alice", true, 1}, {"auth-tls-verify-depth", "2", false, 1},
		{"auth-tls-error-page", "/x", false, 1}, {"auth-tls-pass-certificate-to-upstream", "true", false, 1},
	} {
		d, problems := Parse(Input{Namespace: "shop", Name: "web", Annotations: map[string]string{NginxPrefix + c.name: c.value}, Objects: objects{}})
		if closed := d.Host.Clients != nil && d.Host.Clients.Closed(); closed != c.closed || d.Denied() != c.closed || len(problems) != c.problems {
			t.Errorf("%s: %s: closed %v, problems %+v; want closed %v, %d problems", c.name, c.value, closed, problems, c.closed, c.problems)
		}
	}
}
