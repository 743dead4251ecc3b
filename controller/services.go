package controller

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"sallyport/proxy/upstream"
)

// A target is where a backend leads: a pool, or nowhere and why. Targets are comparable, so that an Ingress need not be
// translated again because a Service changed in a way that leads to the same place.
type target struct {
	id       upstream.ID // zero: nowhere
	reason   string      // of the problem; empty: there is none
	severity Severity
	field    string // of the problem, below the backend's service: "name", "port"
	message  string

	protocol upstream.Protocol // that the Service says its endpoints speak
	plain    bool              // it says HTTP/2, and nothing of gRPC
	unspoken string            // what it says they speak, where that is nothing we do

	stay time.Duration // after its last request, that the Service keeps a client at an endpoint; zero: it does not
}

// resolve finds the pool of a valid backend.
func (o *Options) resolve(s *Snapshot, namespace string, backend *networkingv1.IngressServiceBackend) target {
	key, wanted := Key{namespace, backend.Name}, portText(backend.Port)
	service := s.Service(key)
	if backend.Port == (networkingv1.ServiceBackendPort{}) {
		return o.firstOf(key, service)
	}
	if service == nil {
		if o.mapped(key, wanted) != nil {
			return target{id: poolID(key, wanted)}
		}
		return nowhere(ReasonServiceNotFound, "name", "no Service is named %q in namespace %q; its requests are answered 503", key.Name, namespace)
	}
	port, byTarget := findPort(service, wanted)
	switch {
	case port == nil && o.mapped(key, wanted) != nil:
		return target{id: poolID(key, wanted)}
	case port != nil && o.mapped(key, wanted, portName(port), port.Name, strconv.Itoa(int(port.Port))) != nil:
		return target{id: poolID(key, portName(port))}.speaking(port)
	case isExternal(service):
		return o.resolveExternal(key, service, wanted, portField(backend.Port))
	case port == nil:
		return nowhere(ReasonPortNotFound, portField(backend.Port), "Service %q has no port %q; it has %s", key.Name, wanted, describePorts(service))
	case !isTCP(port.Protocol):
		return nowhere(ReasonUnsupportedBackend, portField(backend.Port), "port %q of Service %q is %s; an Ingress needs TCP", wanted, key.Name, port.Protocol)
	}
	found := target{id: poolID(key, portName(port))}.speaking(port).keeping(service)
	if byTarget {
		found.reason, found.severity, found.field = ReasonPortNotFound, Warning, portField(backend.Port)
		found.message = fmt.Sprintf("%q is a target port of Service %q; it is served, but Kubernetes asks for the Service's own port here: it has %s", wanted, key.Name, describePorts(service))
	}
	return found
}

// firstOf leads to the first TCP port of a Service, nil where there is none.
func (o *Options) firstOf(key Key, service *corev1.Service) target {
	if service == nil {
		if port, ok := o.firstMapped(key); ok {
			return target{id: poolID(key, port)}
		}
		return target{}
	}
	port := firstPort(service, func(p *corev1.ServicePort) bool { return isTCP(p.Protocol) })
	if port == nil || isExternal(service) && o.DisableExternalName {
		return target{}
	}
	return target{id: poolID(key, portName(port))}.speaking(port).keeping(service)
}

// firstMapped is the port of a Service that Options.Map has, the smallest where there are several.
func (o *Options) firstMapped(key Key) (port string, ok bool) {
	for at := range o.Map {
		if at.Service == key && (!ok || at.Port < port) {
			port, ok = at.Port, true
		}
	}
	return port, ok
}

func nowhere(reason, field, format string, a ...any) target {
	return target{reason: reason, severity: Error, field: field, message: fmt.Sprintf(format, a...)}
}

// findPort finds a port by its number or name, as the Ingress API has it, else by targetPort, which ingress-nginx takes
// too (reference A6). Of two ports with one number the one over TCP is meant.
func findPort(service *corev1.Service, wanted string) (port *corev1.ServicePort, byTarget bool) {
	byPort := func(p *corev1.ServicePort) bool { return p.Name == wanted || strconv.Itoa(int(p.Port)) == wanted }
	byTargetPort := func(p *corev1.ServicePort) bool { return isTCP(p.Protocol) && p.TargetPort.String() == wanted }
	onlyTCP := func(p *corev1.ServicePort) bool { return isTCP(p.Protocol) && byPort(p) }
	for _, matches := range []func(*corev1.ServicePort) bool{onlyTCP, byPort} {
		if port := firstPort(service, matches); port != nil {
			return port, false
		}
	}
	port = firstPort(service, byTargetPort)
	return port, port != nil
}

func firstPort(service *corev1.Service, matches func(*corev1.ServicePort) bool) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		if matches(&service.Spec.Ports[i]) {
			return &service.Spec.Ports[i]
		}
	}
	return nil
}

// poolPort is the port of a Service that a pool belongs to; nil when it is gone.
func poolPort(service *corev1.Service, id upstream.ID) *corev1.ServicePort {
	name, protocol := portOf(id)
	return firstPort(service, func(p *corev1.ServicePort) bool { return sameProtocol(&p.Protocol, protocol) && portName(p) == name })
}

func isTCP(protocol corev1.Protocol) bool { return protocol == "" || protocol == corev1.ProtocolTCP }

func poolID(service Key, port string) upstream.ID {
	return upstream.ID{Namespace: service.Namespace, Service: service.Name, Port: port}
}

// portName is a Service port's name, or its number where it has none.
func portName(p *corev1.ServicePort) string {
	if p.Name != "" {
		return p.Name
	}
	return strconv.Itoa(int(p.Port))
}

// portText is a port as an Ingress names it.
func portText(p networkingv1.ServiceBackendPort) string {
	if p.Name != "" {
		return p.Name
	}
	return strconv.Itoa(int(p.Number))
}

func portField(p networkingv1.ServiceBackendPort) string {
	if p.Name != "" {
		return "port.name"
	}
	return "port.number"
}

// describePorts lists the ports of a Service: `80 "http", 8443 "admin", 53/UDP`.
func describePorts(service *corev1.Service) string {
	if len(service.Spec.Ports) == 0 {
		return "no ports"
	}
	var all []string
	for _, p := range service.Spec.Ports {
		text := strconv.Itoa(int(p.Port))
		if !isTCP(p.Protocol) {
			text += "/" + string(p.Protocol)
		}
		if p.Name != "" {
			text += fmt.Sprintf(" %q", p.Name)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// mapped returns the addresses that Options.Map has for a Service and any of the names of its port; nil: none.
func (o *Options) mapped(service Key, ports ...string) []netip.AddrPort {
	if len(o.Map) == 0 {
		return nil
	}
	for _, port := range append(ports, "") {
		if addresses := o.Map[MapKey{service, port}]; len(addresses) > 0 {
			return addresses
		}
	}
	return nil
}
