package manifests

//lint:file-ignore SA1019 v1 Endpoints are deprecated on clusters, and read from manifests for as long as people have them.

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	paths "k8s.io/apimachinery/pkg/util/validation/field"
)

// What an API server refuses in a Service and in what gives it addresses (pkg/apis/core/validation and
// pkg/apis/discovery/validation of Kubernetes) is found here, whether or not an Ingress uses the object: a cluster would
// not have it. What can be served of it is. The values of an Ingress are judged where tables are built, because a cluster
// may hold old ones.
//
// Two rules differ. A loopback address is good in a folder, whose writer also starts the process; and the port of an
// EndpointSlice, whose number an API server does not look at, must be one.

// A refusal is a value that an API server does not take.
type refusal struct{ field, message string }

// An examiner collects refusals.
type examiner struct{ refusals []refusal }

// refused are the values of an object with its defaults that an API server does not take.
func refused(o metav1.Object) []refusal {
	x := new(examiner)
	switch o := o.(type) {
	case *corev1.Service:
		x.service(&o.Spec)
	case *discoveryv1.EndpointSlice:
		x.slice(o)
	case *corev1.Endpoints:
		x.endpoints(o)
	}
	return x.refusals
}

func (x *examiner) refuse(path, format string, a ...any) {
	x.refusals = append(x.refusals, refusal{path, fmt.Sprintf(format, a...)})
}

func (x *examiner) service(s *corev1.ServiceSpec) {
	x.oneOf("spec.type", string(s.Type), "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
	x.oneOf("spec.sessionAffinity", string(s.SessionAffinity), "None", "ClientIP")
	if c := s.SessionAffinityConfig; s.SessionAffinity == corev1.ServiceAffinityClientIP && c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		if seconds := *c.ClientIP.TimeoutSeconds; seconds < 1 || seconds > 86400 {
			x.refuse("spec.sessionAffinityConfig.clientIP.timeoutSeconds", "%d is out of range; 1 to 86400 is expected", seconds)
		}
	}
	for i, ip := range s.ExternalIPs {
		x.endpointIP(fmt.Sprintf("spec.externalIPs[%d]", i), ip)
	}
	for key, value := range s.Selector {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			x.refuse(keyPath("spec.selector", key), "%q is not the value of a label", value)
		}
	}
	x.serviceAddresses(s)
	x.servicePolicies(s)
	x.servicePorts(s)
	x.loadBalancer(s)
}

func (x *examiner) serviceAddresses(s *corev1.ServiceSpec) {
	headless := s.ClusterIP == corev1.ClusterIPNone || len(s.ClusterIPs) > 0 && s.ClusterIPs[0] == corev1.ClusterIPNone
	switch s.Type {
	case corev1.ServiceTypeExternalName:
		if s.ClusterIP != "" || len(s.ClusterIPs) > 0 {
			x.refuse("spec.clusterIP", "a Service of type ExternalName has no address; leave it out")
		}
		switch name := strings.TrimSuffix(s.ExternalName, "."); {
		case name == "":
			x.refuse("spec.externalName", "is missing; a Service of type ExternalName names a host")
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			x.refuse("spec.externalName", "%q is not the name of a host; lower-case letters, digits, '-' and '.' are expected", name)
		}
		return
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if headless {
			x.refuse("spec.clusterIP", "a Service of type %s cannot be without an address (None)", s.Type)
		}
	}
	if s.ClusterIP != "" {
		x.clusterIP("spec.clusterIP", s.ClusterIP)
	}
	switch {
	case len(s.ClusterIPs) > 2:
		x.refuse("spec.clusterIPs", "has %d addresses; two at most are expected, one of IPv4 and one of IPv6", len(s.ClusterIPs))
	case len(s.ClusterIPs) > 0 && s.ClusterIP != "" && s.ClusterIPs[0] != s.ClusterIP:
		x.refuse("spec.clusterIPs[0]", "%q is another address than clusterIP, %q", s.ClusterIPs[0], s.ClusterIP)
	case len(s.ClusterIPs) > 1 && headless:
		x.refuse("spec.clusterIPs", "None stands alone")
	default:
		for i, ip := range s.ClusterIPs {
			x.clusterIP(fmt.Sprintf("spec.clusterIPs[%d]", i), ip)
		}
	}
}

func (x *examiner) clusterIP(path, ip string) {
	if _, err := netip.ParseAddr(ip); err == nil || ip == corev1.ClusterIPNone {
		return
	}
	if strings.EqualFold(ip, corev1.ClusterIPNone) {
		x.refuse(path, "%q is unknown; write None", ip)
		return
	}
	x.refuse(path, "%q is not an IP address; one is expected, or None, or nothing for one that is chosen", ip)
}

func (x *examiner) servicePolicies(s *corev1.ServiceSpec) {
	for i, family := range s.IPFamilies {
		x.oneOf(fmt.Sprintf("spec.ipFamilies[%d]", i), string(family), "IPv4", "IPv6")
	}
	if s.IPFamilyPolicy != nil {
		x.oneOf("spec.ipFamilyPolicy", string(*s.IPFamilyPolicy), "SingleStack", "PreferDualStack", "RequireDualStack")
	}
	if s.InternalTrafficPolicy != nil {
		x.oneOf("spec.internalTrafficPolicy", string(*s.InternalTrafficPolicy), "Cluster", "Local")
	}
	if s.TrafficDistribution != nil {
		x.oneOf("spec.trafficDistribution", *s.TrafficDistribution, "PreferClose", "PreferSameZone", "PreferSameNode")
	}
	outside := s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer || len(s.ExternalIPs) > 0
	switch policy := string(s.ExternalTrafficPolicy); {
	case policy != "" && !outside:
		x.refuse("spec.externalTrafficPolicy", "means nothing for a Service that nobody reaches from outside; NodePort or LoadBalancer is expected as its type")
	case policy != "":
		x.oneOf("spec.externalTrafficPolicy", policy, "Cluster", "Local")
	}
}

func (x *examiner) servicePorts(s *corev1.ServiceSpec) {
	if len(s.Ports) == 0 && s.ClusterIP != corev1.ClusterIPNone && s.Type != corev1.ServiceTypeExternalName {
		x.refuse("spec.ports", "is missing or empty; one port at least is expected, unless clusterIP is None")
	}
	names := make(map[string]bool)
	ports, nodePorts := make(map[string]bool), make(map[string]bool)
	for i := range s.Ports {
		p, path := &s.Ports[i], fmt.Sprintf("spec.ports[%d]", i)
		x.portName(path, p.Name, len(s.Ports) > 1, names)
		x.port(path+".port", p.Port)
		x.protocol(path, p.Protocol)
		x.appProtocol(path, p.AppProtocol)
		if p.TargetPort.Type == intstr.String {
			if len(validation.IsValidPortName(p.TargetPort.StrVal)) > 0 {
				x.refuse(path+".targetPort", "%q is not the name of a port; at most 15 lower-case letters, digits and '-' are expected, a letter among them", p.TargetPort.StrVal)
			}
		} else if p.TargetPort.IntVal != p.Port { // which it is by default
			x.port(path+".targetPort", p.TargetPort.IntVal)
		}
		if key := fmt.Sprint(p.Port, p.Protocol); ports[key] {
			x.refuse(path+".port", "%d/%s is there already", p.Port, p.Protocol)
		} else {
			ports[key] = true
		}
		if p.NodePort == 0 {
			continue
		}
		if key := fmt.Sprint(p.NodePort, p.Protocol); nodePorts[key] {
			x.refuse(path+".nodePort", "%d/%s is there already", p.NodePort, p.Protocol)
		} else {
			nodePorts[key] = true
		}
		x.port(path+".nodePort", p.NodePort)
		if s.Type == corev1.ServiceTypeClusterIP {
			x.refuse(path+".nodePort", "a Service of type ClusterIP has none; NodePort or LoadBalancer is expected as its type")
		}
	}
}

// loadBalancer judges what only a Service of that type may have.
func (x *examiner) loadBalancer(s *corev1.ServiceSpec) {
	for i, text := range s.LoadBalancerSourceRanges {
		if _, err := netip.ParsePrefix(strings.TrimSpace(text)); err != nil {
			x.refuse(fmt.Sprintf("spec.loadBalancerSourceRanges[%d]", i), "%q is not a network, as in 10.0.0.0/8", text)
		}
	}
	if c := s.LoadBalancerClass; c != nil && len(validation.IsQualifiedName(*c)) > 0 {
		x.refuse("spec.loadBalancerClass", "%q is not the name of a class, as in example.org/internal", *c)
	}
	if s.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	const only = "belongs to Services of type LoadBalancer only"
	if len(s.LoadBalancerSourceRanges) > 0 {
		x.refuse("spec.loadBalancerSourceRanges", only)
	}
	if s.LoadBalancerClass != nil {
		x.refuse("spec.loadBalancerClass", only)
	}
	if s.AllocateLoadBalancerNodePorts != nil {
		x.refuse("spec.allocateLoadBalancerNodePorts", only)
	}
	if s.HealthCheckNodePort != 0 {
		x.refuse("spec.healthCheckNodePort", only+", with externalTrafficPolicy Local")
	}
}

func (x *examiner) slice(s *discoveryv1.EndpointSlice) {
	if s.AddressType == "" {
		x.refuse("addressType", "is missing; IPv4, IPv6 or FQDN is expected")
	} else {
		x.oneOf("addressType", string(s.AddressType), "IPv4", "IPv6", "FQDN")
	}
	if len(s.Endpoints) > 1000 {
		x.refuse("endpoints", "has %d entries; 1000 at most are expected: make several EndpointSlices", len(s.Endpoints))
	}
	for i := range s.Endpoints {
		e, path := &s.Endpoints[i], fmt.Sprintf("endpoints[%d]", i)
		if n := len(e.Addresses); n == 0 || n > 100 {
			x.refuse(path+".addresses", "has %d addresses; 1 to 100 are expected", n)
		}
		for k, address := range e.Addresses {
			x.sliceAddress(fmt.Sprintf("%s.addresses[%d]", path, k), address, s.AddressType)
		}
		if e.Hostname != nil {
			x.label(path+".hostname", *e.Hostname)
		}
	}
	names := make(map[string]bool)
	for i := range s.Ports {
		p, path := &s.Ports[i], fmt.Sprintf("ports[%d]", i)
		if p.Name != nil { // which it is not only in a slice that nobody gave its defaults
			x.portName(path, *p.Name, len(s.Ports) > 1 && names[""], names)
		}
		if p.Port != nil && (*p.Port < 1 || *p.Port > 65535) {
			x.refuse(path+".port", "%d is not a port, so that no address of it is used; 1 to 65535 is expected", *p.Port)
		}
		if p.Protocol != nil {
			x.protocol(path, *p.Protocol)
		}
		x.appProtocol(path, p.AppProtocol)
	}
}

func (x *examiner) sliceAddress(path, address string, family discoveryv1.AddressType) {
	if family == discoveryv1.AddressTypeFQDN {
		if len(validation.IsFullyQualifiedDomainName(paths.NewPath(""), address)) > 0 {
			x.refuse(path, "%q is not the name of a host with a domain", address)
		}
		return
	}
	ip, ok := x.endpointIP(path, address)
	switch {
	case ok && family == discoveryv1.AddressTypeIPv4 && !ip.Unmap().Is4():
		x.refuse(path, "%q is not an IPv4 address; IPv6 is expected as addressType", address)
	case ok && family == discoveryv1.AddressTypeIPv6 && !ip.Is6():
		x.refuse(path, "%q is not an IPv6 address; IPv4 is expected as addressType", address)
	}
}

func (x *examiner) endpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		s, path := &e.Subsets[i], fmt.Sprintf("subsets[%d]", i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			x.refuse(path, "has neither addresses nor notReadyAddresses")
		}
		for k, a := range s.Addresses {
			x.endpointAddress(fmt.Sprintf("%s.addresses[%d]", path, k), a)
		}
		for k, a := range s.NotReadyAddresses {
			x.endpointAddress(fmt.Sprintf("%s.notReadyAddresses[%d]", path, k), a)
		}
		names := make(map[string]bool)
		for k, p := range s.Ports {
			port := fmt.Sprintf("%s.ports[%d]", path, k)
			if p.Name != "" || len(s.Ports) > 1 {
				x.portName(port, p.Name, true, names)
			}
			x.port(port+".port", p.Port)
			if p.Protocol != "" {
				x.protocol(port, p.Protocol)
			}
			x.appProtocol(port, p.AppProtocol)
		}
	}
}

func (x *examiner) endpointAddress(path string, a corev1.EndpointAddress) {
	x.endpointIP(path+".ip", a.IP)
	if a.Hostname != "" {
		x.label(path+".hostname", a.Hostname)
	}
}

// endpointIP judges the address of an endpoint.
func (x *examiner) endpointIP(path, text string) (netip.Addr, bool) {
	const leftOut = "; the address is left out"
	ip, err := netip.ParseAddr(text)
	switch plain := ip.Unmap(); {
	case err != nil || ip.Zone() != "":
		x.refuse(path, "%q is not an IP address"+leftOut, text)
		return ip, false
	case plain.IsUnspecified():
		x.refuse(path, "%q is not the address of one endpoint"+leftOut, text)
	case plain.IsLinkLocalUnicast():
		x.refuse(path, "%q is a link-local address, which no Pod has"+leftOut, text)
	case plain.IsLinkLocalMulticast():
		x.refuse(path, "%q is a multicast address, which no Pod has"+leftOut, text)
	}
	return ip, true
}

// portName judges the name of one of several ports, which no other of them may have.
func (x *examiner) portName(path, name string, required bool, names map[string]bool) {
	switch {
	case name == "" && required:
		x.refuse(path+".name", "is missing; each of several ports has a name")
	case name != "" && names[name]:
		x.refuse(path+".name", "%q is the name of another port already", name)
	case name != "":
		x.label(path+".name", name)
	}
	names[name] = true
}

func (x *examiner) label(path, name string) {
	if len(validation.IsDNS1123Label(name)) > 0 {
		x.refuse(path, "%q is not a name; at most 63 lower-case letters, digits and '-' are expected", name)
	}
}

func (x *examiner) port(path string, port int32) {
	if port < 1 || port > 65535 {
		x.refuse(path, "%s is not a port; 1 to 65535 is expected", strconv.Itoa(int(port)))
	}
}

func (x *examiner) protocol(path string, protocol corev1.Protocol) {
	x.oneOf(path+".protocol", string(protocol), "TCP", "UDP", "SCTP")
}

func (x *examiner) appProtocol(path string, protocol *string) {
	if protocol != nil && len(validation.IsQualifiedName(*protocol)) > 0 {
		x.refuse(path+".appProtocol", "%q is not the name of a protocol, as in http or kubernetes.io/h2c", *protocol)
	}
}

// oneOf judges a value that is one of a few words.
func (x *examiner) oneOf(path, value string, words ...string) {
	for _, word := range words {
		switch {
		case word == value:
			return
		case strings.EqualFold(word, value):
			x.refuse(path, "%q is unknown; write %s", value, word)
			return
		}
	}
	last := len(words) - 1
	x.refuse(path, "%q is unknown; %s or %s is expected", value, strings.Join(words[:last], ", "), words[last])
}
