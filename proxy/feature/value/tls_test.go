package value

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// clientCertificate signs itself.
func clientCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xabc),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{2, 5, 4, 6}, Value: "DE"},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: `A, "B" + C`},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: " #é "},
			{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "a@n.test\r\nX: y"},
			{Type: asn1.ObjectIdentifier{1, 2, 3}, Value: "x"},
		}},
		BasicConstraintsValid: true,
		IsCA:                  true,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// overTLS is what a template gives for a request with the certificate, over a server that asks for one as told.
func overTLS(t *testing.T, text string, server *tls.Config, client *tls.Config) string {
	t.Helper()
	template := parse(t, text)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := template.Expand(r)
		if err != nil {
			t.Error(err)
		}
		io.WriteString(w, value)
	}))
	s.TLS = server
	s.StartTLS()
	defer s.Close()
	transport := s.Client().Transport.(*http.Transport)
	client.RootCAs = transport.TLSClientConfig.RootCAs
	transport.TLSClientConfig = client
	answer, err := s.Client().Get("https://" + s.Listener.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestVariablesOfTLS(t *testing.T) {
	pair := clientCertificate(t)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	with := []tls.Certificate{pair}
	sum := sha1.Sum(pair.Leaf.Raw)
	name := `1.2.3=#130178,emailAddress=a@n.test\0D\0AX: y,CN=\ #\C3\A9\ ,O=A\, \"B\" \+ C,C=DE`
	for _, c := range []struct {
		text           string
		server, client *tls.Config
		want           string
	}{
		{"$scheme $ssl_protocol $ssl_client_verify|$ssl_client_s_dn$ssl_client_serial", &tls.Config{}, &tls.Config{ServerName: "example.com"}, "https TLSv1.3 NONE|"},
		{"$ssl_server_name", &tls.Config{}, &tls.Config{ServerName: "example.com"}, "example.com"},
		{"$ssl_protocol $ssl_cipher", &tls.Config{}, &tls.Config{ServerName: "example.com", MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}}, "TLSv1.2 ECDHE-RSA-CHACHA20-POLY1305"},
		{"$ssl_client_verify", &tls.Config{ClientAuth: tls.RequestClientCert}, &tls.Config{Certificates: with}, "FAILED:not verified"},
		{"$ssl_client_verify", &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}, &tls.Config{Certificates: with}, "SUCCESS"},
		{"$ssl_client_s_dn", &tls.Config{ClientAuth: tls.RequestClientCert}, &tls.Config{Certificates: with}, name},
		{"$ssl_client_i_dn", &tls.Config{ClientAuth: tls.RequestClientCert}, &tls.Config{Certificates: with}, name},
		{"$ssl_client_serial", &tls.Config{ClientAuth: tls.RequestClientCert}, &tls.Config{Certificates: with}, "0ABC"},
		{"$ssl_client_fingerprint", &tls.Config{ClientAuth: tls.RequestClientCert}, &tls.Config{Certificates: with}, hex.EncodeToString(sum[:])},
	} {
		if got := overTLS(t, c.text, c.server, c.client); got != c.want {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
}

func TestDistinguishedNameOfSeveralValuesAtOnce(t *testing.T) {
	der, err := asn1.Marshal(pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "O"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "c"}, {Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "u"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 5}, Value: 7}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := DistinguishedName(der), "serialNumber=#020107,UID=u+CN=c,O=O"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := DistinguishedName(append(der, 0)); got != "" {
		t.Errorf("no name is %q, want none", got)
	}
}
