package manifests

import (
	"slices"
	"strings"
	"testing"

	"sallyport/controller"
)

// TestValuesAreRefusedAsAnAPIServerDoes has objects that no Ingress uses, one a row: its body behind the kind, and what
// is told of it, a line each. Nothing is told of those that an API server takes.
func TestValuesAreRefusedAsAnAPIServerDoes(t *testing.T) {
	for _, test := range []struct{ kind, body, want string }{
		{"Service", `spec: {ports: [{port: 80}]}`, ""},
		{"Service", `spec: {ports: [{port: 80, targetPort: web-1}]}`, ""},
		{"Service", `spec: {ports: [{name: a, port: 53}, {name: b, port: 53, protocol: UDP}]}`, ""},
		{"Service", `spec: {clusterIP: None}`, ""},
		{"Service", `spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ports: [{port: 80}]}`, ""},
		{"Service", `spec: {type: ExternalName, externalName: example.org.}`, ""},
		{"Service", `spec: {type: NodePort, externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30080}]}`, ""},
		{"Service", `spec: {type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8], loadBalancerClass: a.b/c, ports: [{port: 80}]}`, ""},
		{"Service", `spec: {sessionAffinity: ClientIP, ports: [{port: 80, appProtocol: kubernetes.io/h2c}]}`, ""},
		{"Service", `spec: {sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}, ports: [{port: 80}]}`, ""},

		{"Service", `spec: {ports: [{port: 80}, {port: 81}]}`,
			"spec.ports[0].name: is missing; each of several ports has a name\nspec.ports[1].name: is missing; each of several ports has a name"},
		{"Service", `spec: {ports: [{name: a, port: 80}, {name: a, port: 81}]}`, `spec.ports[1].name: "a" is the name of another port already`},
		{"Service", `spec: {ports: [{name: A_b, port: 80}]}`, `spec.ports[0].name: "A_b" is not a name; at most 63 lower-case letters, digits and '-' are expected`},
		{"Service", `spec: {ports: [{name: a, port: 80}, {name: b, port: 80}]}`, "spec.ports[1].port: 80/TCP is there already"},
		{"Service", `spec: {ports: [{port: 99999}]}`, "spec.ports[0].port: 99999 is not a port; 1 to 65535 is expected"},
		{"Service", `spec: {ports: [{port: 0}]}`, "spec.ports[0].port: 0 is not a port; 1 to 65535 is expected"},
		{"Service", `spec: {ports: [{targetPort: 80}]}`, "spec.ports[0].port: 0 is not a port; 1 to 65535 is expected"},
		{"Service", `spec: {ports: [{port: 80, targetPort: 99999}]}`, "spec.ports[0].targetPort: 99999 is not a port; 1 to 65535 is expected"},
		{"Service", `spec: {ports: [{port: 80, targetPort: -1}]}`, "spec.ports[0].targetPort: -1 is not a port; 1 to 65535 is expected"},
		{"Service", `spec: {ports: [{port: 80, targetPort: "8080"}]}`, `spec.ports[0].targetPort: "8080" is not the name of a port; at most 15 lower-case letters, digits and '-' are expected, a letter among them`},
		{"Service", `spec: {ports: [{port: 80, protocol: tcp}]}`, `spec.ports[0].protocol: "tcp" is unknown; write TCP`},
		{"Service", `spec: {ports: [{port: 80, protocol: HTTP}]}`, `spec.ports[0].protocol: "HTTP" is unknown; TCP, UDP or SCTP is expected`},
		{"Service", `spec: {ports: [{port: 80, appProtocol: "a b"}]}`, `spec.ports[0].appProtocol: "a b" is not the name of a protocol, as in http or kubernetes.io/h2c`},
		{"Service", `spec: {ports: [{port: 80, nodePort: 30080}]}`, "spec.ports[0].nodePort: a Service of type ClusterIP has none; NodePort or LoadBalancer is expected as its type"},
		{"Service", `spec: {type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30080}]}`, "spec.ports[1].nodePort: 30080/TCP is there already"},
		{"Service", `spec: {ports: []}`, "spec.ports: is missing or empty; one port at least is expected, unless clusterIP is None"},
		{"Service", `spec: {selector: {app: web}}`, "spec.ports: is missing or empty; one port at least is expected, unless clusterIP is None"},
		{"Service", `spec: {type: clusterip, ports: [{port: 80}]}`, `spec.type: "clusterip" is unknown; write ClusterIP`},
		{"Service", `spec: {type: Ingress, ports: [{port: 80}]}`, `spec.type: "Ingress" is unknown; ClusterIP, NodePort, LoadBalancer or ExternalName is expected`},
		{"Service", `spec: {clusterIP: nope, ports: [{port: 80}]}`, `spec.clusterIP: "nope" is not an IP address; one is expected, or None, or nothing for one that is chosen`},
		{"Service", `spec: {clusterIP: none, ports: [{port: 80}]}`, `spec.clusterIP: "none" is unknown; write None`},
		{"Service", `spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2], ports: [{port: 80}]}`, `spec.clusterIPs[0]: "10.0.0.2" is another address than clusterIP, "10.0.0.1"`},
		{"Service", `spec: {type: NodePort, clusterIP: None, ports: [{port: 80}]}`, "spec.clusterIP: a Service of type NodePort cannot be without an address (None)"},
		{"Service", `spec: {sessionAffinity: Foo, ports: [{port: 80}]}`, `spec.sessionAffinity: "Foo" is unknown; None or ClientIP is expected`},
		{"Service", `spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 100000}}, ports: [{port: 80}]}`,
			"spec.sessionAffinityConfig.clientIP.timeoutSeconds: 100000 is out of range; 1 to 86400 is expected"},
		{"Service", `spec: {type: ExternalName}`, "spec.externalName: is missing; a Service of type ExternalName names a host"},
		{"Service", `spec: {type: ExternalName, externalName: "http://a.test"}`, `spec.externalName: "http://a.test" is not the name of a host; lower-case letters, digits, '-' and '.' are expected`},
		{"Service", `spec: {type: ExternalName, externalName: a.test, clusterIP: 10.0.0.1}`, "spec.clusterIP: a Service of type ExternalName has no address; leave it out"},
		{"Service", `spec: {externalIPs: [x], ports: [{port: 80}]}`, `spec.externalIPs[0]: "x" is not an IP address; the address is left out`},
		{"Service", `spec: {externalTrafficPolicy: Local, ports: [{port: 80}]}`, "spec.externalTrafficPolicy: means nothing for a Service that nobody reaches from outside; NodePort or LoadBalancer is expected as its type"},
		{"Service", `spec: {type: NodePort, externalTrafficPolicy: local, ports: [{port: 80}]}`, `spec.externalTrafficPolicy: "local" is unknown; write Local`},
		{"Service", `spec: {internalTrafficPolicy: Foo, ports: [{port: 80}]}`, `spec.internalTrafficPolicy: "Foo" is unknown; Cluster or Local is expected`},
		{"Service", `spec: {ipFamilies: [ipv4], ipFamilyPolicy: Dual, ports: [{port: 80}]}`,
			"spec.ipFamilies[0]: \"ipv4\" is unknown; write IPv4\nspec.ipFamilyPolicy: \"Dual\" is unknown; SingleStack, PreferDualStack or RequireDualStack is expected"},
		{"Service", `spec: {loadBalancerClass: a.b/c, ports: [{port: 80}]}`, "spec.loadBalancerClass: belongs to Services of type LoadBalancer only"},
		{"Service", `spec: {type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.1], ports: [{port: 80}]}`, `spec.loadBalancerSourceRanges[0]: "10.0.0.1" is not a network, as in 10.0.0.0/8`},
		{"Service", `spec: {selector: {app: "a b"}, ports: [{port: 80}]}`, `spec.selector.app: "a b" is not the value of a label`},

		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [192.0.2.1]}]`, ""},
		{"EndpointSlice", `addressType: IPv6, ports: [{port: 80}], endpoints: [{addresses: ["2001:db8::1"]}]`, ""},
		{"EndpointSlice", `addressType: FQDN, ports: [{port: 80}], endpoints: [{addresses: [a.example.org]}]`, ""},
		{"EndpointSlice", `addressType: IPv4, endpoints: []`, ""},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [127.0.0.1]}]`, ""}, // of this machine

		{"EndpointSlice", `ports: [{port: 80}], endpoints: [{addresses: [192.0.2.1]}]`, "addressType: is missing; IPv4, IPv6 or FQDN is expected"},
		{"EndpointSlice", `addressType: ipv4, ports: [{port: 80}], endpoints: [{addresses: [192.0.2.1]}]`, `addressType: "ipv4" is unknown; write IPv4`},
		{"EndpointSlice", `addressType: IP, ports: [{port: 80}], endpoints: [{addresses: [192.0.2.1]}]`, `addressType: "IP" is unknown; IPv4, IPv6 or FQDN is expected`},
		{"EndpointSlice", `addressType: IPv6, ports: [{port: 80}], endpoints: [{addresses: [127.0.0.1]}]`, `endpoints[0].addresses[0]: "127.0.0.1" is not an IPv6 address; IPv4 is expected as addressType`},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: ["2001:db8::1"]}]`, `endpoints[0].addresses[0]: "2001:db8::1" is not an IPv4 address; IPv6 is expected as addressType`},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [foo, 169.254.169.254, 0.0.0.0]}]`,
			"endpoints[0].addresses[0]: \"foo\" is not an IP address; the address is left out\n" +
				"endpoints[0].addresses[1]: \"169.254.169.254\" is a link-local address, which no Pod has; the address is left out\n" +
				"endpoints[0].addresses[2]: \"0.0.0.0\" is not the address of one endpoint; the address is left out"},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: []}]`, "endpoints[0].addresses: has 0 addresses; 1 to 100 are expected"},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [192.0.2.1], hostname: A.b}]`, `endpoints[0].hostname: "A.b" is not a name; at most 63 lower-case letters, digits and '-' are expected`},
		{"EndpointSlice", `addressType: FQDN, ports: [{port: 80}], endpoints: [{addresses: [nodomain]}]`, `endpoints[0].addresses[0]: "nodomain" is not the name of a host with a domain`},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 99999}], endpoints: [{addresses: [192.0.2.1]}]`, "ports[0].port: 99999 is not a port, so that no address of it is used; 1 to 65535 is expected"},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80}, {port: 81}], endpoints: [{addresses: [192.0.2.1]}]`, "ports[1].name: is missing; each of several ports has a name"},
		{"EndpointSlice", `addressType: IPv4, ports: [{name: a, port: 80}, {name: a, port: 81}], endpoints: [{addresses: [192.0.2.1]}]`, `ports[1].name: "a" is the name of another port already`},
		{"EndpointSlice", `addressType: IPv4, ports: [{port: 80, protocol: tcp}], endpoints: [{addresses: [192.0.2.1]}]`, `ports[0].protocol: "tcp" is unknown; write TCP`},

		{"Endpoints", `subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{port: 80}]}]`, ""},
		{"Endpoints", `subsets: [{addresses: [{ip: 192.0.2.1}]}]`, ""},
		{"Endpoints", `subsets: [{ports: [{port: 80}]}]`, "subsets[0]: has neither addresses nor notReadyAddresses"},
		{"Endpoints", `subsets: [{notReadyAddresses: [{ip: x, hostname: a.b}], ports: [{port: 0}, {port: 99999, protocol: tcp}]}]`,
			"subsets[0].notReadyAddresses[0].hostname: \"a.b\" is not a name; at most 63 lower-case letters, digits and '-' are expected\n" +
				"subsets[0].notReadyAddresses[0].ip: \"x\" is not an IP address; the address is left out\n" +
				"subsets[0].ports[0].name: is missing; each of several ports has a name\n" +
				"subsets[0].ports[0].port: 0 is not a port; 1 to 65535 is expected\n" +
				"subsets[0].ports[1].name: is missing; each of several ports has a name\n" +
				"subsets[0].ports[1].port: 99999 is not a port; 1 to 65535 is expected\n" +
				"subsets[0].ports[1].protocol: \"tcp\" is unknown; write TCP"},
	} {
		version, label := "v1", ""
		if test.kind == "EndpointSlice" {
			version, label = "discovery.k8s.io/v1", ", labels: {kubernetes.io/service-name: a}"
		}
		manifest := "{apiVersion: " + version + ", kind: " + test.kind + ", metadata: {name: a" + label + "},\n" + test.body + "}\n"
		if test.kind == "Endpoints" {
			manifest += "---\n{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}\n"
		}
		f, _ := text(t, "a.yaml", manifest)
		var told []string
		for _, p := range f.Problems() {
			line := 2
			if p.Field == "addressType" && strings.HasPrefix(p.Message, "is missing") {
				line = 1 // where the object begins
			}
			if p.Reason != controller.ReasonInvalid || p.Severity != controller.Error || p.Line != line {
				t.Errorf("%s: %s", manifest, p)
			}
			told = append(told, p.Field+": "+p.Message)
		}
		slices.Sort(told)
		if got := strings.Join(told, "\n"); got != test.want {
			t.Errorf("%s is told\n%s\nwant\n%s", manifest, got, test.want)
		}
	}
}
