package controller

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// streamMapOf is a ConfigMap of the default namespace.
func streamMapOf(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
}

// streamsOf are the Services that have ports, and the endpoints of each: "5432/tcp default/db:5432 10.0.0.1:5432".
func streamsOf(r Result) string {
	var all []string
	for _, s := range r.Streams {
		line := s.Port.String() + " " + s.Name
		if s.Expect {
			line += " expect"
		}
		if s.Send {
			line += " send"
		}
		if s.Options.Balance.Policy != "" {
			line += fmt.Sprint(" ", s.Options.Balance.Policy, " ", s.Options.Balance.Stay)
		}
		if s.Pool == nil {
			line += " nowhere"
		} else {
			line += fmt.Sprint(" ", s.Pool.ID().Port, s.Pool.Endpoints())
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// wantLines wants one problem a text, in order, with that in its line.
func wantLines(t *testing.T, got []Problem, want ...string) {
	t.Helper()
	same := len(got) == len(want)
	for i := range got {
		same = same && strings.Contains(got[i].String(), want[i])
	}
	if !same {
		t.Errorf("problems:\n%s\nwant some with:\n%s", problemLines(got), strings.Join(want, "\n"))
	}
}

func streamOptions() Options {
	o := everyIngress()
	o.TCPServices, o.UDPServices = Key{"default", "tcp"}, Key{"default", "udp"}
	o.OwnPorts = map[uint16]string{8080: "http-port"}
	return o
}

// dns has one name and number over both protocols, with endpoints of their own.
const dns = `kind: Service
metadata: {name: dns}
spec: {ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
kind: EndpointSlice
metadata: {name: dns, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: dns, port: 5353, protocol: UDP}, {name: dns-tcp, port: 5300, protocol: TCP}]
endpoints: [{addresses: [10.0.0.1]}]`

func TestServicesWithPortsOfTheirOwn(t *testing.T) {
	const web = "kind: Service\nmetadata: {name: web}\nspec: {sessionAffinity: ClientIP, ports: [{name: http, port: 80, targetPort: 8000}]}"
	for _, c := range []struct {
		claim, value string // of port 9000
		udp          bool
		want         string
		problems     []string
	}{
		{"by number", "default/dns:53", false, "9000/tcp default/dns:53 dns-tcp[10.0.0.1:5300]", nil},
		{"by name", " default/dns:dns-tcp ", false, "9000/tcp default/dns:dns-tcp dns-tcp[10.0.0.1:5300]", nil},
		{"over UDP", "default/dns:53", true, "9000/udp default/dns:53 dns/UDP[10.0.0.1:5353]", nil},
		{"over UDP by name", "default/dns:dns", true, "9000/udp default/dns:dns dns/UDP[10.0.0.1:5353]", nil},
		{"expecting PROXY", "default/dns:53:PROXY", false, "9000/tcp default/dns:53 expect dns-tcp[10.0.0.1:5300]", nil},
		{"sending PROXY", "default/dns:53::proxy", false, "9000/tcp default/dns:53 send dns-tcp[10.0.0.1:5300]", nil},
		{"both", "default/dns:53:Proxy:PROXY", false, "9000/tcp default/dns:53 expect send dns-tcp[10.0.0.1:5300]", nil},
		{"PROXY over UDP", "default/dns:53:PROXY", true, "9000/udp default/dns:53 dns/UDP[10.0.0.1:5353]", []string{"there are no PROXY headers over UDP"}},
		{"with affinity", "default/web:80", false, "9000/tcp default/web:80 client-ip 3h0m0s http[]", []string{"has no EndpointSlice"}},
		{"the wrong protocol", "default/dns:dns-tcp", true, "9000/udp default/dns:dns-tcp nowhere", []string{`has no port "dns-tcp" over UDP; it has 53/UDP "dns", 53 "dns-tcp"`}},
		{"no targetPort", "default/web:8000", false, "9000/tcp default/web:8000 nowhere", []string{`has no port "8000" over TCP`}},
		{"no Service", "other/dns:53", false, "9000/tcp other/dns:53 nowhere", []string{`no Service is named "dns" in namespace "other"`}},
		{"no namespace", "dns:53", false, "", []string{`"dns:53" is not a Service and its port`}},
		{"no port", "default/dns", false, "", []string{"is not a Service and its port"}},
		{"another word", "default/dns:53:PROXI", false, "", []string{"is not a Service and its port"}},
		{"too much", "default/dns:53:PROXY:PROXY:PROXY", false, "", []string{"is not a Service and its port"}},
		{"a path", "a/b/dns:53", false, "", []string{"is not a Service and its port"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s := snapshotOf(t, dns, web)
			data := map[bool]map[string]string{c.udp: {"9000": c.value}}
			s.Set(streamMapOf("tcp", data[false]))
			s.Set(streamMapOf("udp", data[true]))
			r := NewBuilder(streamOptions()).Build(s)
			if got := streamsOf(r); got != c.want {
				t.Errorf("served are\n%s\nwant\n%s", got, c.want)
			}
			wantLines(t, r.Problems, c.problems...)
		})
	}
}

// TestNoEndpointsIsToldAsItIs: what becomes of clients goes by how they come, and is told anew when that changes.
func TestNoEndpointsIsToldAsItIs(t *testing.T) {
	const (
		service = "kind: Service\nmetadata: {name: dns}\nspec: {ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}"
		web     = "kind: Ingress\nmetadata: {name: web}\nspec: {defaultBackend: {service: {name: dns, port: {number: 53}}}}"
	)
	s := snapshotOf(t, service)
	s.Set(streamMapOf("tcp", map[string]string{"9000": "default/dns:53"}))
	s.Set(streamMapOf("udp", map[string]string{"9000": "default/dns:53"}))
	b := NewBuilder(streamOptions())
	wantLines(t, b.Build(s).Problems, "; its connections are closed", "; its datagrams are dropped")
	s.Set(objects(t, web)[0])
	wantLines(t, b.Build(s).Problems, "; its datagrams are dropped", "; its requests are answered 503, and connections to its port of its own are closed")
	s.Set(streamMapOf("tcp", nil))
	wantLines(t, b.Build(s).Problems, "; its datagrams are dropped", "; its requests are answered 503 (")
}

func TestPortsThatCannotBeServed(t *testing.T) {
	s := snapshotOf(t, dns)
	data := map[string]string{"8080": "default/dns:53", "0": "default/dns:53", "65536": "default/dns:53", "053": "default/dns:53", "http": "default/dns:53", "53": "default/dns:53"}
	s.Set(streamMapOf("tcp", data))
	s.Set(streamMapOf("udp", map[string]string{"8080": "default/dns:53"}))
	r := NewBuilder(streamOptions()).Build(s)
	if got, want := streamsOf(r), "53/tcp default/dns:53 dns-tcp[10.0.0.1:5300]\n8080/udp default/dns:53 dns/UDP[10.0.0.1:5353]"; got != want {
		t.Errorf("served are\n%s\nwant\n%s", got, want)
	}
	wantLines(t, r.Problems,
		`error: ConfigMap default/tcp: data[053]: the key "053" is not a port`, `error: ConfigMap default/tcp: data[0]: the key "0" is not a port`,
		`error: ConfigMap default/tcp: data[65536]`, "error: ConfigMap default/tcp: data[8080]: port 8080 is taken by this process itself (--http-port)",
		`error: ConfigMap default/tcp: data[http]: the key "http" is not a port: expected a number from 1 to 65535 (InvalidValue)`)
}

func TestStreamsFollowTheirObjects(t *testing.T) {
	s := snapshotOf(t, dns)
	b := NewBuilder(streamOptions())
	r := b.Build(s)
	wantLines(t, r.Problems, "ConfigMap default/tcp: the ConfigMap of --tcp-services-configmap does not exist", "ConfigMap default/udp: the ConfigMap of --udp-services-configmap does not exist")

	data := map[string]string{"53": "default/dns:53"}
	s.Set(streamMapOf("tcp", data))
	s.Set(streamMapOf("udp", maps.Clone(data)))
	r = b.Build(s)
	wantLines(t, r.Problems)
	const both = "53/tcp default/dns:53 dns-tcp[10.0.0.1:5300]\n53/udp default/dns:53 dns/UDP[10.0.0.1:5353]"
	if got := streamsOf(r); got != both {
		t.Errorf("served are\n%s", got)
	}
	list := &r.Streams[0]

	for _, object := range objects(t, strings.Replace(dns, "10.0.0.1", "10.0.0.2", 1)) {
		if _, is := object.(*corev1.Service); !is {
			s.Set(object)
		}
	}
	r = b.Build(s)
	if got := streamsOf(r); got != strings.ReplaceAll(both, "10.0.0.1", "10.0.0.2") || !r.OnlyEndpoints || &r.Streams[0] != list {
		t.Errorf("served are\n%s\nonly endpoints: %v", got, r.OnlyEndpoints)
	}

	s.Delete(Ref{"Service", "default", "dns"})
	r = b.Build(s)
	if got, want := streamsOf(r), "53/tcp default/dns:53 nowhere\n53/udp default/dns:53 nowhere"; got != want {
		t.Errorf("served are\n%s\nwant\n%s", got, want)
	}
	if pools := len(b.options.Pools.All()); pools != 0 {
		t.Errorf("there are %d pools, want none", pools)
	}
	s.Set(objects(t, dns)[0])
	s.Set(streamMapOf("tcp", nil))
	r = b.Build(s)
	if got, want := streamsOf(r), "53/udp default/dns:53 dns/UDP[10.0.0.2:5353]"; got != want {
		t.Errorf("served are\n%s\nwant\n%s", got, want)
	}
}
