package main

import (
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sallyport/certs"
)

//go:embed demo/*.yaml
var demoManifests embed.FS

// caFile is where the certificate of the local CA is written if the CA ends with the demo. It is no manifest, and its name
// does not look like one.
const caFile = "ca.crt"

// demoPort and demoTLSPort are the ports that the comments in the demo's manifests speak of.
const (
	demoPort    = 30080
	demoTLSPort = 30443
)

// writeDemo writes the manifests of the demo to a folder that exists: those of the binary and the endpoints that were
// started. No file that is there already is replaced. It returns where the certificate of the local CA is.
func writeDemo(folder string, pods []*echo, ca *certs.LocalCA) (caPath string, err error) {
	files, err := demoFiles(pods)
	if err != nil {
		return "", err
	}
	switch {
	case ca == nil:
	case ca.Path() != "":
		caPath = ca.Path()
	default:
		files[caFile], caPath = string(ca.PEM()), filepath.Join(folder, caFile)
	}
	for name, content := range files {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", fmt.Errorf("write the demo's manifests: %w", err)
		}
		_, err = file.WriteString(content)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("write the demo's manifests: %w", err)
		}
	}
	return caPath, nil
}

// demoFiles are the files of the demo by name.
func demoFiles(pods []*echo) (map[string]string, error) {
	files := map[string]string{"endpoints.yaml": demoSlices(pods)}
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
