package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// secured is an Ingress of a namespace that gives a host to the Service web there. Tls are the entries of its spec.tls, as
// YAML; empty: it has none.
func secured(namespace, host, tls string, annotations ...string) string {
	name := strings.NewReplacer("*", "any", ".", "-").Replace(host)
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, namespace: %s, annotations: {%s}}
spec:
  tls: [%s]
  rules: [{host: %q, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`, name, namespace, strings.Join(annotations, ", "), tls, host)
}

// entry is one of spec.tls.
func entry(secret string, hosts ...string) string {
	return fmt.Sprintf(`{secretName: %q, hosts: ["%s"]}`, secret, strings.Join(hosts, `", "`))
}

// pairSecret is the manifest of a Secret with a certificate.
func pairSecret(t testing.TB, namespace, name string, pair *tls.Certificate) string {
	t.Helper()
	certificate, key := e2e.PairPEM(t, pair)
	text := secretManifest(name, map[string][]byte{"tls.crt": certificate, "tls.key": key})
	return strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1)
}

// rsaPair is a certificate that signs itself with RSA.
func rsaPair(t testing.TB, host string) *tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A shop is a process with a host for whatever may become of a Secret, and the certificates by the names that
// TestWhichCertificateAndWhichStatus has for them.
type shop struct {
	*e2e.Process
	t            *testing.T
	folder       string
	certificates map[string]*tls.Certificate
}

func openShop(t *testing.T, args ...string) *shop {
	root := e2e.NewAuthority(t, "root")
	expired := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour)
	}
	early := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(48*time.Hour)
	}
	s := &shop{t: t, certificates: map[string]*tls.Certificate{
		"default":  root.Issue(t, "default.test"),
		"right":    root.Issue(t, "right.test"),
		"expired":  root.Issue(t, "expired.test", expired),
		"early":    root.Issue(t, "early.test", early),
		"other":    root.Issue(t, "elsewhere.test"),
		"wild":     root.Issue(t, "*.wild.test"),
		"own":      root.Issue(t, "own.wild.test"),
		"star":     root.Issue(t, "*.star.test"),
		"unlisted": root.Issue(t, "unlisted.test"),
		"guarded":  root.Issue(t, "guarded.test"),
		"few":      root.Issue(t, "few.test"),
		"ecdsa":    root.Issue(t, "both.test"),
		"rsa":      rsaPair(t, "both.test"),
		"foreign":  root.Issue(t, "foreign.test"),
		"shared":   root.Issue(t, "one.shared.test", func(c *x509.Certificate) { c.DNSNames = []string{"one.shared.test", "two.shared.test"} }),
		"aliased":  root.Issue(t, "aliased.test", func(c *x509.Certificate) { c.DNSNames = []string{"aliased.test", "covered.test", "re1.aliased.test"} }),
		"late":     root.Issue(t, "late.test"),
	}}
	var b strings.Builder
	for name, pair := range s.certificates {
		if name != "late" && name != "foreign" {
			b.WriteString("---\n" + pairSecret(t, "default", name, pair))
		}
	}
	b.WriteString("---\n" + pairSecret(t, "foreign", "foreign", s.certificates["foreign"]))
	b.WriteString("---\n" + pairSecret(t, "foreign", "shared", s.certificates["shared"]))
	b.WriteString("---\n" + secretManifest("clients", map[string][]byte{"ca.crt": root.PEM()}))
	const p = "nginx.ingress.kubernetes.io/"
	for _, ingress := range []string{
		secured("default", "right.test", entry("right", "right.test")),
		secured("default", "missing.test", entry("missing", "missing.test")),
		secured("default", "expired.test", entry("expired", "expired.test")),
		secured("default", "early.test", entry("early", "early.test")),
		secured("default", "mismatched.test", entry("other", "mismatched.test")),
		secured("default", "unnamed.test", `{hosts: [unnamed.test]}`),
		secured("default", "plain.test", ""),
		secured("default", "unlisted.test", `{secretName: right}, {secretName: unlisted}`),
		secured("default", "*.wild.test", entry("wild", "*.wild.test")),
		secured("default", "own.wild.test", entry("own", "own.wild.test")),
		secured("default", "plain.wild.test", ""),
		secured("default", "unnamed.wild.test", `{hosts: [unnamed.wild.test]}`),
		secured("default", "a.star.test", entry("star", "a.star.test")),
		secured("default", "b.a.star.test", entry("star", "b.a.star.test")),
		secured("default", "both.test", entry("rsa", "both.test")+", "+entry("ecdsa", "both.test")),
		secured("default", "guarded.test", entry("guarded", "guarded.test"), p+`auth-tls-secret: default/clients`),
		secured("default", "few.test", entry("few", "few.test"), p+`ssl-ciphers: ECDHE-ECDSA-AES128-GCM-SHA256`),
		secured("foreign", "foreign.test", entry("foreign", "foreign.test")),
		secured("default", "one.shared.test", entry("shared", "one.shared.test")),
		secured("foreign", "two.shared.test", entry("shared", "two.shared.test")),
		secured("default", "aliased.test", entry("aliased", "aliased.test"), p+`server-alias: 'covered.test, uncovered.test, ~^re[0-9]+\.aliased\.test$'`),
		secured("default", "late.test", entry("late", "late.test")),
	} {
		b.WriteString(ingress)
	}
	b.WriteString("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: rejecting, namespace: default}\ndata: {ssl-reject-handshake: \"true\"}\n")
	s.folder = e2e.Folder(t, map[string]string{"all.yaml": b.String()})
	web := e2e.Echo(t, "127.0.0.1:0", "web")
	s.Process = e2e.Start(t, s.folder, append(args, "--default-ssl-certificate=default/default", "--map=default/web:80="+web.Addr, "--map=foreign/web:80="+web.Addr)...)
	return s
}

// name is what a certificate is called here.
func (s *shop) name(der []byte) string {
	for name, pair := range s.certificates {
		if bytes.Equal(pair.Certificate[0], der) {
			return name
		}
	}
	return fmt.Sprintf("some other certificate of %d bytes", len(der))
}

// A variant is a way to speak.
type variant struct {
	version  uint16
	protocol string
}

func (v variant) String() string { return tls.VersionName(v.version) + ", " + v.protocol }

var variants = []variant{{tls.VersionTLS12, "http/1.1"}, {tls.VersionTLS13, "http/1.1"}, {tls.VersionTLS13, "h2"}}

// handshake asks for a server name, empty for none; an address is none either. It returns the certificate that is shown.
func (s *shop) handshake(v variant, name string, changes ...func(*tls.Config)) (c *tls.Conn, shown string, err error) {
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: v.version, MaxVersion: v.version, NextProtos: []string{v.protocol}}
	for _, change := range changes {
		change(config)
	}
	dialer := &net.Dialer{Timeout: 20 * time.Second}
	c, err = tls.DialWithDialer(dialer, "tcp", s.HTTPS, config)
	if err != nil {
		return nil, "", err
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	s.t.Cleanup(func() { c.Close() })
	return c, s.name(c.ConnectionState().PeerCertificates[0].Raw), nil
}

// ask asks for a host on a connection.
func (s *shop) ask(c *tls.Conn, host string) *http.Response {
	s.t.Helper()
	request, err := http.NewRequest("GET", "https://"+host+"/", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := roundTrip(c, request)
	if err != nil {
		s.t.Fatalf("ask for %s: %v", host, err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer
}

func roundTrip(c *tls.Conn, request *http.Request) (*http.Response, error) {
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		if err := request.Write(c); err != nil {
			return nil, err
		}
		return http.ReadResponse(bufio.NewReader(c), request)
	}
	transport := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	transport.Protocols.SetHTTP2(true)
	return transport.RoundTrip(request)
}

// TestWhichCertificateAndWhichStatus is the whole of it: the name that a client asks for in its handshake, the certificate it
// is shown, the host that it asks for then, and the status.
func TestWhichCertificateAndWhichStatus(t *testing.T) {
	s := openShop(t)
	const none = ""
	rows := []struct {
		sni, shown, host string
		status           int
	}{
		// The certificate of the entry that names the host; the default one in place of what is none today, or not for it.
		{"right.test", "right", "right.test", 200},
		{"missing.test", "default", "missing.test", 200},
		{"expired.test", "default", "expired.test", 200},
		{"early.test", "default", "early.test", 200},
		{"mismatched.test", "default", "mismatched.test", 200},
		// No Secret is named; there is no TLS at all; no entry names the host, and one certificate of several covers it.
		{"unnamed.test", "default", "unnamed.test", 200},
		{"plain.test", "default", "plain.test", 200},
		{"unlisted.test", "unlisted", "unlisted.test", 200},
		// Of two kinds of keys the better one, for a client that can have either.
		{"both.test", "ecdsa", "both.test", 200},
		// A wildcard takes one label, of hosts with an Ingress and without; a host with TLS of its own has its own.
		{"a.wild.test", "wild", "a.wild.test", 200},
		{"plain.wild.test", "wild", "plain.wild.test", 200},
		{"own.wild.test", "own", "own.wild.test", 200},
		{"unnamed.wild.test", "default", "unnamed.wild.test", 200},
		{"b.a.wild.test", "default", "b.a.wild.test", 404},
		{"wild.test", "default", "wild.test", 404},
		// So does the wildcard in a certificate.
		{"a.star.test", "star", "a.star.test", 200},
		{"b.a.star.test", "default", "b.a.star.test", 200},
		{"c.star.test", "default", "c.star.test", 404},
		// Further names of a host have its certificate as far as that covers them, expressions too.
		{"covered.test", "aliased", "covered.test", 200},
		{"uncovered.test", "default", "uncovered.test", 200},
		{"re1.aliased.test", "aliased", "re1.aliased.test", 200},
		{"RE1.aliased.test", "aliased", "re2.aliased.test", 200},
		{"re2.aliased.test", "default", "re2.aliased.test", 200},
		{"re.aliased.test", "default", "re.aliased.test", 404},
		// One spelling: names are compared in lower case, and a host without the dot at its end and without its port.
		{"RIGHT.test", "right", "right.test", 200},
		{"A.Wild.TEST", "wild", "a.wild.test", 200},
		{"right.test", "right", "RIGHT.TEST", 200},
		{"right.test", "right", "right.test.", 200},
		{"right.test", "right", "Right.test.:443", 200},
		// No name: what has no policy of its own is served, by the certificate that nobody asked for.
		{none, "default", "right.test", 200},
		{none, "default", "unknown.test", 404},
		{none, "default", "guarded.test", 421},
		{none, "default", "few.test", 421},
		// An address is no name (RFC 6066 section 3), nor a host that anybody has.
		{"127.0.0.1", "default", "right.test", 200},
		{"127.0.0.1", "default", "127.0.0.1", 404},
		{"::1", "default", "[::1]", 404},
		{"127.0.0.1", "default", "guarded.test", 421},
		// A name that nobody has.
		{"unknown.test", "default", "unknown.test", 404},
		{"unknown.test", "default", "right.test", 200},
		{"unknown.test", "default", "guarded.test", 421},
		// Another host than that of the handshake, held to the same: browsers use one connection for what a certificate covers.
		{"right.test", "right", "both.test", 200},
		{"right.test", "right", "missing.test", 200},
		{"a.wild.test", "wild", "b.wild.test", 200},
		{"a.wild.test", "wild", "own.wild.test", 200},
		{"right.test", "right", "unknown.test", 404},
		{"right.test", "right", "wild.test", 404},
		// Held to something else: it is to shake hands again.
		{"right.test", "right", "guarded.test", 421},
		{"right.test", "right", "GUARDED.test.", 421},
		{"a.wild.test", "wild", "guarded.test", 421},
		{"right.test", "right", "few.test", 421},
		{"few.test", "few", "right.test", 421},
		{"guarded.test", "guarded", "right.test", 421},
		{"guarded.test", "guarded", "few.test", 421},
		// So is a host that nobody has, whose handshake asks for nothing; the status tells nobody which hosts there are.
		{"guarded.test", "guarded", "unknown.test", 421},
		// The handshake of a guarded host succeeds without a certificate of the client's; its requests do not.
		{"guarded.test", "guarded", "guarded.test", 400},
		{"few.test", "few", "few.test", 200},
		// Another namespace's host is not to be read with this one's key, unless the certificate is the same.
		{"foreign.test", "foreign", "foreign.test", 200},
		{"foreign.test", "foreign", "right.test", 421},
		{"right.test", "right", "foreign.test", 421},
		{"foreign.test", "foreign", "missing.test", 200},
		{"one.shared.test", "shared", "two.shared.test", 200},
	}
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			s.t = t
			for _, r := range rows {
				c, shown, err := s.handshake(v, r.sni)
				if err != nil {
					t.Errorf("a handshake for %q fails: %v", r.sni, err)
					continue
				}
				if shown != r.shown {
					t.Errorf("a handshake for %q shows the certificate %q, want %q", r.sni, shown, r.shown)
				}
				answer := s.ask(c, r.host)
				if answer.StatusCode != r.status {
					t.Errorf("after a handshake for %q a request for %q is answered %d, want %d", r.sni, r.host, answer.StatusCode, r.status)
				}
				if served := answer.Header.Get("X-Endpoint"); (served != "") != (r.status == 200) {
					t.Errorf("after a handshake for %q a request for %q is answered %d by endpoint %q", r.sni, r.host, answer.StatusCode, served)
				}
				if hsts := answer.Header.Get("Strict-Transport-Security"); hsts != "max-age=31536000; includeSubDomains" {
					t.Errorf("after a handshake for %q the answer for %q says Strict-Transport-Security: %q", r.sni, r.host, hsts)
				}
			}
		})
	}
	s.t = t
	t.Run("in the clear", s.inTheClear)
	t.Run("kinds of keys", s.kindsOfKeys)
	t.Run("names that no client may send", s.spelledBadly)
	t.Run("metrics", s.tellsWhenTheyEnd)
	t.Run("a Secret that comes and goes", s.comesAndGoes)
}

// inTheClear holds which hosts are sent to TLS: those with an entry for it, whatever became of its Secret.
func (s *shop) inTheClear(t *testing.T) {
	client := s.Client(nil)
	for host, want := range map[string]int{
		"right.test": 308, "missing.test": 308, "expired.test": 308, "early.test": 308, "mismatched.test": 308, "unnamed.test": 308, "guarded.test": 308,
		"a.wild.test": 308, "plain.wild.test": 308, "b.a.wild.test": 404, "wild.test": 404,
		"plain.test": 200, "unknown.test": 404,
	} {
		answer, err := client.Get("http://" + host + "/x")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		location := answer.Header.Get("Location")
		if answer.StatusCode != want || want == 308 && location != "https://"+host+"/x" {
			t.Errorf("http://%s/x is answered %d, Location %q; want %d", host, answer.StatusCode, location, want)
		}
		if hsts := answer.Header.Get("Strict-Transport-Security"); hsts != "" {
			t.Errorf("http://%s/x says Strict-Transport-Security: %s, which means nothing in the clear", host, hsts)
		}
	}
}

// kindsOfKeys has clients that can check one kind only.
func (s *shop) kindsOfKeys(t *testing.T) {
	for _, c := range []struct {
		suite       uint16
		host, shown string
	}{
		{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "both.test", "ecdsa"},
		{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "both.test", "rsa"},
	} {
		_, shown, err := s.handshake(variants[0], c.host, func(config *tls.Config) { config.CipherSuites = []uint16{c.suite} })
		if err != nil || shown != c.shown {
			t.Errorf("a client that has only %s is shown %q at %s, want %q: %v", tls.CipherSuiteName(c.suite), shown, c.host, c.shown, err)
		}
	}
}

// spelledBadly sends hellos that no client makes which goes by RFC 6066. A name with a dot at its end is refused, by
// crypto/tls; an address is what no name is.
func (s *shop) spelledBadly(t *testing.T) {
	for name, want := range map[string]string{
		"right.test":  "right",
		"right.test.": "an alert",
		"127.0.0.1":   "default",
		"*.wild.test": "default",
		".wild.test":  "default",
		"right..test": "default",
		"right.test ": "default",
		"right_test":  "default",
	} {
		if got := s.spelt(name); got != want {
			t.Errorf("a handshake for %q shows %q, want %q", name, got, want)
		}
	}
}

// spelt sends the hello of a client with any server name, and returns which certificate is shown for it.
func (s *shop) spelt(name string) string {
	s.t.Helper()
	stand := strings.Repeat("x", len(name))
	hello := bytes.Replace(helloFor(s.t, stand, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), []byte(stand), []byte(name), 1)
	c, err := net.Dial("tcp", s.HTTPS)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(hello); err != nil {
		s.t.Fatal(err)
	}
	const handshake, alert, certificate = 22, 21, 11
	var messages []byte
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c, head); err != nil {
			s.t.Fatalf("a handshake for %q: %v", name, err)
		}
		record := make([]byte, binary.BigEndian.Uint16(head[3:]))
		if _, err := io.ReadFull(c, record); err != nil {
			s.t.Fatalf("a handshake for %q: %v", name, err)
		}
		if head[0] == alert {
			return "an alert"
		}
		messages = append(messages, record...)
		for len(messages) > 4 {
			length := 4 + int(messages[1])<<16 + int(messages[2])<<8 + int(messages[3])
			if len(messages) < length {
				break
			}
			if messages[0] == certificate { // the length of the list, that of the first, the first
				first := messages[10:]
				return s.name(first[:int(messages[7])<<16+int(messages[8])<<8+int(messages[9])])
			}
			messages = messages[length:]
		}
	}
}

// tellsWhenTheyEnd holds that an alert about a certificate says whose it is.
func (s *shop) tellsWhenTheyEnd(t *testing.T) {
	metrics := s.AdminGet(t, "/metrics")
	for _, c := range []struct{ host, namespace, secret string }{
		{"right.test", "default", "right"},
		{"*.wild.test", "default", "wild"},
		{"foreign.test", "foreign", "foreign"},
		{"two.shared.test", "foreign", "shared"},
		{"both.test", "default", "rsa"},
		{"both.test", "default", "ecdsa"},
		{"_", "default", "default"},
	} {
		pair := s.certificates[c.secret]
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		series := fmt.Sprintf("nginx_ingress_controller_ssl_expire_time_seconds{class=\"sallyport\",host=%q,identifier=\"-%s\",namespace=%q,secret_name=%q} ", c.host, leaf.SerialNumber, c.namespace, c.secret)
		_, rest, _ := strings.Cut(metrics, series)
		value, _, _ := strings.Cut(rest, "\n")
		if got, err := strconv.ParseFloat(value, 64); err != nil || int64(got) != leaf.NotAfter.Unix() {
			t.Errorf("%s says %q, want %d", series, value, leaf.NotAfter.Unix())
		}
	}
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "nginx_ingress_controller_ssl_expire_time_seconds{") && (strings.Contains(line, `secret_name=""`) || strings.Contains(line, "missing.test")) {
			t.Errorf("a certificate without a Secret is told: %s", line)
		}
	}
}

// comesAndGoes writes the Secret that is missed, and removes it again.
func (s *shop) comesAndGoes(t *testing.T) {
	shows := func(want string) {
		e2e.Eventually(t, "late.test shows the certificate "+want, func() error {
			if _, shown, err := s.handshake(variants[1], "late.test"); err != nil || shown != want {
				return fmt.Errorf("it shows %q: %v", shown, err)
			}
			return nil
		})
	}
	file := filepath.Join(s.folder, "late.yaml")
	shows("default")
	e2e.WriteFile(t, file, pairSecret(t, "default", "late", s.certificates["late"]))
	shows("late")
	e2e.WriteFile(t, file, "# nothing")
	shows("default")
}

// TestHandshakesAreRefused is ssl-reject-handshake: a name that is no host of any Ingress is told so in the handshake.
func TestHandshakesAreRefused(t *testing.T) {
	s := openShop(t, "--configmap=default/rejecting")
	for _, r := range []struct{ sni, shown string }{
		{"right.test", "right"},
		{"RIGHT.TEST", "right"},
		{"a.wild.test", "wild"},
		{"missing.test", "default"},
		{"plain.test", "default"},
		{"unknown.test", ""},
		{"b.a.wild.test", ""},
		{"wild.test", ""},
		{"", ""},
		{"127.0.0.1", ""},
	} {
		for _, v := range variants {
			_, shown, err := s.handshake(v, r.sni)
			if r.shown == "" && (err == nil || !strings.Contains(err.Error(), "unrecognized name")) {
				t.Errorf("%s: a handshake for %q shows %q, want it refused because the name is unrecognized: %v", v, r.sni, shown, err)
			}
			if r.shown != "" && (err != nil || shown != r.shown) {
				t.Errorf("%s: a handshake for %q shows %q, want %q: %v", v, r.sni, shown, r.shown, err)
			}
		}
	}
}

// TestWithoutADefaultCertificate has the local CA of a folder run in its place, for hosts of the table.
func TestWithoutADefaultCertificate(t *testing.T) {
	web := e2e.Echo(t, "127.0.0.1:0", "web")
	state := t.TempDir()
	p := e2e.Start(t, e2e.Folder(t, map[string]string{"all.yaml": secured("default", "missing.test", entry("missing", "missing.test"))}),
		"--state-dir="+state, "--map=default/web:80="+web.Addr)
	s := &shop{t: t, Process: p}
	for _, v := range variants {
		c, _, err := s.handshake(v, "missing.test")
		if err != nil {
			t.Fatal(err)
		}
		if leaf := c.ConnectionState().PeerCertificates[0]; leaf.VerifyHostname("missing.test") != nil {
			t.Errorf("%s: missing.test is shown a certificate for %q", v, leaf.DNSNames)
		}
		if answer := s.ask(c, "missing.test"); answer.StatusCode != 200 {
			t.Errorf("%s: %d, want 200", v, answer.StatusCode)
		}
		c, _, err = s.handshake(v, "unknown.test")
		if err != nil {
			t.Fatal(err)
		}
		if leaf := c.ConnectionState().PeerCertificates[0]; leaf.VerifyHostname("unknown.test") == nil {
			t.Errorf("%s: unknown.test is shown a certificate of its own", v)
		}
		if answer := s.ask(c, "unknown.test"); answer.StatusCode != 404 {
			t.Errorf("%s: %d, want 404", v, answer.StatusCode)
		}
	}
}
