package feature

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/e2e"
	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// A tlsEndpoint is an endpoint over TLS, which tells what it saw of the last connection.
type tlsEndpoint struct {
	pool  *upstream.Pool
	conns atomic.Int32
}

// overTLS starts one. What it answers is the server name it was asked for, the version and the common name of the client.
func overTLS(t testing.TB, pair *tls.Certificate, clients *e2e.Authority, most uint16) *tlsEndpoint {
	t.Helper()
	e := new(tlsEndpoint)
	config := &tls.Config{Certificates: []tls.Certificate{*pair}, MaxVersion: most}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(clients.Certificate)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			client = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprintf(w, "%s %s %s %s", r.TLS.ServerName, tls.VersionName(r.TLS.Version), tls.CipherSuiteName(r.TLS.CipherSuite), client)
	}))
	server.TLS, server.EnableHTTP2 = config, true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.conns.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	e.pool = new(upstream.Pools).Get(upstream.ID{Namespace: "shop", Service: "app", Port: "443"})
	e.pool.Set([]netip.AddrPort{netip.MustParseAddrPort(server.Listener.Addr().String())})
	return e
}

// through sends a request by a draft to an endpoint, and returns the status and what it answered.
func (e *tlsEndpoint) through(t testing.TB, d *Draft, r *http.Request) (status int, text string, became *proxy.Exchange) {
	t.Helper()
	became = new(proxy.Exchange)
	became.Scheme = "https"
	w := httptest.NewRecorder()
	upstream.New(e.pool, d.Upstream).ServeHTTP(w, proxy.With(r, became))
	return w.Code, w.Body.String(), became
}

func withHost(host string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = host
	return r
}

var tlsFeatures = []func(*Annotations, *Draft){backendProtocol, endpointTLS, healthChecks}

func TestEndpointsAreVerified(t *testing.T) {
	root, other := e2e.NewAuthority(t, "root"), e2e.NewAuthority(t, "other")
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	clientOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	good := root.Issue(t, "a.test")
	deep := root.Sub(t, "one").Sub(t, "two").Issue(t, "a.test")
	address := root.Issue(t, "x", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} })
	secrets := map[string]map[string][]byte{
		"shop/ca": {"ca.crt": root.PEM()}, "shop/other": {"ca.crt": other.PEM()},
		"shop/revoked": {"ca.crt": root.PEM(), "ca.crl": root.Revoke(t, time.Now().Add(time.Hour), good.Leaf)},
	}
	type set = map[string]string
	for _, c := range []struct {
		name        string
		endpoint    *tls.Certificate
		annotations set
		host        string
		status      int
	}{
		{"not asked for", root.Issue(t, "x", expired), set{}, "a.test", 200},
		{"not asked for, with a Secret", good, set{"proxy-ssl-secret": "other"}, "a.test", 200},
		{"off", good, set{"proxy-ssl-secret": "other", "proxy-ssl-verify": "off"}, "a.test", 200},
		{"good", good, set{"proxy-ssl-secret": "shop/ca", "proxy-ssl-verify": "on"}, "a.test", 200},
		{"another name", good, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "b.test", 502},
		{"the name that is said", good, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-name": "a.test"}, "b.test", 200},
		{"another name than is said", good, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-name": "b.test"}, "a.test", 502},
		{"an address", address, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-name": "10.0.0.1"}, "a.test", 200},
		{"another address", address, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "10.0.0.2", 502},
		{"no name at all", good, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "a..test", 502},
		{"no name is told, one is verified", good, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-server-name": "off"}, "a.test", 200},
		{"no name is told, another is verified", good, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-server-name": "off"}, "b.test", 502},
		{"another authority", good, set{"proxy-ssl-secret": "other", "proxy-ssl-verify": "on"}, "a.test", 502},
		{"the system's authorities", good, set{"proxy-ssl-verify": "on"}, "a.test", 502},
		{"signs itself", (*e2e.Authority)(nil).Issue(t, "a.test"), set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "a.test", 502},
		{"expired", root.Issue(t, "a.test", expired), set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "a.test", 502},
		{"for clients", root.Issue(t, "a.test", clientOnly), set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "a.test", 502},
		{"revoked", good, set{"proxy-ssl-secret": "revoked", "proxy-ssl-verify": "on"}, "a.test", 502},
		{"too deep", deep, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on"}, "a.test", 502},
		{"0 is 1", deep, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-verify-depth": "0"}, "a.test", 502},
		{"deep enough", deep, set{"proxy-ssl-secret": "ca", "proxy-ssl-verify": "on", "proxy-ssl-verify-depth": "2"}, "a.test", 200},
	} {
		for _, protocol := range []string{"HTTPS", "GRPCS", "AUTO_HTTP"} {
			c.annotations["backend-protocol"] = protocol
			p := passage{annotations: c.annotations, objects: objects{secrets: secrets}, features: tlsFeatures}
			d := p.drafted()
			if d.Denied() || len(p.problems) > 0 {
				t.Fatalf("%s: denied %v, problems %v", c.name, d.Denied(), p.problems)
			}
			status, text, e := overTLS(t, c.endpoint, nil, 0).through(t, d, withHost(c.host))
			if status != c.status || (e.Reason == proxy.UpstreamTLS) != (c.status == 502) {
				t.Errorf("%s, %s: %d %q, reason %q; want %d", c.name, protocol, status, text, e.Reason, c.status)
			}
		}
	}
}

func TestWhatEndpointsAreShown(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	certificate, key := e2e.PairPEM(t, root.Issue(t, "me"))
	secrets := map[string]map[string][]byte{"shop/me": {"tls.crt": certificate, "tls.key": key}}
	for _, c := range []struct {
		annotations map[string]string
		most        uint16
		want        string // beginning, and end behind a space
	}{
		{nil, 0, "h.test TLS 1.3 TLS_AES_128_GCM_SHA256 nobody"},
		{map[string]string{"proxy-ssl-secret": "me"}, 0, "h.test TLS 1.3 TLS_AES_128_GCM_SHA256 me"},
		{map[string]string{"proxy-ssl-name": "n.test"}, 0, "n.test TLS 1.3 TLS_AES_128_GCM_SHA256 nobody"},
		{map[string]string{"proxy-ssl-server-name": "off"}, 0, " TLS 1.3 TLS_AES_128_GCM_SHA256 nobody"},
		{map[string]string{"proxy-ssl-name": "n.test", "proxy-ssl-server-name": "off"}, 0, " TLS 1.3 TLS_AES_128_GCM_SHA256 nobody"},
		{map[string]string{"proxy-ssl-protocols": "TLSv1.2", "proxy-ssl-ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"}, 0, "h.test TLS 1.2 TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 nobody"},
		{map[string]string{"proxy-ssl-protocols": "TLSv1.3 TLSv1.2"}, tls.VersionTLS12, "h.test TLS 1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 nobody"},
		{map[string]string{"proxy-ssl-ciphers": "EECDH+CHACHA20:!AESGCM"}, tls.VersionTLS12, "h.test TLS 1.2 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 nobody"},
		{map[string]string{"proxy-ssl-protocols": "TLSv1.3"}, tls.VersionTLS12, "502"},
		{map[string]string{"proxy-ssl-ciphers": "ECDHE-RSA-AES256-GCM-SHA384"}, tls.VersionTLS12, "502"}, // the endpoint's key is of another kind
	} {
		for _, asKeys := range []bool{false, true} {
			p := passage{annotations: map[string]string{"backend-protocol": "HTTPS"}, config: map[string]string{}, objects: objects{secrets: secrets}, features: tlsFeatures}
			for name, value := range c.annotations {
				if p.annotations[name] = value; asKeys {
					delete(p.annotations, name)
					p.config[name] = strings.ReplaceAll(value, "me", "shop/me")
				}
			}
			clients := root
			if !strings.HasSuffix(c.want, " me") {
				clients = nil
			}
			status, text, _ := overTLS(t, root.Issue(t, "h.test"), clients, c.most).through(t, p.drafted(), withHost("h.test"))
			if text != c.want && c.want != fmt.Sprint(status) || len(p.problems) > 0 {
				t.Errorf("%v, keys of the ConfigMap %v: %d %q, %v; want %q", c.annotations, asKeys, status, text, p.problems, c.want)
			}
		}
	}
}

// TestARotatedSecretMakesNewConnections: and what was made with another identity is not used again, while the same Secret
// read again changes nothing.
func TestARotatedSecretMakesNewConnections(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	for _, protocol := range []string{"HTTPS", "GRPCS"} {
		e := overTLS(t, root.Issue(t, "h.test"), root, 0)
		data := func(name string) map[string][]byte {
			certificate, key := e2e.PairPEM(t, root.Issue(t, name))
			return map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": root.PEM()}
		}
		before, after := data("before"), data("after")
		var memory *Memory
		for i, c := range []struct {
			data  map[string][]byte
			more  string
			who   string
			conns int32
		}{{before, "", "before", 1}, {before, "", "before", 1}, {after, "", "after", 2}, {after, "", "after", 2}, {after, "h.test", "after", 3}, {before, "", "before", 4}} {
			in := Input{Namespace: "shop", Name: "web", Memory: memory, Objects: objects{secrets: map[string]map[string][]byte{"shop/s": c.data}}, Annotations: map[string]string{
				NginxPrefix + "backend-protocol": protocol, NginxPrefix + "proxy-ssl-secret": "s", NginxPrefix + "proxy-ssl-verify": "on",
			}}
			if c.more != "" {
				in.Annotations[NginxPrefix+"proxy-ssl-name"] = c.more
			}
			d, problems := Parse(in)
			memory = d.Memory()
			_, text, _ := e.through(t, d, withHost("h.test"))
			if !strings.HasSuffix(text, " "+c.who) || e.conns.Load() != c.conns || len(problems) > 0 {
				t.Errorf("%s, request %d: %q over %d connections, want %s over %d; %v", protocol, i, text, e.conns.Load(), c.who, c.conns, problems)
			}
		}
	}
}

func TestMistakesAboutTLSToEndpoints(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	certificate, key := e2e.PairPEM(t, root.Issue(t, "me"))
	_, others := e2e.PairPEM(t, root.Issue(t, "other"))
	old, oldKey := e2e.PairPEM(t, root.Issue(t, "old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }))
	type data = map[string][]byte
	for _, c := range []struct {
		name, annotation, value string
		secret                  data
		denies                  bool
		want                    string
	}{
		{"no such Secret", "proxy-ssl-secret", "none", nil, true, `no Secret is named "none"`},
		{"another namespace", "proxy-ssl-secret", "other/s", nil, true, "allow-cross-namespace-resources"},
		{"no name", "proxy-ssl-secret", "../s", nil, true, "expected the name of a Secret"},
		{"empty", "proxy-ssl-secret", "s", data{}, true, "it has nothing"},
		{"other keys", "proxy-ssl-secret", "s", data{"token": []byte("x")}, true, "it has token"},
		{"no key", "proxy-ssl-secret", "s", data{"tls.crt": certificate}, true, "a tls.crt without a tls.key"},
		{"no certificate", "proxy-ssl-secret", "s", data{"tls.key": key, "ca.crt": root.PEM()}, true, "a tls.key without a tls.crt"},
		{"another key", "proxy-ssl-secret", "s", data{"tls.crt": certificate, "tls.key": others}, true, "private key does not match public key"},
		{"swapped", "proxy-ssl-secret", "s", data{"tls.crt": key, "tls.key": certificate}, true, "are no certificate and its key"},
		{"broken key", "proxy-ssl-secret", "s", data{"tls.crt": certificate, "tls.key": key[:60]}, true, "are no certificate and its key"},
		{"broken authorities", "proxy-ssl-secret", "s", data{"ca.crt": []byte("x")}, true, "ca.crt of the Secret cannot be read: it is no PEM"},
		{"broken list", "proxy-ssl-secret", "s", data{"ca.crt": root.PEM(), "ca.crl": []byte("x")}, true, "ca.crl of the Secret cannot be read: it is no PEM"},
		{"empty list", "proxy-ssl-secret", "s", data{"ca.crt": root.PEM(), "ca.crl": nil}, true, "ca.crl of the Secret cannot be read: the revocation list is empty"},
		{"list alone", "proxy-ssl-secret", "s", data{"tls.crt": certificate, "tls.key": key, "ca.crl": []byte("x")}, true, "a ca.crl without a ca.crt"},
		{"expired", "proxy-ssl-secret", "s", data{"tls.crt": old, "tls.key": oldKey}, false, "tls.crt of the Secret expired at"},
		{"old list", "proxy-ssl-secret", "s", data{"ca.crt": root.PEM(), "ca.crl": root.Revoke(t, time.Now().Add(-time.Minute))}, false, "vouches for nobody: the revocation list"},
		{"verify", "proxy-ssl-verify", "true", nil, true, `expected "on" or "off"`},
		{"depth", "proxy-ssl-verify-depth", "-1", nil, false, "expected a whole number; the default, 1, is used"},
		{"name", "proxy-ssl-name", "$host", nil, false, "without variables"},
		{"name with a port", "proxy-ssl-name", "a.test:443", nil, false, "without variables"},
		{"server name", "proxy-ssl-server-name", "no", nil, false, `expected "on" or "off"`},
		{"protocols", "proxy-ssl-protocols", "TLSv1 TLSv1.2", nil, false, "expected TLSv1.2, TLSv1.3 or both"},
		{"no protocols", "proxy-ssl-protocols", " ", nil, false, "expected TLSv1.2, TLSv1.3 or both"},
		{"ciphers", "proxy-ssl-ciphers", "DHE-RSA-AES256-SHA", nil, false, "expected at least one suite of TLS 1.2 that is spoken"},
		{"some ciphers", "proxy-ssl-ciphers", "DHE-RSA-AES256-SHA:ECDHE-RSA-AES128-GCM-SHA256", nil, false, "DHE-RSA-AES256-SHA: not spoken here"},
	} {
		p := passage{annotations: map[string]string{"backend-protocol": "HTTPS", c.annotation: c.value}, features: tlsFeatures}
		if c.secret != nil {
			p.objects.secrets = map[string]map[string][]byte{"shop/s": c.secret}
		}
		d := p.drafted()
		if len(p.problems) != 1 || !strings.Contains(p.problems[0].Message, c.want) || p.problems[0].Denies != c.denies || d.Denied() != c.denies {
			t.Errorf("%s: denied %v, problems %+v; want one with %q that denies: %v", c.name, d.Denied(), p.problems, c.want, c.denies)
		}
		for _, p := range p.problems {
			if strings.Contains(p.Message, string(key[30:60])) {
				t.Errorf("%s: the message has a key in it", c.name)
			}
		}
	}
}

func TestHealthChecksShowTheCertificate(t *testing.T) {
	root := e2e.NewAuthority(t, "root")
	certificate, key := e2e.PairPEM(t, root.Issue(t, "me"))
	p := passage{
		annotations: map[string]string{"backend-protocol": "HTTPS", "proxy-ssl-secret": "s", "health-check-path": "/"},
		objects:     objects{secrets: map[string]map[string][]byte{"shop/s": {"tls.crt": certificate, "tls.key": key}}}, features: tlsFeatures,
	}
	if d := p.drafted(); d.Service.Check.TLS == nil || d.Service.Check.TLS != d.Upstream.TLS {
		t.Errorf("checks have %p, requests %p", d.Service.Check.TLS, d.Upstream.TLS)
	}
}
