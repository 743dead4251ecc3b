//go:build tlsscan

package e2e_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// scanned is a front for a.test with a certificate of the kind that public authorities issue, and the file of its authority.
func scanned(t *testing.T) (p *e2e.Process, authority string) {
	root := e2e.NewAuthority(t, "Scanned Root")
	long := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(80 * 24 * time.Hour) }
	pair := root.Sub(t, "Scanned CA", long).Issue(t, "a.test", long, func(c *x509.Certificate) {
		c.CRLDistributionPoints = []string{"http://crl.test/ca.crl"} // nobody asks it
		c.KeyUsage = x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	endpoint := e2e.Serve(t, "127.0.0.1:0", "web", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // which scanners miss where an application has none
		w.Write([]byte("here\n"))
	}))
	certificate, key := e2e.PairPEM(t, pair)
	folder := e2e.Folder(t, map[string]string{"all.yaml": fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: a}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
spec:
  tls: [{hosts: [a.test], secretName: a}]
  rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`, base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key))})
	authority = filepath.Join(t.TempDir(), "root.pem")
	e2e.WriteFile(t, authority, string(root.PEM()))
	return e2e.Start(t, folder, "--map=web="+endpoint.Addr), authority
}

func TestSSLScanSeesNoOldTLS(t *testing.T) {
	p, _ := scanned(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, "sslscan", "--no-colour", "--sni-name=a.test", p.HTTPS).CombinedOutput()
	if err != nil {
		t.Fatalf("sslscan: %v\n%s", err, text)
	}
	var suites []string
	enabled := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 4 && (fields[0] == "Accepted" || fields[0] == "Preferred"):
			suites = append(suites, fields[1]+" "+fields[4])
			if !strings.Contains(fields[4], "GCM") && !strings.Contains(fields[4], "CHACHA20") || fields[1] != "TLSv1.2" && fields[1] != "TLSv1.3" {
				t.Errorf("sslscan: %s", line)
			}
		case len(fields) == 2 && (fields[1] == "enabled" || fields[1] == "disabled"):
			enabled[fields[0]] = fields[1]
		}
	}
	for protocol, want := range map[string]string{
		"SSLv2": "disabled", "SSLv3": "disabled", "TLSv1.0": "disabled", "TLSv1.1": "disabled", "TLSv1.2": "enabled", "TLSv1.3": "enabled",
	} {
		if enabled[protocol] != want {
			t.Errorf("sslscan: %s is %q, want %s", protocol, enabled[protocol], want)
		}
	}
	t.Logf("sslscan: %q", suites)
	if len(suites) < 6 {
		t.Errorf("sslscan has seen %d suites, want three of TLS 1.2 and three of TLS 1.3:\n%s", len(suites), text)
	}
}

// A finding is what testssl.sh has to say about one thing.
type finding struct{ ID, Severity, Finding string }

// TestTestSSLFindsNothing lets testssl.sh make all its checks. TESTSSL names the program to use; it is one that gives
// grades, which is from version 3.2.
func TestTestSSLFindsNothing(t *testing.T) {
	program := os.Getenv("TESTSSL")
	if program == "" {
		program = "testssl"
	}
	p, authority := scanned(t)
	report := filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithTimeout(t.Context(), 35*time.Minute)
	defer cancel()
	port := p.HTTPS[strings.LastIndexByte(p.HTTPS, ':')+1:]
	begun := time.Now()
	text, err := exec.CommandContext(ctx, program, "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1",
		"--add-ca", authority, "--jsonfile", report, "https://a.test:"+port).CombinedOutput()
	t.Logf("testssl took %v: %v\n%s", time.Since(begun), err, text)
	found, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var findings []finding
	if err := json.Unmarshal(found, &findings); err != nil {
		t.Fatal(err)
	}
	harmless := []string{"OK", "INFO", "LOW"}
	grade := "none: testssl.sh gives grades from version 3.2; TESTSSL names another program than that of the PATH"
	for _, f := range findings {
		if f.ID == "overall_grade" {
			grade = f.Finding
		}
		if f.Severity != "OK" && f.Severity != "INFO" {
			t.Logf("%s %s: %s", f.Severity, f.ID, f.Finding)
		}
		if !slices.Contains(harmless, f.Severity) {
			t.Errorf("%s %s: %s", f.Severity, f.ID, f.Finding)
		}
	}
	if grade != "A+" {
		t.Errorf("the grade is %s, want A+", grade)
	}
	if len(findings) < 100 {
		t.Errorf("testssl has found only %d things to say", len(findings))
	}
}
