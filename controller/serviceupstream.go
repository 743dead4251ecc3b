package controller

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"sallyport/proxy/upstream"
)

// What an Ingress with service-upstream asks for goes to the one address of the Service itself, from where a service mesh or
// kube-proxy takes it to a Pod (reference A6). That is a pool of its own: another Ingress may lead to the Pods of the same
// port.

// throughMark ends the port of a pool that leads to the Service itself, as metrics and pages show it. No port is named so.
const throughMark = "@service"

// through leads to the Service itself in place of its endpoints. Where that has no address, the endpoints stay, with a
// problem.
func (o *Options) through(s *Snapshot, to target) target {
	if to.id == (upstream.ID{}) || strings.HasSuffix(to.id.Port, throughMark) {
		return to
	}
	key := Key{to.id.Namespace, to.id.Service}
	service := s.Service(key)
	id := to.id
	id.Port += throughMark
	if service == nil {
		return to
	}
	port := poolPort(service, to.id)
	switch {
	case port == nil && !isExternal(service),
		o.mapped(key, to.id.Port) != nil, port != nil && o.mapped(key, strconv.Itoa(int(port.Port))) != nil:
		return to // --map says where it leads
	}
	if _, ok := o.throughService(service, id); ok {
		to.id = id
		return to
	}
	if to.reason == "" {
		to.reason, to.severity, to.field = ReasonUnsupportedBackend, Warning, "name"
		to.message = fmt.Sprintf("Service %q has no cluster IP that service-upstream could lead to; its endpoints are used", key.Name)
	}
	return to
}

// throughService is where a pool leads that is for the Service itself. Not ok: it is not, or the Service has no address.
func (o *Options) throughService(service *corev1.Service, id upstream.ID) (at netip.AddrPort, ok bool) {
	port, ok := strings.CutSuffix(id.Port, throughMark)
	if !ok || service == nil || isExternal(service) {
		return at, false
	}
	id.Port = port
	p := poolPort(service, id)
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if p == nil || err != nil {
		return at, false
	}
	if _, fault := o.parseAddress(service.Spec.ClusterIP); fault != "" {
		return at, false
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(p.Port)), true
}
