package main

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/e2e"
)

// ownCertificate is an Ingress of a host with a Secret that has a certificate for it.
func ownCertificate(t testing.TB, host string) string {
	t.Helper()
	pair := e2e.SelfSigned(t, host)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	indented := func(kind string, der []byte) string {
		text := string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
	}
	return `
apiVersion: v1
kind: Secret
metadata: {name: own}
type: kubernetes.io/tls
stringData:
  tls.crt: |
` + indented("CERTIFICATE", pair.Certificate[0]) + `  tls.key: |
` + indented("PRIVATE KEY", key) + `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: own}
spec:
  tls: [{hosts: [` + host + `], secretName: own}]
  rules:
  - host: ` + host + `
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
`
}

// localHosts are Ingresses with every way not to have a certificate.
const localHosts = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: local, annotations: {nginx.ingress.kubernetes.io/server-alias: alias.test}}
spec:
  tls: [{hosts: [none.test]}, {hosts: [missing.test], secretName: missing}, {hosts: ["*.apps.test"]}]
  rules:
  - host: none.test
    http: &web {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
  - {host: missing.test, http: *web}
  - {host: "*.apps.test", http: *web}
  - {host: plain.test, http: *web}
`

// verifies makes a handshake for a name with who trusts what is in a file.
func verifies(t testing.TB, p *e2e.Process, file, name string) error {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	c, err := tls.Dial("tcp", p.HTTPS, &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"h2"}})
	if err != nil {
		return err
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		return fmt.Errorf("the protocol is %q, want h2", got)
	}
	return nil
}

func TestOneFileMakesEveryHostOfAFolderGreen(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"local.yaml": localHosts, "own.yaml": ownCertificate(t, "own.test")})
	state := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(state, "ca.crt")
	for range 2 { // the second time with the authority of the first
		p := e2e.Start(t, folder, "--state-dir="+state)
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"none.test", "Missing.TEST", "a.apps.test", "b.apps.test", "plain.test", "alias.test", "localhost", "127.0.0.1"} {
			if err := verifies(t, p, file, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"own.test", "nobody.test", "apps.test", "a.b.apps.test"} {
			if err := verifies(t, p, file, name); err == nil {
				t.Errorf("%s, which has a certificate of its own or is no host of the folder, has one of the local CA", name)
			}
		}
		if !strings.Contains(p.Log(), file) {
			t.Errorf("the path %s is not said:\n%s", file, p.Log())
		}
		p.Kill()
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("the certificate of the authority is another one, %v", err)
		}
	}
}

func TestAHomeThatCannotBeWrittenStopsNoRun(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"local.yaml": localHosts})
	taken := filepath.Join(t.TempDir(), "file")
	e2e.WriteFile(t, taken, "")
	for what, environment := range map[string][]string{
		"a home that is a file": {"HOME=" + taken, "XDG_STATE_HOME="},
		"no home at all":        {"HOME=", "XDG_STATE_HOME="},
	} {
		p := e2e.LaunchIn(t, environment, "--manifests="+folder, "--state-dir=")
		p.WaitReady(t)
		c, err := tls.Dial("tcp", p.HTTPS, &tls.Config{ServerName: "none.test", InsecureSkipVerify: true})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := c.ConnectionState().PeerCertificates[0].VerifyHostname("none.test"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		c.Close()
		if !strings.Contains(p.Log(), "the local CA cannot be kept") {
			t.Errorf("%s: it is not said:\n%s", what, p.Log())
		}
	}
}
