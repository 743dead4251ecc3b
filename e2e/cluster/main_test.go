//go:build controlplane

package cluster_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sallyport/e2e/acme"
	"sallyport/e2e/cluster"
)

func TestMain(m *testing.M) {
	acme.Prepare()
	os.Exit(cluster.Main(m))
}

// app is a Deployment of so many Pods and the Service in front of it, port 80 to the container's port 8080.
func app(name string, replicas int) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - name: echo
        image: echo
        ports: [{name: http, containerPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {app: %[1]s}
  ports: [{name: http, port: 80, targetPort: http}]
`, name, replicas)
}

// ingress is an Ingress of a class, empty for none, with the spec's other fields as given.
func ingress(name, class string, spec ...string) string {
	if class != "" {
		spec = append([]string{"ingressClassName: " + class}, spec...)
	}
	return fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s}\nspec:\n  %s\n", name, strings.Join(spec, "\n  "))
}

// rule is an entry of rules: a host, empty for none, and triples of path, pathType and Service.
func rule(host string, paths ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- http:\n      paths:\n")
	for i := 0; i < len(paths); i += 3 {
		fmt.Fprintf(&b, "      - {path: %s, pathType: %s, backend: %s}\n", paths[i], paths[i+1], service(paths[i+2]))
	}
	if host != "" {
		fmt.Fprintf(&b, "    host: %q", host)
	}
	return b.String()
}

func service(name string) string {
	return fmt.Sprintf("{service: {name: %s, port: {name: http}}}", name)
}

const ours = "sallyport" // the class that deploy/ installs
