package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// identities are the authorities and certificates of a world, by name.
type identities struct {
	authorities  map[string]*Authority
	certificates map[string]*tls.Certificate
	clients      map[string]*http.Client // by the certificate they show
}

func (w *world) issue(t testing.TB) *identities {
	i := &identities{map[string]*Authority{"self": nil}, make(map[string]*tls.Certificate), make(map[string]*http.Client)}
	for _, a := range w.authorities {
		if len(a.names) == 0 {
			i.authorities[a.at] = NewAuthority(t, a.at)
		} else {
			i.authorities[a.at] = i.authority(t, a.names[0]).Sub(t, a.at)
		}
	}
	for _, c := range w.certificates {
		name := c.at
		if len(c.names) > 1 {
			name = c.names[1]
		}
		i.certificates[c.at] = i.authority(t, c.names[0]).Issue(t, name)
	}
	return i
}

func (i *identities) authority(t testing.TB, name string) *Authority {
	a, ok := i.authorities[name]
	if !ok {
		t.Fatalf("the world has no authority %s", name)
	}
	return a
}

func (i *identities) certificate(t testing.TB, name string) *tls.Certificate {
	c := i.certificates[name]
	if c == nil {
		t.Fatalf("the world has no certificate %s", name)
	}
	return c
}

// secret is the manifest of a Secret with fields as a world has them.
func (i *identities) secret(t testing.TB, name string, fields []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata:\n", name)
	for _, field := range fields {
		key, source, _ := strings.Cut(field, "=")
		what, of, _ := strings.Cut(source, ":")
		var text []byte
		switch what {
		case "ca":
			text = i.authority(t, of).PEM()
		case "crt":
			text, _ = PairPEM(t, i.certificate(t, of))
		case "key":
			_, text = PairPEM(t, i.certificate(t, of))
		default:
			t.Fatalf("%q is none of ca, crt and key", what)
		}
		fmt.Fprintf(&b, "  %s: %s\n", key, base64.StdEncoding.EncodeToString(text))
	}
	return b.String()
}

// serve starts an endpoint over TLS: its name, its certificate and perhaps the authority of its clients.
func (i *identities) serve(t testing.TB, words []string) *Endpoint {
	config := &tls.Config{Certificates: []tls.Certificate{*i.certificate(t, words[1])}, NextProtos: []string{"h2", "http/1.1"}}
	if len(words) > 2 {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(i.authority(t, words[2]).Certificate)
	}
	return serveOver(t, config, "127.0.0.1:0", words[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			r.Header.Set("Client-Name", r.TLS.PeerCertificates[0].Subject.CommonName)
		}
		if r.TLS != nil && r.TLS.ServerName != "" {
			r.Header.Set("Server-Name", r.TLS.ServerName)
		}
		echo(w, r, words[0])
	}))
}

// client is one that shows a certificate, or none.
func (i *identities) client(t testing.TB, p *Process, name string) *http.Client {
	if name == "" {
		return p.client
	}
	if i.clients[name] == nil {
		pair := i.certificate(t, name)
		i.clients[name] = p.Client(func(transport *http.Transport) {
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
		})
		t.Cleanup(i.clients[name].CloseIdleConnections)
	}
	return i.clients[name]
}
