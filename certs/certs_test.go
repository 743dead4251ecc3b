package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// issue makes a self-signed certificate for names, as the texts of a Secret.
func issue(t testing.TB, names ...string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issueFor(t, private, names...)
}

func issueFor(t testing.TB, private crypto.Signer, names ...string) (cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: names[0]},
		DNSNames:     names,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pairFor(t testing.TB, names ...string) *tls.Certificate {
	t.Helper()
	pair, err := Parse(issue(t, names...))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// listen serves TLS from a store on a loopback socket: each connection gets one byte, and each byte it sends back.
func listen(t *testing.T, store *Store) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetConfigForClient: store.GetConfigForClient})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				io.Copy(c, c)
			})
		}
	})
	return l.Addr().String()
}

// handshake connects with a server name, none if empty, and returns the connection.
func handshake(t *testing.T, address, name string) *tls.Conn {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := c.Handshake(); err != nil {
		t.Fatalf("server name %q: %v", name, err)
	}
	return c
}

func rsaPairFor(t testing.TB, names ...string) *tls.Certificate {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := Parse(issueFor(t, private, names...))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func shown(c *tls.Conn) string { return c.ConnectionState().PeerCertificates[0].Subject.CommonName }

func TestANameWithANilCertificateGetsTheDefaultRatherThanAWildcards(t *testing.T) {
	wild, usual := new(tls.Certificate), new(tls.Certificate)
	var store Store
	store.Set(Certificates{ByHost: map[string]*Host{"*.example.org": {Pairs: []*tls.Certificate{wild}}, "a.example.org": nil, "*.none.test": nil}, Default: usual})
	for name, want := range map[string]*tls.Certificate{"a.example.org": usual, "A.example.org.": usual, "b.example.org": wild, "x.none.test": usual} {
		got, err := store.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || got != want {
			t.Errorf("%s: got certificate %p, %v; want %p (the default is %p)", name, got, err, want, usual)
		}
	}
}

func TestCertificateIsChosenByServerName(t *testing.T) {
	var store Store
	store.Set(Certificates{
		ByHost: map[string]*Host{
			"a.test": {Pairs: []*tls.Certificate{pairFor(t, "a.test")}}, "*.w.test": {Pairs: []*tls.Certificate{pairFor(t, "*.w.test")}}, "own.w.test": {Pairs: []*tls.Certificate{pairFor(t, "own.w.test")}},
		},
		Default: pairFor(t, "default.test"),
	})
	address := listen(t, &store)
	for _, c := range []struct{ name, want string }{
		{"a.test", "a.test"},
		{"A.TEST", "a.test"},
		{"a.test.", "a.test"},
		{"own.w.test", "own.w.test"},
		{"x.w.test", "*.w.test"},
		{"X.W.Test", "*.w.test"},
		{"w.test", "default.test"},
		{"x.y.w.test", "default.test"},
		{"b.test", "default.test"},
		{"sub.a.test", "default.test"},
		{"localhost", "default.test"},
		{"", "default.test"},
	} {
		if got := shown(handshake(t, address, c.name)); got != c.want {
			t.Errorf("server name %q got the certificate of %q, want %q", c.name, got, c.want)
		}
	}
}

// crypto/tls drops the trailing dot of its own client's names; others send it.
func TestServerNameIsReadInOneForm(t *testing.T) {
	pair := pairFor(t, "a.test")
	var store Store
	store.Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pair}}}, Default: pairFor(t, "default.test")})
	for name, want := range map[string]bool{"A.test.": true, "a.test": true, "a.test..": false, ".a.test": false, ".": false} {
		got, err := store.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || (got == pair) != want {
			t.Errorf("server name %q: certificate of a.test %v (error %v), want %v", name, got == pair, err, want)
		}
	}
}

func TestZeroStoreHasOneSelfSignedCertificate(t *testing.T) {
	var store Store
	address := listen(t, &store)
	first := handshake(t, address, "a.test").ConnectionState().PeerCertificates[0]
	if want := "Kubernetes Ingress Controller Fake Certificate"; first.Subject.CommonName != want {
		t.Errorf("common name %q, want %q", first.Subject.CommonName, want)
	}
	if len(first.DNSNames) != 1 || first.DNSNames[0] != "ingress.local" {
		t.Errorf("names %q, want ingress.local", first.DNSNames)
	}
	if key, ok := first.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("key %T, want ECDSA on P-256", first.PublicKey)
	}
	if year := first.NotAfter.Sub(first.NotBefore); year < 365*24*time.Hour || year > 367*24*time.Hour {
		t.Errorf("valid for %v, want a year", year)
	}
	store.Set(Certificates{ByHost: map[string]*Host{"b.test": {Pairs: []*tls.Certificate{pairFor(t, "b.test")}}}})
	if again := handshake(t, address, "").ConnectionState().PeerCertificates[0]; !again.Equal(first) {
		t.Error("another self-signed certificate was made")
	}
}

func TestSetReachesTheNextHandshakeAndLeavesConnectionsAlone(t *testing.T) {
	var store Store
	store.Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pairFor(t, "a.test", "old.test")}}}})
	address := listen(t, &store)
	before := handshake(t, address, "a.test")
	store.Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pairFor(t, "new.test", "a.test")}}}})
	if got := shown(handshake(t, address, "a.test")); got != "new.test" {
		t.Errorf("a new handshake got %q, want new.test", got)
	}
	echo := make([]byte, 5)
	if _, err := before.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(before, echo); err != nil || string(echo) != "hello" {
		t.Errorf("the connection from before echoes %q, %v", echo, err)
	}
}

func TestStoreIsSwappedWhileHandshakesRun(t *testing.T) {
	pairs := []*tls.Certificate{pairFor(t, "one.test"), pairFor(t, "two.test")}
	var store Store
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				store.Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pairs[i%2]}}, "b.test": {Pairs: []*tls.Certificate{pairs[i%2]}}}})
			}
		}
	})
	address := listen(t, &store)
	for range 50 {
		if got := shown(handshake(t, address, "a.test")); got != "one.test" && got != "two.test" && got != selfSignedName {
			t.Errorf("got %q", got)
		}
	}
	close(stop)
	swapping.Wait()
}

func TestChoosingAllocatesNothing(t *testing.T) {
	var store Store
	store.Set(Certificates{
		ByHost:  map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pairFor(t, "a.test")}}, "*.w.test": {Pairs: []*tls.Certificate{pairFor(t, "*.w.test")}}},
		Default: pairFor(t, "default.test"),
	})
	for _, name := range []string{"a.test", "x.w.test", "none.test", ""} {
		hello := &tls.ClientHelloInfo{ServerName: name}
		if n := testing.AllocsPerRun(1000, func() { store.GetCertificate(hello) }); n != 0 {
			t.Errorf("server name %q: %v allocations, want none", name, n)
		}
	}
}
