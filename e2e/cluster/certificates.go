//go:build controlplane

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// An authority issues the certificates of one cluster, as NAME.crt and NAME.key in its folder.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64
}

// newAuthority makes an authority, with its own certificate as ca.crt.
func newAuthority(t testing.TB, folder string) *authority {
	t.Helper()
	a := &authority{folder: folder}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "cluster"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.certificate = template
	a.key = a.newKey(t, "ca")
	a.certificate = a.sign(t, "ca", template, a.key)
	return a
}

// issueServer makes a certificate for a name and addresses.
func (a *authority) issueServer(t testing.TB, file, name string, addresses ...net.IP) {
	t.Helper()
	a.sign(t, file, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: addresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.newKey(t, file))
}

// issueClient makes a certificate by which the API server knows a user and the user's groups.
func (a *authority) issueClient(t testing.TB, file, user string, groups ...string) {
	t.Helper()
	a.sign(t, file, &x509.Certificate{
		Subject:  pkix.Name{CommonName: user, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.newKey(t, file))
}

func (a *authority) sign(t testing.TB, file string, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	a.issued++
	template.SerialNumber = big.NewInt(a.issued)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("issue %s.crt: %v", file, err)
	}
	a.write(t, file+".crt", "CERTIFICATE", der)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("issue %s.crt: %v", file, err)
	}
	return certificate
}

func (a *authority) newKey(t testing.TB, file string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, file+".key", "EC PRIVATE KEY", der)
	return key
}

func (a *authority) write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(a.folder, file), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Secret is the manifest of a Secret of type kubernetes.io/tls with a new certificate for a host.
func (c *Cluster) Secret(t testing.TB, name, host string) string {
	t.Helper()
	c.keys.issueServer(t, name, host)
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: %q\n  tls.key: %q\n",
		name, c.read(t, name+".crt"), c.read(t, name+".key"))
}

func (c *Cluster) read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A kubeconfig says where the API server is and who asks: by certificate and key, or by token.
type kubeconfig struct {
	server, authority string
	certificate, key  string
	token             string
}

func writeKubeconfig(t testing.TB, path string, k kubeconfig) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: k.server, CertificateAuthority: k.authority}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{ClientCertificate: k.certificate, ClientKey: k.key, Token: k.token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "user"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
}
