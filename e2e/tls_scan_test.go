//go:build tlsscan

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const scanned = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
spec:
  tls: [{hosts: [a.test], secretName: a}]
  rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`

// What people who judge TLS from outside say of it.
func TestScannersFindNothing(t *testing.T) {
	endpoint := Echo(t, "127.0.0.1:0", "web")
	p := Start(t, Folder(t, map[string]string{"all.yaml": scanned}), "--map=web="+endpoint.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()

	text, err := exec.CommandContext(ctx, "sslscan", "--no-colour", "--sni-name=a.test", p.HTTPS).CombinedOutput()
	if err != nil {
		t.Fatalf("sslscan: %v\n%s", err, text)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && (fields[0] == "Accepted" || fields[0] == "Preferred") {
			seen++
			if strings.Contains(line, "CBC") || strings.Contains(line, "TLSv1.0") || strings.Contains(line, "TLSv1.1") || strings.HasSuffix(fields[4], "-SHA") {
				t.Errorf("sslscan: %s", line)
			}
		}
		if len(fields) == 2 && fields[1] == "enabled" && (strings.HasPrefix(fields[0], "SSL") || fields[0] == "TLSv1.0" || fields[0] == "TLSv1.1") {
			t.Errorf("sslscan: %s", line)
		}
	}
	if seen == 0 {
		t.Errorf("sslscan has seen no suite:\n%s", text)
	}

	report := filepath.Join(t.TempDir(), "report.json")
	text, err = exec.CommandContext(ctx, "testssl", "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1", "--jsonfile", report, "https://a.test:"+p.HTTPS[strings.LastIndexByte(p.HTTPS, ':')+1:]).CombinedOutput()
	found, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("testssl: %v\n%s", err, text)
	}
	var findings []struct{ ID, Severity, Finding string }
	if err := json.Unmarshal(found, &findings); err != nil {
		t.Fatalf("testssl: %v", err)
	}
	for _, f := range findings {
		if f.ID == "overall_grade" || f.ID == "HSTS" || f.ID == "HSTS_time" {
			t.Logf("testssl: %s: %s", f.ID, f.Finding)
		}
		switch f.Severity {
		case "MEDIUM", "HIGH", "CRITICAL", "FATAL":
			if !ofTheCertificate(f.ID) {
				t.Errorf("testssl: %s %s: %s", f.Severity, f.ID, f.Finding)
			}
		}
	}
	if len(findings) < 50 {
		t.Errorf("testssl has found only %d things to say:\n%s", len(findings), text)
	}
}

// ofTheCertificate reports whether a finding is about the certificate, which nobody vouches for here.
func ofTheCertificate(id string) bool {
	return strings.HasPrefix(id, "cert") || strings.HasPrefix(id, "overall_grade") || strings.HasPrefix(id, "grade_cap") || id == "DNS_CAArecord" || id == "OCSP_stapling"
}
