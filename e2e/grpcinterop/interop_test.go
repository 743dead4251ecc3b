package grpcinterop

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/testdata"

	"sallyport/e2e"
)

// Hosts that the certificate of gRPC's own tests is for, one for each way to reach the endpoints.
const (
	clear  = "clear.test.google.fr"  // HTTP/2 in the clear
	secure = "secure.test.google.fr" // HTTP/2 over TLS
)

// cases are the standard cases that need no cloud.
var cases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"custom_metadata", "status_code_and_message", "special_status_message",
	"unimplemented_method", "unimplemented_service",
	"cancel_after_begin", "cancel_after_first_response", "timeout_on_sleeping_server",
	"rpc_soak", "channel_soak",
}

// TestStandardCases runs gRPC's client against gRPC's server, with the product between them: TLS in front, and behind it
// both what backend-protocol GRPC means and what GRPCS does.
func TestStandardCases(t *testing.T) {
	plain, encrypted := startServer(t), startServer(t, "-use_tls")
	s := e2e.Start(t, e2e.Folder(t, map[string]string{
		"certificate.yaml": certificate(t),
		"clear.yaml":       site(clear, "GRPC", plain),
		"secure.yaml":      site(secure, "GRPCS", encrypted),
	}), "--access-log=off")
	for _, host := range []string{clear, secure} {
		for _, name := range cases {
			t.Run(host[:strings.IndexByte(host, '.')]+"/"+name, func(t *testing.T) {
				out, err := runClient(t, s, host, name)
				if err != nil {
					t.Errorf("%s over %s: %v\n%s", name, host, err, out)
				}
			})
		}
	}
}

// runClient runs one case and returns what the client said.
func runClient(t *testing.T, s *e2e.Process, host, name string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, port, err := net.SplitHostPort(s.HTTPS)
	if err != nil {
		t.Fatal(err)
	}
	client := exec.CommandContext(ctx, os.Getenv("GRPCINTEROP_CLIENT"),
		"-server_host="+address, "-server_port="+port, "-test_case="+name,
		"-use_tls", "-use_test_ca", "-server_host_override="+host,
		"-soak_iterations=50", "-soak_overall_timeout_seconds=50", "-soak_per_iteration_max_acceptable_latency_ms=20000")
	out, err := client.CombinedOutput()
	return string(out), err
}

// startServer runs gRPC's interop server and returns its address. It ends with the test.
func startServer(t *testing.T, args ...string) (address string) {
	t.Helper()
	port := e2e.FreePort(t)
	server := exec.Command(os.Getenv("GRPCINTEROP_SERVER"), append(args, "-port="+port)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	address = "192.0.2.1:" + port
	e2e.Eventually(t, "the interop server listens", func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err
	})
	return address
}

// certificate is a Secret with the certificate of gRPC's own tests, for *.test.google.fr.
func certificate(t *testing.T) string {
	t.Helper()
	var encoded [2]string
	for i, name := range []string{"server1.pem", "server1.key"} {
		content, err := os.ReadFile(testdata.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		encoded[i] = base64.StdEncoding.EncodeToString(content)
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: certificate}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
`, encoded[0], encoded[1])
}

// site is everything that makes a host: the Ingress, its Service, and an EndpointSlice for each address.
func site(host, protocol string, addresses ...string) string {
	name, _, _ := strings.Cut(host, ".")
	var text strings.Builder
	fmt.Fprintf(&text, `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: %[1]s
  annotations: {nginx.ingress.kubernetes.io/backend-protocol: %[3]s}
spec:
  ingressClassName: nginx
  tls: [{hosts: [%[2]s], secretName: certificate}]
  rules:
  - host: %[2]s
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[1]s, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80}]}
`, name, host, protocol)
	for i, address := range addresses {
		ip, port, _ := net.SplitHostPort(address)
		fmt.Fprintf(&text, `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[2]d, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: %[4]s}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}}]
`, name, i, ip, port)
	}
	return text.String()
}
