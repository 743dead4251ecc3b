package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"sallyport/proxy/upstream"
)

// A found is what the EndpointSlices of a Service say about one of its ports.
type found struct {
	ready    []netip.AddrPort
	leaving  []netip.AddrPort // terminating, but still serving: better than nobody, as kube-proxy has it
	unready  int
	names    []string // of the slices' TCP ports, where none is the one wanted
	problems []Problem
}

// endpointsOf are the addresses of a pool, with what is wrong about them.
func (o *Options) endpointsOf(s *Snapshot, id upstream.ID) ([]netip.AddrPort, []Problem) {
	key := Key{id.Namespace, id.Service}
	service := s.Service(key)
	var port *corev1.ServicePort
	names := []string{id.Port}
	if service != nil {
		if port = poolPort(service, id); port != nil {
			names = append(names, strconv.Itoa(int(port.Port)))
		}
	}
	if mapped := o.mapped(key, names...); mapped != nil {
		return mapped, nil
	}
	if port == nil {
		return nil, nil // the Ingresses have been told
	}
	var all found
	list := s.Slices(key)
	for _, slice := range list {
		o.collect(&all, slice, port.Name)
	}
	addresses := all.ready
	if len(addresses) == 0 {
		addresses = all.leaving
	}
	if len(addresses) == 0 {
		all.problems = append(all.problems, noEndpoints(key, port, len(list), &all))
	}
	return addresses, all.problems
}

// collect adds the endpoints of a slice. Kubernetes ties a Service's port to those of its slices by name alone: the
// numbers are those of the Pods, and differ from slice to slice when targetPort is a name.
func (o *Options) collect(all *found, slice *discoveryv1.EndpointSlice, port string) {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return // no addresses in it, and deprecated
	}
	for _, p := range slice.Ports {
		if p.Protocol != nil && !isTCP(*p.Protocol) {
			continue
		}
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name != port {
			all.names = append(all.names, name)
			continue
		}
		if p.Port == nil || *p.Port < 1 || *p.Port > 65535 {
			continue // no port: "all ports", which says nothing about where to connect
		}
		for i := range slice.Endpoints {
			o.collectEndpoint(all, slice, i, uint16(*p.Port))
		}
	}
}

// collectEndpoint adds the addresses of one endpoint. An unknown condition counts as ready, as the API has it.
func (o *Options) collectEndpoint(all *found, slice *discoveryv1.EndpointSlice, i int, port uint16) {
	e := &slice.Endpoints[i]
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	serving := e.Conditions.Serving != nil && *e.Conditions.Serving
	leaving := serving && e.Conditions.Terminating != nil && *e.Conditions.Terminating
	for j, text := range e.Addresses {
		address, err := o.parseAddress(text)
		switch {
		case err != "":
			all.problems = append(all.problems, Problem{
				Object:   Ref{"EndpointSlice", slice.Namespace, slice.Name},
				Severity: Error, Reason: ReasonInvalid,
				Field:   fmt.Sprintf("endpoints[%d].addresses[%d]", i, j),
				Message: fmt.Sprintf("%q %s; the address is left out", text, err),
			})
		case ready:
			all.ready = add(all.ready, netip.AddrPortFrom(address, port))
		case leaving:
			all.leaving = add(all.leaving, netip.AddrPortFrom(address, port))
		default:
			all.unready++
		}
	}
}

// add appends an address that is not there yet. Beyond a few hundred the pool, which drops doubles too, does it faster.
func add(all []netip.AddrPort, address netip.AddrPort) []netip.AddrPort {
	if len(all) < 256 && slices.Contains(all, address) {
		return all
	}
	return append(all, address)
}

// parseAddress takes what an API server takes in an EndpointSlice (ValidateNonSpecialIP), and says in words what is wrong
// with anything else. Whoever may write a slice could reach with a special address what only this machine can: its own
// admin port, the metadata service of a cloud.
func (o *Options) parseAddress(text string) (netip.Addr, string) {
	address, err := netip.ParseAddr(text)
	address = address.Unmap()
	switch {
	case err != nil:
		return address, "is not an IP address"
	case address.Zone() != "" || address.IsUnspecified():
		return address, "is not the address of one endpoint"
	case address.IsLoopback() && !o.AllowLoopback:
		return address, "is a loopback address, which leads to this machine"
	case address.IsLinkLocalUnicast():
		return address, "is a link-local address, which no Pod has"
	case address.IsMulticast():
		return address, "is a multicast address, which no Pod has"
	}
	return address, ""
}

func noEndpoints(service Key, port *corev1.ServicePort, sliceCount int, all *found) Problem {
	p := Problem{Object: Ref{"Service", service.Namespace, service.Name}, Severity: Warning, Reason: ReasonNoEndpoints, Field: "spec.ports"}
	name := portName(port)
	switch {
	case sliceCount == 0:
		p.Field = ""
		p.Message = "has no EndpointSlice (none has the label " + discoveryv1.LabelServiceName + ": " + service.Name + "); its requests are answered 503"
	case all.unready > 0:
		// How many there are is another number at every start of a Pod: the same problem, which is to be told once.
		p.Message = fmt.Sprintf("no endpoint of port %q is ready; its requests are answered 503", name)
	case len(all.names) > 0:
		p.Message = fmt.Sprintf("port %q has no endpoints: its EndpointSlices have ports named %s, and %q is expected; its requests are answered 503", name, quoted(all.names), port.Name)
	default:
		p.Message = fmt.Sprintf("port %q has no endpoints; its requests are answered 503", name)
	}
	return p
}

func quoted(names []string) string {
	slices.Sort(names)
	var all []string
	for _, name := range slices.Compact(names) {
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}
