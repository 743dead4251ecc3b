package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"sallyport/e2e"
)

const external = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {type: ExternalName, externalName: %[1]s.test}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  rules:
  - host: %[1]s.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[1]s, port: {number: 8080}}}}]}
---
`

// answeredBy asks once; want is the endpoint that is to answer, or a status.
func answeredBy(client *http.Client, url, want string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if got := answer.Header.Get("X-Endpoint"); got != want && answer.Status[:3] != want {
		return fmt.Errorf("%s is answered %s by %q, want %s", url, answer.Status, got, want)
	}
	return nil
}

// TestExternalNamesFollowTheirNameServer is the life of names: they change, their server goes away and comes back, one is
// removed, one of thirty hangs, and no other is the slower for it.
func TestExternalNamesFollowTheirNameServer(t *testing.T) {
	for _, e := range []struct{ addr, name string }{{"192.0.2.81:8080", "first"}, {"192.0.2.82:8080", "second"}, {"192.0.2.83:8080", "third"}} {
		e2e.Echo(t, e.addr, e.name)
	}
	server := e2e.ServeNames(t, "127.0.0.1:0")
	var manifests strings.Builder
	for i := range 29 {
		name := fmt.Sprintf("n%d", i)
		fmt.Fprintf(&manifests, external, name)
		server.Set(name+".test", e2e.Records{Addresses: []string{"192.0.2.81"}})
	}
	fmt.Fprintf(&manifests, external, "hangs")
	server.Set("hangs.test", e2e.Records{Silent: true})
	folder := e2e.Folder(t, map[string]string{"all.yaml": manifests.String()})
	p := e2e.Start(t, folder, "--resolv-conf="+server.Settings(t, "options timeout:1 attempts:1"))
	client := p.Client(nil)
	t.Cleanup(client.CloseIdleConnections)

	// Ready means that what can be known is known.
	for i := range 29 {
		if err := answeredBy(client, fmt.Sprintf("http://n%d.example/", i), "first"); err != nil {
			t.Error(err)
		}
	}
	if err := answeredBy(client, "http://hangs.example/", "503"); err != nil {
		t.Error(err)
	}

	server.Set("n1.test", e2e.Records{Addresses: []string{"192.0.2.82"}})
	e2e.Eventually(t, "a changed name is followed", func() error { return answeredBy(client, "http://n1.example/", "second") })

	server.Down(true)
	e2e.Eventually(t, "the outage is told", func() error {
		if log := p.Log(); !strings.Contains(log, "cannot be resolved now") {
			return fmt.Errorf("the log says nothing of it")
		}
		return nil
	})
	for i := range 29 {
		want := "first"
		if i == 1 {
			want = "second"
		}
		if err := answeredBy(client, fmt.Sprintf("http://n%d.example/", i), want); err != nil {
			t.Errorf("while the name server is away: %v", err)
		}
	}

	server.Remove("n2.test")
	server.Set("n1.test", e2e.Records{Addresses: []string{"192.0.2.83"}})
	server.Down(false)
	e2e.Eventually(t, "names are followed again", func() error { return answeredBy(client, "http://n1.example/", "third") })
	e2e.Eventually(t, "a name that is gone leads nowhere", func() error { return answeredBy(client, "http://n2.example/", "503") })
	if err := answeredBy(client, "http://n3.example/", "first"); err != nil {
		t.Error(err)
	}

	server.Set("n3.test", e2e.Records{Addresses: []string{"127.0.0.1", "169.254.169.254"}})
	e2e.Eventually(t, "a name that leads back to this machine leads nowhere", func() error { return answeredBy(client, "http://n3.example/", "503") })
	if p.Metric(t, "sallyport_table_generation") > 1 {
		t.Error("names made another table, want pools to change alone")
	}
}

const spoken = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{name: main, port: 80, appProtocol: %[2]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: main, port: %[3]s}]
endpoints: [{addresses: [127.0.0.1]}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  rules:
  - host: %[1]s.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[1]s, port: {name: main}}}}]}
---
`

// TestAppProtocolSaysWhatEndpointsSpeak asks ordinary requests of endpoints that say which protocol they were asked in.
func TestAppProtocolSaysWhatEndpointsSpeak(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, err := websocket.Accept(w, r, nil)
			if err == nil {
				c.Write(r.Context(), websocket.MessageText, []byte("hello"))
				c.Close(websocket.StatusNormalClosure, "")
			}
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Proto, body)
	})
	plain := e2e.Serve(t, "127.0.0.1:0", "plain", handler).Addr
	tls := httptest.NewTLSServer(handler)
	t.Cleanup(tls.Close)
	secure := tls.Listener.Addr().String()
	port := func(addr string) string { _, port, _ := net.SplitHostPort(addr); return port }
	cases := []struct{ name, protocol, at, want string }{
		{"plain", "http", plain, "HTTP/1.1"}, {"ws", "kubernetes.io/ws", plain, "HTTP/1.1"}, {"h2c", "kubernetes.io/h2c", plain, "HTTP/2.0"}, {"grpc", "grpc", plain, "HTTP/2.0"},
		{"unknown", "example.org/x", plain, "HTTP/1.1"}, {"secure", "https", secure, "HTTP/1.1"}, {"wss", "kubernetes.io/wss", secure, "HTTP/1.1"},
	}
	var manifests strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&manifests, spoken, c.name, c.protocol, port(c.at))
	}
	p := e2e.Start(t, e2e.Folder(t, map[string]string{"all.yaml": manifests.String()}))
	client := p.Client(nil)
	t.Cleanup(client.CloseIdleConnections)
	for _, c := range cases {
		for _, method := range []string{"GET", "POST"} {
			body := ""
			if method == "POST" {
				body = strings.Repeat("x", 100_000)
			}
			request, err := http.NewRequest(method, "http://"+c.name+".test/", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Errorf("%s: %s: %v", c.protocol, method, err)
				continue
			}
			got, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if want := method + " " + c.want + " " + body; err != nil || string(got) != want {
				t.Errorf("%s: %s is answered %s %.60q (%v), want %.60q", c.protocol, method, answer.Status, got, err, want)
			}
		}
	}
	for _, name := range []string{"ws", "wss"} {
		ctx, cancel := context.WithCancel(t.Context())
		c, _, err := websocket.Dial(ctx, "ws://"+name+".test/", &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			cancel()
			continue
		}
		if _, text, err := c.Read(ctx); string(text) != "hello" {
			t.Errorf("%s: the WebSocket says %q, %v", name, text, err)
		}
		c.CloseNow()
		cancel()
	}
	if log := p.Log(); strings.Count(log, "UnknownProtocol") != 1 {
		t.Error("the unknown protocol is not told, or not once")
	}
}
