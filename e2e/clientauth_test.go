package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// A gate is a process whose hosts ask clients for certificates, and one that does not.
type gate struct {
	*e2e.Process
	t                     *testing.T
	root, second          *e2e.Authority
	alice, bob            *tls.Certificate
	revoked, secondsAlice *tls.Certificate
}

// guardedHost is an Ingress with what it asks for.
func guardedHost(name, host string, annotations map[string]string, more string) string {
	annotations = maps.Clone(annotations)
	text, _ := json.Marshal(annotations)
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, annotations: %s}
spec:
  %s
  rules: [{host: %q, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: guarded, port: {number: 80}}}}]}}]
---
`, name, text, more, host)
}

func secretManifest(name string, data map[string][]byte) string {
	var fields []string
	for key, value := range data {
		fields = append(fields, fmt.Sprintf("%q: %s", key, base64.StdEncoding.EncodeToString(value)))
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata: {%s}\n---\n", name, strings.Join(fields, ", "))
}

func openGate(t *testing.T) *gate {
	g := &gate{t: t, root: e2e.NewAuthority(t, "root"), second: e2e.NewAuthority(t, "second")}
	g.alice, g.bob, g.revoked, g.secondsAlice = g.root.Issue(t, "alice"), g.root.Issue(t, "bob"), g.root.Issue(t, "revoked"), g.second.Issue(t, "alice")
	const p = "nginx.ingress.kubernetes.io/"
	type set = map[string]string
	var manifests strings.Builder
	secured := func(host string) string { return fmt.Sprintf("tls: [{hosts: [%q]}]", host) }
	for _, s := range []string{
		secretManifest("ca", map[string][]byte{"ca.crt": g.root.PEM()}),
		secretManifest("second", map[string][]byte{"ca.crt": g.second.PEM()}),
		secretManifest("crl", map[string][]byte{"ca.crt": g.root.PEM(), "ca.crl": g.root.Revoke(t, time.Now().Add(time.Hour), g.revoked.Leaf)}),
		guardedHost("mtls", "mtls.test", set{p + "auth-tls-secret": "default/ca", p + "auth-tls-pass-certificate-to-upstream": "true", p + "server-alias": `alias.test, ~^re[0-9]+\.test$`}, secured("mtls.test")),
		guardedHost("second", "second.test", set{p + "auth-tls-secret": "default/second"}, secured("second.test")),
		guardedHost("wild", "*.wild.test", set{p + "auth-tls-secret": "default/ca"}, secured("*.wild.test")),
		guardedHost("clear", "clear.test", set{p + "auth-tls-secret": "default/ca", p + "ssl-redirect": "false"}, secured("clear.test")),
		guardedHost("bare", "bare.test", set{p + "auth-tls-secret": "default/ca"}, ""),
		guardedHost("cn", "cn.test", set{p + "auth-tls-secret": "default/ca", p + "auth-tls-verify-client": "optional_no_ca", p + "auth-tls-match-cn": "CN=alice"}, secured("cn.test")),
		guardedHost("opt", "opt.test", set{p + "auth-tls-secret": "default/ca", p + "auth-tls-verify-client": "optional"}, secured("opt.test")),
		guardedHost("crl", "crl.test", set{p + "auth-tls-secret": "default/crl"}, secured("crl.test")),
		guardedHost("broken", "broken.test", set{p + "auth-tls-secret": "default/none"}, secured("broken.test")),
		guardedHost("slip", "slip.test", set{p + "auth-tls-secert": "default/ca"}, secured("slip.test")),
		guardedHost("disagree-a", "disagree.test", set{p + "auth-tls-secret": "default/ca"}, secured("disagree.test")),
		strings.Replace(guardedHost("disagree-b", "disagree.test", set{p + "auth-tls-secret": "default/second"}, secured("disagree.test")), "path: /,", "path: /b,", 1),
		strings.Replace(guardedHost("other", "mtls.test", nil, secured("mtls.test")), "path: /,", "path: /other,", 1),
		strings.Replace(guardedHost("broken-other", "broken.test", nil, secured("broken.test")), "path: /,", "path: /other,", 1),
		strings.ReplaceAll(guardedHost("open", "open.test", nil, secured("open.test")), "name: guarded", "name: open"),
		strings.ReplaceAll(guardedHost("open-wild", "open.wild.test", nil, secured("open.wild.test")), "name: guarded", "name: open"),
		strings.ReplaceAll(guardedHost("plain-wild", "plain.wild.test", nil, ""), "name: guarded", "name: open"),
		strings.Replace(guardedHost("solver", "mtls.test", nil, ""), "path: /,", "path: /.well-known/acme-challenge/token,", 1),
	} {
		manifests.WriteString(s)
	}
	folder := e2e.Folder(t, map[string]string{"all.yaml": manifests.String()})
	guarded, open := e2e.Echo(t, "127.0.0.1:0", "guarded"), e2e.Echo(t, "127.0.0.1:0", "open")
	g.Process = e2e.Start(t, folder, "--map=default/guarded:80="+guarded.Addr, "--map=default/open:80="+open.Addr)
	return g
}

// dial shakes hands for a name, with a certificate unless it is nil.
func (g *gate) dial(name string, pair *tls.Certificate, changes ...func(*tls.Config)) net.Conn {
	g.t.Helper()
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	if pair != nil { // whatever authorities the other side names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	for _, change := range changes {
		change(config)
	}
	return g.over(config, func(c net.Conn) net.Conn { return c })
}

func (g *gate) over(config *tls.Config, wrap func(net.Conn) net.Conn) net.Conn {
	g.t.Helper()
	c := tls.Client(wrap(g.connect(g.HTTPS)), config)
	if err := c.Handshake(); err != nil {
		g.t.Fatalf("shake hands for %q: %v", config.ServerName, err)
	}
	return c
}

func (g *gate) connect(addr string) net.Conn {
	g.t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// An answered is what came back, and what the endpoint saw if one was reached.
type answered struct {
	status   int
	endpoint string
	saw      e2e.EchoBody
	location string
}

func readAnswer(t testing.TB, in *bufio.Reader) answered {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return toAnswered(res)
}

func toAnswered(res *http.Response) answered {
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	a := answered{status: res.StatusCode, endpoint: res.Header.Get("X-Endpoint"), location: res.Header.Get("Location")}
	json.Unmarshal(body, &a.saw)
	return a
}

// send sends requests at once and returns the last answer. "\n" is the end of a line.
func (g *gate) send(c net.Conn, requests ...string) (last answered) {
	g.t.Helper()
	io.WriteString(c, strings.ReplaceAll(strings.Join(requests, ""), "\n", "\r\n"))
	in := bufio.NewReader(c)
	for range requests {
		last = readAnswer(g.t, in)
	}
	return last
}

func asking(host string, fields ...string) string {
	return "GET / HTTP/1.1\nHost: " + host + "\n" + strings.Join(append(fields, ""), "\n") + "\n"
}

// two sends requests, one after the other, over HTTP/2 connections that are for a name, whatever their hosts.
func (g *gate) two(name string, pair *tls.Certificate, hosts ...string) (last answered) {
	g.t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		return g.dial(name, pair, func(c *tls.Config) { c.NextProtos = []string{"h2"} }), nil
	}}
	transport.Protocols.SetHTTP2(true)
	defer transport.CloseIdleConnections()
	for _, host := range hosts {
		r, err := http.NewRequest("GET", "https://one.connection/", nil)
		if err != nil {
			g.t.Fatal(err)
		}
		r.Host = host
		res, err := transport.RoundTrip(r)
		if err != nil {
			g.t.Fatal(err)
		}
		if res.ProtoMajor != 2 {
			g.t.Fatalf("%s over %s", host, res.Proto)
		}
		last = toAnswered(res)
	}
	return last
}

// anyName is a cache of sessions that offers what it has to whatever name.
type anyName struct{ last *tls.ClientSessionState }

func (a *anyName) Get(string) (*tls.ClientSessionState, bool) { return a.last, a.last != nil }
func (a *anyName) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		a.last = s
	}
}

// resume begins a session for one name and offers it to another, of which the certificate is asked then.
func (g *gate) resume(version uint16, from string, first *tls.Certificate, to string, then *tls.Certificate) (resumed bool, c net.Conn) {
	g.t.Helper()
	sessions := new(anyName)
	with := func(c *tls.Config) { c.ClientSessionCache, c.MaxVersion = sessions, version }
	one := g.dial(from, first, with)
	g.send(one, asking(from)) // TLS 1.3 sends tickets behind the handshake
	if sessions.last == nil {
		g.t.Fatalf("%s gave no ticket", from)
	}
	c = g.dial(to, then, with)
	return c.(*tls.Conn).ConnectionState().DidResume, c
}

// fragmented cuts the first record into many, and each of those into many segments.
type fragmented struct {
	net.Conn
	begun bool
}

func (f *fragmented) Write(p []byte) (int, error) {
	if f.begun {
		return f.Conn.Write(p)
	}
	f.begun = true
	head, body := p[:3], p[5:]
	for piece := range slices.Chunk(body, 7) {
		record := append(append(bytes.Clone(head), 0, byte(len(piece))), piece...)
		for i := range record {
			if _, err := f.Conn.Write(record[i : i+1]); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// TestNobodyGetsPastClientCertificates tries to.
func TestNobodyGetsPastClientCertificates(t *testing.T) {
	g := openGate(t)
	impostor := e2e.NewAuthority(t, "root") // another key under the same name
	same := func(c *x509.Certificate) { c.Subject, c.SerialNumber = g.alice.Leaf.Subject, g.alice.Leaf.SerialNumber }
	nobody := (*e2e.Authority)(nil)
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	twice := func(c *x509.Certificate) {
		c.Subject = pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "bob"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "alice"}}}
	}
	one := g.root.Sub(t, "one")
	missing := one.Issue(t, "alice")
	missing.Certificate = missing.Certificate[:1]
	borrowed := *impostor.Issue(t, "alice", same)
	borrowed.Certificate = append(borrowed.Certificate, g.alice.Certificate[0], g.root.Raw) // others' certificates behind one's own
	optOut := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	plain := func(requests ...string) answered { return g.send(g.connect(g.HTTP), requests...) }
	over := func(name string, pair *tls.Certificate, requests ...string) answered {
		return g.send(g.dial(name, pair), requests...)
	}
	attempts := []struct {
		name   string
		try    func() answered
		status int
	}{
		{"no certificate", func() answered { return over("mtls.test", nil, asking("mtls.test")) }, 400},
		{"no certificate, TLS 1.2", func() answered { return g.send(g.dial("mtls.test", nil, optOut), asking("mtls.test")) }, 400},
		{"no certificate, HTTP/2", func() answered { return g.two("mtls.test", nil, "mtls.test") }, 400},
		{"another authority's", func() answered { return over("mtls.test", g.secondsAlice, asking("mtls.test")) }, 400},
		{"signed by itself, the same subject", func() answered { return over("mtls.test", nobody.Issue(t, "alice", same), asking("mtls.test")) }, 400},
		{"an authority of the same name", func() answered { return over("mtls.test", impostor.Issue(t, "alice", same), asking("mtls.test")) }, 400},
		{"a good one sent behind a bad one", func() answered { return over("mtls.test", &borrowed, asking("mtls.test")) }, 400},
		{"expired", func() answered { return over("mtls.test", g.root.Issue(t, "alice", expired), asking("mtls.test")) }, 400},
		{"not yet valid", func() answered { return over("mtls.test", g.root.Issue(t, "alice", early), asking("mtls.test")) }, 400},
		{"for servers", func() answered { return over("mtls.test", g.root.Issue(t, "alice", server), asking("mtls.test")) }, 400},
		{"revoked", func() answered { return over("crl.test", g.revoked, asking("crl.test")) }, 400},
		{"of a link without a list", func() answered { return over("crl.test", one.Issue(t, "alice"), asking("crl.test")) }, 400},
		{"a chain too deep", func() answered { return over("mtls.test", one.Sub(t, "two").Issue(t, "alice"), asking("mtls.test")) }, 400},
		{"a chain with a hole", func() answered { return over("mtls.test", missing, asking("mtls.test")) }, 400},
		{"from a leaf that is no authority", func() answered {
			return over("mtls.test", g.root.Sub(t, "alice", func(c *x509.Certificate) { c.IsCA = false }).Issue(t, "alice"), asking("mtls.test"))
		}, 400},
		{"a bad one where it is optional", func() answered { return over("opt.test", g.secondsAlice, asking("opt.test")) }, 400},
		{"server name in capitals", func() answered { return over("MTLS.TEST", nil, asking("mtls.test")) }, 400},
		{"Host in capitals", func() answered { return over("mtls.test", nil, asking("MTLS.Test")) }, 400},
		{"Host with a dot", func() answered { return over("mtls.test", nil, asking("mtls.test.")) }, 400},
		{"Host with a port", func() answered { return over("mtls.test", nil, asking("mtls.test:443")) }, 400},
		{"Host with two dots", func() answered { return over("open.test", nil, asking("mtls.test..")) }, 400},
		{"another server name", func() answered { return over("open.test", nil, asking("mtls.test")) }, 421},
		{"another server name, and capitals", func() answered { return over("OPEN.test", nil, asking("mTLS.test.:443")) }, 421},
		{"a server name that nobody has", func() answered { return over("none.test", g.alice, asking("mtls.test")) }, 421},
		{"no server name", func() answered { return over("", nil, asking("mtls.test")) }, 421},
		{"an address for server name", func() answered { return over("127.0.0.1", nil, asking("mtls.test")) }, 421},
		{"the second request of a connection", func() answered { return over("open.test", nil, asking("open.test"), asking("mtls.test")) }, 421},
		{"HTTP/2 for another host", func() answered { return g.two("open.test", nil, "open.test", "mtls.test") }, 421},
		{"HTTP/2 coalesced with another authority's", func() answered { return g.two("second.test", g.secondsAlice, "second.test", "mtls.test") }, 421},
		{"HTTP/2 coalesced with where it is optional", func() answered { return g.two("opt.test", nil, "opt.test", "mtls.test") }, 421},
		{"HTTP/1 by way of where it is optional", func() answered { return over("opt.test", g.alice, asking("mtls.test")) }, 421},
		{"a wildcard's host", func() answered { return over("a.wild.test", nil, asking("a.wild.test")) }, 400},
		{"a wildcard's host by way of an open one below it", func() answered { return over("open.wild.test", nil, asking("a.wild.test")) }, 421},
		{"a wildcard's host by way of one without TLS of its own", func() answered { return over("plain.wild.test", nil, asking("a.wild.test")) }, 400},
		{"a wildcard's host by way of two labels", func() answered { return over("x.a.wild.test", nil, asking("a.wild.test")) }, 421},
		{"a wildcard's host by way of its bare domain", func() answered { return over("wild.test", nil, asking("a.wild.test")) }, 421},
		{"an alias", func() answered { return over("alias.test", nil, asking("alias.test")) }, 400},
		{"an alias by another server name", func() answered { return over("open.test", nil, asking("alias.test")) }, 421},
		{"an alias that is an expression", func() answered { return over("re1.test", nil, asking("re1.test")) }, 400},
		{"an alias that is an expression, in capitals", func() answered { return over("RE1.test", nil, asking("Re1.TEST.")) }, 400},
		{"an alias that is an expression, by another server name", func() answered { return over("open.test", nil, asking("re1.test")) }, 421},
		{"an alias that is an expression, by no server name", func() answered { return over("", g.alice, asking("re1.test")) }, 421},
		{"an alias that is an expression, by one that it does not match", func() answered { return over("re.test", g.alice, asking("re1.test")) }, 421},
		{"another Ingress's path", func() answered {
			return over("mtls.test", nil, "GET /other HTTP/1.1\nHost: mtls.test\n\n")
		}, 400},
		{"a fragmented hello", func() answered {
			c := g.over(&tls.Config{ServerName: "mtls.test", InsecureSkipVerify: true}, func(c net.Conn) net.Conn { return &fragmented{Conn: c} })
			return g.send(c, asking("mtls.test"))
		}, 400},
		{"a fragmented hello for another", func() answered {
			c := g.over(&tls.Config{ServerName: "open.test", InsecureSkipVerify: true}, func(c net.Conn) net.Conn { return &fragmented{Conn: c} })
			return g.send(c, asking("mtls.test"))
		}, 421},
		{"the ticket of an open host", func() answered {
			resumed, c := g.resume(tls.VersionTLS13, "open.test", nil, "mtls.test", nil)
			if resumed {
				t.Error("a session of open.test was resumed for mtls.test")
			}
			return g.send(c, asking("mtls.test"))
		}, 400},
		{"the ticket of an open host, TLS 1.2", func() answered {
			resumed, c := g.resume(tls.VersionTLS12, "open.test", nil, "mtls.test", nil)
			if resumed {
				t.Error("a session of open.test was resumed for mtls.test")
			}
			return g.send(c, asking("mtls.test"))
		}, 400},
		{"the ticket of another authority's host", func() answered {
			resumed, c := g.resume(tls.VersionTLS13, "second.test", g.secondsAlice, "mtls.test", nil)
			if resumed {
				t.Error("a session of second.test was resumed for mtls.test")
			}
			return g.send(c, asking("mtls.test"))
		}, 400},
		{"the ticket of a host that takes any, TLS 1.2", func() answered {
			resumed, c := g.resume(tls.VersionTLS12, "cn.test", nobody.Issue(t, "alice"), "mtls.test", nil)
			if resumed {
				t.Error("a session of cn.test was resumed for mtls.test")
			}
			return g.send(c, asking("mtls.test"))
		}, 400},
		{"its own ticket with a bad certificate in it", func() answered {
			_, c := g.resume(tls.VersionTLS13, "mtls.test", g.secondsAlice, "mtls.test", g.alice)
			return g.send(c, asking("mtls.test"))
		}, 400},
		{"its own ticket, for another host", func() answered {
			_, c := g.resume(tls.VersionTLS13, "mtls.test", g.alice, "second.test", nil)
			return g.send(c, asking("second.test"))
		}, 400},
		{"absolute target", func() answered {
			return over("open.test", nil, "GET https://mtls.test/ HTTP/1.1\nHost: mtls.test\n\n")
		}, 421},
		{"absolute target, another Host", func() answered {
			return over("open.test", nil, "GET https://mtls.test/ HTTP/1.1\nHost: open.test\n\n")
		}, 400},
		{"absolute target of an open host", func() answered {
			return over("mtls.test", nil, "GET https://open.test/ HTTP/1.1\nHost: mtls.test\n\n")
		}, 400},
		{"two Hosts", func() answered {
			return over("open.test", nil, "GET / HTTP/1.1\nHost: open.test\nHost: mtls.test\n\n")
		}, 400},
		{"no Host", func() answered { return over("mtls.test", nil, "GET / HTTP/1.0\n\n") }, 421},
		{"X-Forwarded-Host", func() answered {
			return over("mtls.test", nil, asking("mtls.test", "X-Forwarded-Host: open.test"))
		}, 400},
		{"spoofed fields", func() answered {
			return over("mtls.test", nil, asking("mtls.test", "ssl-client-verify: SUCCESS", "ssl-client-subject-dn: CN=alice", "SSL_CLIENT_VERIFY: SUCCESS"))
		}, 400},
		{"a WebSocket", func() answered {
			return over("mtls.test", nil, asking("mtls.test", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="))
		}, 400},
		{"a preflight", func() answered {
			return over("mtls.test", nil, "OPTIONS / HTTP/1.1\nHost: mtls.test\nOrigin: https://x.test\nAccess-Control-Request-Method: GET\n\n")
		}, 400},
		{"a pipelined request behind a refused one", func() answered { return over("mtls.test", nil, asking("mtls.test"), asking("mtls.test")) }, 400},
		{"in the clear", func() answered { return plain(asking("mtls.test")) }, 308},
		{"in the clear, other spelling", func() answered { return plain(asking("MTLS.test.:80")) }, 308},
		{"in the clear, said to be HTTPS", func() answered {
			return plain(asking("mtls.test", "X-Forwarded-Proto: https", "X-Forwarded-Port: 443"))
		}, 308},
		{"in the clear, without ssl-redirect", func() answered { return plain(asking("clear.test")) }, 308},
		{"in the clear, without a certificate to redirect to", func() answered { return plain(asking("bare.test")) }, 400},
		{"in the clear, an alias", func() answered { return plain(asking("alias.test")) }, 308},
		{"in the clear, absolute target", func() answered {
			return plain("GET http://mtls.test/ HTTP/1.1\nHost: mtls.test\n\n")
		}, 308},
		{"in the clear, a path beside that of challenges", func() answered {
			return plain("GET /.well-known/acme-challenge/other HTTP/1.1\nHost: mtls.test\n\n")
		}, 308},
		{"in the clear, by way of the path of challenges", func() answered {
			return plain("GET /.well-known/acme-challenge/token/../../.. HTTP/1.1\nHost: mtls.test\n\n")
		}, 308},
		{"without TLS of its own", func() answered { return over("bare.test", nil, asking("bare.test")) }, 400},
		{"another common name", func() answered { return over("cn.test", g.bob, asking("cn.test")) }, 403},
		{"a longer common name", func() answered { return over("cn.test", g.root.Issue(t, "alicex"), asking("cn.test")) }, 403},
		{"a common name that ends so", func() answered { return over("cn.test", g.root.Issue(t, "x alice"), asking("cn.test")) }, 403},
		{"a common name in capitals", func() answered { return over("cn.test", g.root.Issue(t, "ALICE"), asking("cn.test")) }, 403},
		{"two common names", func() answered { return over("cn.test", g.root.Issue(t, "x", twice), asking("cn.test")) }, 403},
		{"the common name in another attribute", func() answered {
			return over("cn.test", g.root.Issue(t, "bob", func(c *x509.Certificate) { c.Subject.Organization = []string{"x,CN=alice", "CN=alice"} }), asking("cn.test"))
		}, 403},
		{"the common name of a certificate that nobody verified", func() answered { return over("cn.test", nobody.Issue(t, "alice"), asking("cn.test")) }, 403},
		{"no common name, because no certificate", func() answered { return over("cn.test", nil, asking("cn.test")) }, 403},
		{"the Secret is missing", func() answered { return over("broken.test", g.alice, asking("broken.test")) }, 403},
		{"the Secret is missing, in the clear", func() answered { return plain(asking("broken.test")) }, 403},
		{"the Secret is missing, another Ingress's path", func() answered {
			return over("broken.test", g.alice, "GET /other HTTP/1.1\nHost: broken.test\n\n")
		}, 403},
		{"a slip in the annotation's name", func() answered { return over("slip.test", g.alice, asking("slip.test")) }, 403},
		{"Ingresses disagree", func() answered { return over("disagree.test", g.alice, asking("disagree.test")) }, 403},
		{"Ingresses disagree, the other's path", func() answered {
			return over("disagree.test", g.secondsAlice, "GET /b HTTP/1.1\nHost: disagree.test\n\n")
		}, 403},
	}
	for _, a := range attempts {
		if got := a.try(); got.endpoint != "" || got.status != a.status {
			t.Errorf("%s: %d from endpoint %q, want %d and no endpoint", a.name, got.status, got.endpoint, a.status)
		}
	}
	t.Logf("%d attempts", len(attempts))
	g.letsIn(t, one)
}

// letsIn holds that the gate is a door too, and what endpoints are told.
func (g *gate) letsIn(t *testing.T, one *e2e.Authority) {
	const verify, subject, issuer, certificate = "Ssl-Client-Verify", "Ssl-Client-Subject-Dn", "Ssl-Client-Issuer-Dn", "Ssl-Client-Cert"
	spoofed := []string{"ssl-client-verify: SUCCESS", "SSL-Client-Subject-DN: CN=root", "ssl-client-issuer-dn: CN=x", "ssl-client-cert: x", "ssl_client_verify: SUCCESS", "Ssl-Client_Verify: SUCCESS", "ssl.client.verify: SUCCESS", "ssl-client-anything: x"}
	whole := func(pair *tls.Certificate) string {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
		return strings.ReplaceAll(url.QueryEscape(string(text)), "+", "%20")
	}
	carol := one.Issue(t, "carol")
	type told = map[string]string
	for _, c := range []struct {
		name     string
		got      answered
		endpoint string
		told     told
	}{
		{"a good certificate", g.send(g.dial("mtls.test", g.alice), asking("mtls.test", spoofed...)), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root", certificate: whole(g.alice)}},
		{"HTTP/2", g.two("mtls.test", g.alice, "mtls.test", "mtls.test"), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root", certificate: whole(g.alice)}},
		{"a chain with one link", g.send(g.dial("mtls.test", carol), "GET /other HTTP/1.1\nHost: mtls.test\n\n"), "guarded", told{verify: "SUCCESS", subject: "CN=carol", issuer: "CN=one", certificate: whole(carol)}},
		{"the other authority", g.send(g.dial("second.test", g.secondsAlice), asking("second.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=second"}},
		{"a wildcard", g.send(g.dial("a.wild.test", g.alice), asking("b.wild.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root"}},
		{"an alias", g.send(g.dial("alias.test", g.alice), asking("alias.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root", certificate: whole(g.alice)}},
		{"an alias that is an expression", g.send(g.dial("re1.test", g.alice), asking("re1.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root", certificate: whole(g.alice)}},
		{"an alias that is an expression, by the host", g.send(g.dial("mtls.test", g.alice), asking("re2.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root", certificate: whole(g.alice)}},
		{"the common name", g.send(g.dial("cn.test", g.alice), asking("cn.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root"}},
		{"not revoked", g.send(g.dial("crl.test", g.alice), asking("crl.test")), "guarded", told{verify: "SUCCESS", subject: "CN=alice", issuer: "CN=root"}},
		{"optional, none", g.send(g.dial("opt.test", nil), asking("opt.test", spoofed...)), "guarded", told{verify: "NONE"}},
		{"optional, one", g.send(g.dial("opt.test", g.bob), asking("opt.test", spoofed...)), "guarded", told{verify: "SUCCESS", subject: "CN=bob", issuer: "CN=root"}},
		{"an open host", g.send(g.dial("open.test", nil), asking("open.test", append(spoofed, "X-Forwarded-Host: mtls.test")...)), "open", told{}},
		{"an open host below the wildcard", g.send(g.dial("plain.wild.test", nil), asking("plain.wild.test", spoofed...)), "open", told{}},
		{"a challenge in the clear", g.send(g.connect(g.HTTP), "GET /.well-known/acme-challenge/token HTTP/1.1\nHost: mtls.test\nssl-client-verify: SUCCESS\n\n"), "guarded", told{}},
	} {
		if c.got.endpoint != c.endpoint {
			t.Errorf("%s: %d from endpoint %q, want %q", c.name, c.got.status, c.got.endpoint, c.endpoint)
			continue
		}
		saw := make(told)
		for name, values := range c.got.saw.Header {
			if strings.HasPrefix(strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name)), "ssl-client") {
				saw[name] = strings.Join(values, " and ")
			}
		}
		if !maps.Equal(saw, c.told) {
			t.Errorf("%s: the endpoint saw %q, want %q", c.name, saw, c.told)
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		resumed, c := g.resume(version, "mtls.test", g.alice, "mtls.test", nil)
		if got := g.send(c, asking("mtls.test")); !resumed || got.endpoint != "guarded" {
			t.Errorf("%s: resumed %v, %d from %q; want the session of mtls.test to be resumed there", tls.VersionName(version), resumed, got.status, got.endpoint)
		}
	}
}
