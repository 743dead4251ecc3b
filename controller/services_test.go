package controller

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

func backendOf(port string) string {
	return ingressOf("a", "defaultBackend: {service: {name: web, port: {"+port+"}}}")
}

// endpointsIn lists all pools: "web:http 10.0.0.1:8080 10.0.0.2:8080".
func endpointsIn(pools *upstream.Pools) string {
	var lines []string
	for _, pool := range pools.All() {
		line := pool.ID().Service + ":" + pool.ID().Port
		for _, e := range pool.Endpoints() {
			line += " " + e.String()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestPortOfABackendLeadsToAPool(t *testing.T) {
	const services = `
kind: Service
metadata: {name: web}
spec:
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: admin, port: 9000, targetPort: management}
  - {name: swapped, port: 8080, targetPort: 80}
  - {name: dns-udp, port: 53, protocol: UDP}
  - {name: dns, port: 53, targetPort: 5353}
  - {name: only-udp, port: 99, protocol: UDP}
  - {name: only-sctp, port: 98, protocol: SCTP}
---
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: admin, port: 9001}, {name: swapped, port: 80}, {name: dns, port: 5353}, {name: dns-udp, port: 5353, protocol: UDP}]
endpoints: [{addresses: [10.0.0.1]}]
---
kind: EndpointSlice
metadata: {name: web-2, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: admin, port: 9002}]
endpoints: [{addresses: [10.0.0.2]}]`
	for _, c := range []struct{ port, pools, problem string }{
		{"number: 80", "web:http 10.0.0.1:8080", ""},
		{"name: http", "web:http 10.0.0.1:8080", ""},
		{"name: admin", "web:admin 10.0.0.1:9001 10.0.0.2:9002", ""},
		{"number: 8080", "web:swapped 10.0.0.1:80", ""}, // the Service's own port comes before another's targetPort
		{"name: management", "web:admin 10.0.0.1:9001 10.0.0.2:9002", "warning Ingress default/a: spec.defaultBackend.service.port.name: PortNotFound"},
		{"number: 5353", "web:dns 10.0.0.1:5353", "warning Ingress default/a: spec.defaultBackend.service.port.number: PortNotFound"},
		{"number: 53", "web:dns 10.0.0.1:5353", ""},
		{"number: 99", "", "error Ingress default/a: spec.defaultBackend.service.port.number: UnsupportedBackend"},
		{"name: only-sctp", "", "error Ingress default/a: spec.defaultBackend.service.port.name: UnsupportedBackend"},
		{"name: htp", "", "error Ingress default/a: spec.defaultBackend.service.port.name: PortNotFound"},
		{"number: 81", "", "error Ingress default/a: spec.defaultBackend.service.port.number: PortNotFound"},
	} {
		t.Run(c.port, func(t *testing.T) {
			o := everyIngress()
			r := NewBuilder(o).Build(snapshotOf(t, services, backendOf(c.port)))
			if got := endpointsIn(o.Pools); got != c.pools {
				t.Errorf("pools: %s, want %s", got, c.pools)
			}
			if c.problem == "" {
				wantProblems(t, r.Problems)
			} else {
				wantProblems(t, r.Problems, c.problem)
			}
			if c.pools != "" {
				return
			}
			if status, reason := ask(t, r, "any.test", "/"); status != 503 || reason != proxy.NoService {
				t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.NoService)
			}
		})
	}
}

func TestProblemOfAPortNamesThePortsThatExist(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, backendOf("name: htp")))
	const want = `Service "web" has no port "htp"; it has 80 "http"`
	if len(r.Problems) != 1 || r.Problems[0].Message != want {
		t.Errorf("problems: %v, want %s", r.Problems, want)
	}
}

func TestMissingServiceIsAnswered503AndToldOnce(t *testing.T) {
	s := snapshotOf(t, backendOf("number: 80"))
	b := NewBuilder(everyIngress())
	r := b.Build(s)
	wantProblems(t, r.Problems, "error Ingress default/a: spec.defaultBackend.service.name: ServiceNotFound")
	if status, reason := ask(t, r, "any.test", "/"); status != 503 || reason != proxy.NoService {
		t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.NoService)
	}
	for _, o := range objects(t, webService) {
		s.Set(o)
	}
	r = b.Build(s)
	wantProblems(t, r.Problems)
	if got := endpointsIn(b.options.Pools); got != "web:http 10.0.0.1:8080 10.0.0.2:8080" {
		t.Errorf("once the Service is there, pools: %s", got)
	}
}

func TestEndpointsOfAPool(t *testing.T) {
	const service = "kind: Service\nmetadata: {name: web}\nspec: {ports: [{name: http, port: 80}]}"
	slice := func(name, family, ports, endpoints string) string {
		return fmt.Sprintf("kind: EndpointSlice\nmetadata: {name: %s, labels: {kubernetes.io/service-name: web}}\naddressType: %s\nports: %s\nendpoints: %s", name, family, ports, endpoints)
	}
	const http = "[{name: http, port: 8080}]"
	noEndpoints := "warning Service default/web: spec.ports: NoEndpoints"
	for _, c := range []struct {
		name     string
		slices   []string
		loopback bool
		want     string
		problems []string
	}{
		{"nothing is known of readiness", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1]}]")}, false, "10.0.0.1:8080", nil},
		{"ready and not", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1], conditions: {ready: false}}, {addresses: [10.0.0.2], conditions: {ready: true}}]")}, false, "10.0.0.2:8080", nil},
		{"leaving, while others are ready", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}, {addresses: [10.0.0.2]}]")}, false, "10.0.0.2:8080", nil},
		{"leaving, and nobody else", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}, {addresses: [10.0.0.2], conditions: {ready: false, serving: false, terminating: true}}]")}, false, "10.0.0.1:8080", nil},
		{"leaving in one slice, ready in another", []string{
			slice("s", "IPv4", http, "[{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}]"),
			slice("u", "IPv4", http, "[{addresses: [10.0.0.2]}]")}, false, "10.0.0.2:8080", nil},
		{"serving but neither ready nor leaving", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1], conditions: {ready: false, serving: true}}]")}, false, "", []string{noEndpoints}},
		{"both families, other numbers", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1]}]"), slice("u", "IPv6", "[{name: http, port: 9090}]", `[{addresses: ["fd00::1"]}]`)}, false, "10.0.0.1:8080 [fd00::1]:9090", nil},
		{"an address twice", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1]}]"), slice("u", "IPv4", http, "[{addresses: [10.0.0.1, 10.0.0.2]}]")}, false, "10.0.0.1:8080 10.0.0.2:8080", nil},
		{"one address, two numbers", []string{slice("s", "IPv4", http, "[{addresses: [10.0.0.1]}]"), slice("u", "IPv4", "[{name: http, port: 8081}]", "[{addresses: [10.0.0.1]}]")}, false, "10.0.0.1:8080 10.0.0.1:8081", nil},
		{"ports are matched by name", []string{slice("s", "IPv4", "[{name: web, port: 8080}]", "[{addresses: [10.0.0.1]}]")}, false, "", []string{noEndpoints}},
		{"UDP of the same name", []string{slice("s", "IPv4", "[{name: http, port: 8080, protocol: UDP}]", "[{addresses: [10.0.0.1]}]")}, false, "", []string{noEndpoints}},
		{"a port without number", []string{slice("s", "IPv4", "[{name: http}]", "[{addresses: [10.0.0.1]}]")}, false, "", []string{noEndpoints}},
		{"names instead of addresses", []string{slice("s", "FQDN", http, "[{addresses: [example.org]}]")}, false, "", []string{noEndpoints}},
		{"no slices", nil, false, "", []string{"warning Service default/web: : NoEndpoints"}},
		{"not an address", []string{slice("s", "IPv4", http, "[{addresses: [x]}, {addresses: [10.0.0.2]}]")}, false, "10.0.0.2:8080", []string{"error EndpointSlice default/s: endpoints[0].addresses[0]: InvalidValue"}},
		{"loopback", []string{slice("s", "IPv4", http, "[{addresses: [127.0.0.1]}, {addresses: [10.0.0.2]}]")}, false, "10.0.0.2:8080", []string{"error EndpointSlice default/s: endpoints[0].addresses[0]: InvalidValue"}},
		{"loopback in IPv6 clothes", []string{slice("s", "IPv6", http, `[{addresses: ["::ffff:127.0.0.1"]}, {addresses: ["fd00::1"]}]`)}, false, "[fd00::1]:8080", []string{"error EndpointSlice default/s: endpoints[0].addresses[0]: InvalidValue"}},
		{"loopback where it is allowed", []string{slice("s", "IPv4", http, "[{addresses: [127.0.0.1]}]")}, true, "127.0.0.1:8080", nil},
		{"a cloud's metadata, wherever", []string{slice("s", "IPv4", http, "[{addresses: [169.254.169.254]}, {addresses: [10.0.0.2]}]")}, true, "10.0.0.2:8080", []string{"error EndpointSlice default/s: endpoints[0].addresses[0]: InvalidValue"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := everyIngress()
			o.AllowLoopback = c.loopback
			r := NewBuilder(o).Build(snapshotOf(t, append(c.slices, service, backendOf("number: 80"))...))
			if got, want := endpointsIn(o.Pools), strings.TrimSpace("web:http "+c.want); got != want {
				t.Errorf("pools: %s, want %s", got, want)
			}
			wantProblems(t, r.Problems, c.problems...)
		})
	}
}

func TestMapReplacesEndpoints(t *testing.T) {
	local := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:3000")}
	web := Key{"default", "web"}
	external := "kind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: example.org}"
	for _, c := range []struct {
		name    string
		port    string
		objects string
		backend string
		want    string
	}{
		{"of every port", "", webService, "number: 80", "web:http 127.0.0.1:3000"},
		{"of a port by number", "80", webService, "name: http", "web:http 127.0.0.1:3000"},
		{"of a port by name", "http", webService, "number: 80", "web:http 127.0.0.1:3000"},
		{"of another port", "81", webService, "number: 80", "web:http 10.0.0.1:8080 10.0.0.2:8080"},
		{"of a port that the Service lacks", "81", webService, "number: 81", "web:81 127.0.0.1:3000"},
		{"of an ExternalName", "", external, "number: 80", "web:80 127.0.0.1:3000"},
		{"of a Service that is not there", "", "", "number: 80", "web:80 127.0.0.1:3000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := everyIngress()
			o.Map = map[MapKey][]netip.AddrPort{{web, c.port}: local}
			s := snapshotOf(t, backendOf(c.backend))
			if c.objects != "" {
				s = snapshotOf(t, c.objects, backendOf(c.backend))
			}
			r := NewBuilder(o).Build(s)
			if got := endpointsIn(o.Pools); got != c.want {
				t.Errorf("pools: %s, want %s", got, c.want)
			}
			wantProblems(t, r.Problems)
		})
	}
}
