package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

//go:embed demo/*.yaml
var demoManifests embed.FS

// caFile is the demo's certificate as curl's --cacert wants it. It is no manifest, and its name does not look like one.
const caFile = "ca.crt"

// demoPort and demoTLSPort are the ports that the comments in the demo's manifests speak of.
const (
	demoPort    = 30080
	demoTLSPort = 30443
)

// writeDemo writes the manifests of the demo to a folder that exists: those of the binary, the endpoints that were
// started, and a certificate made for the occasion. No file that is there already is replaced.
func writeDemo(folder string, pods []*echo) error {
	files, err := demoFiles(pods)
	if err != nil {
		return err
	}
	for name, content := range files {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("write the demo's manifests: %w", err)
		}
		_, err = file.WriteString(content)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write the demo's manifests: %w", err)
		}
	}
	return nil
}

// demoFiles are the files of the demo by name.
func demoFiles(pods []*echo) (map[string]string, error) {
	certificate, key, err := selfSigned("secure.localhost")
	if err != nil {
		return nil, fmt.Errorf("make the demo's certificate: %w", err)
	}
	files := map[string]string{
		"endpoints.yaml": demoSlices(pods),
		"secret.yaml":    demoSecret(certificate, key),
		caFile:           certificate,
	}
	entries, err := demoManifests.ReadDir("demo")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		content, err := demoManifests.ReadFile(path.Join("demo", entry.Name()))
		if err != nil {
			return nil, err
		}
		files[entry.Name()] = string(content)
	}
	return files, nil
}

// demoSlices is an EndpointSlice for each pod. They all listen on one address, so each has a port of its own, and a
// slice has one number for each of its ports.
func demoSlices(pods []*echo) string {
	var b strings.Builder
	b.WriteString("# The endpoints of the demo: servers inside the demo's own process.\n# Remove one, save, and it gets no more requests.\n")
	for i, pod := range pods {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %s
  labels: {kubernetes.io/service-name: %s}
addressType: IPv4
ports:
- {name: http, port: %d}
endpoints:
- addresses: [127.0.0.1]
`, pod.pod, pod.service, pod.listener.Addr().(*net.TCPAddr).Port)
	}
	return b.String()
}

func demoSecret(certificate, key string) string {
	return `# Made when the demo started; it is good for a day, and on this machine only.
apiVersion: v1
kind: Secret
metadata:
  name: secure-tls
type: kubernetes.io/tls
stringData:
  tls.crt: |
` + indent(certificate) + `  tls.key: |
` + indent(key)
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}

// selfSigned makes a certificate for a host and its key, both in PEM, good for a day.
func selfSigned(host string) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	form := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: host, Organization: []string{"Sallyport demo"}},
		DNSNames:              []string{host},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // so that a client that is given the certificate as its authority takes it
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	block := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER), nil
}
