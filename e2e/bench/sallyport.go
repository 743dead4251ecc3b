package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sallyport serves a folder, as it comes, with its metrics. Bodies are held in memory as far as by nginx, see there; the certificate
// is the default one too, because wrk names the address and not the host in its handshakes; it is no redirect that is to be measured.
func sallyport(name, binary string) contender {
	return contender{name: name, version: versionOf(binary, "version"), ours: true, start: func(s setting) (*process, error) {
		folder := filepath.Join(s.folder, "manifests")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		text, err := manifests(s)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, "bench.yaml"), []byte(text), 0o644); err != nil {
			return nil, err
		}
		log := "off"
		if s.logging {
			log = "text"
		}
		command := []string{binary, "run", "--manifests=" + folder, "--bind-address=127.0.0.1", "--admin-address=127.0.0.1",
			"--http-port=" + portOf(s.http), "--https-port=" + portOf(s.https), "--admin-port=" + portOf(s.admin),
			"--access-log=" + log, "--default-ssl-certificate=default/bench"}
		if s.profiled {
			command = append(command, "--profiling")
		}
		command = append([]string{"env", fmt.Sprintf("GOMAXPROCS=%d", s.workers)}, command...) // env becomes it
		return startProcess(s.folder, "sallyport", command...)
	}}
}

func manifests(s setting) (string, error) {
	cert, err := os.ReadFile(s.cert)
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(s.key)
	if err != nil {
		return "", err
	}
	var slices strings.Builder
	for i, backend := range s.backends {
		// A slice has one number for a port; on loopback, where each backend has its own, it takes three.
		fmt.Fprintf(&slices, `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: bench-%d, labels: {kubernetes.io/service-name: bench}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1], conditions: {ready: true}}]
ports: [{name: http, port: %s, protocol: TCP}]
`, i, portOf(backend))
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: bench}
spec:
  ports: [{name: http, port: 80}]
%s---
apiVersion: v1
kind: Secret
metadata: {name: bench}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: bench
  annotations: {ingress.kubernetes.io/ssl-redirect: "false", ingress.kubernetes.io/client-body-buffer-size: 32k}
spec:
  tls: [{hosts: [%s], secretName: bench}]
  rules:
  - host: %s
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: bench, port: {name: http}}}}
`, slices.String(), base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key), host, host), nil
}

// buildSallyport builds the tree that this program is run from, as `make build` does.
func buildSallyport(ctx context.Context, folder string) (string, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	binary := filepath.Join(folder, "sallyport")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/sallyport")
	build.Dir = filepath.Dir(strings.TrimSpace(string(mod)))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("go build: %w", err), errors.New(string(out)))
	}
	return binary, nil
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // it is one of freeAddresses
	return port
}
