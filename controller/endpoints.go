package controller

import (
	"cmp"
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
	ready    []located
	leaving  []located // terminating, but still serving: better than nobody, as kube-proxy has it
	unready  int
	names    []string // of the slices' ports of its protocol, where none is the one wanted
	problems []Problem
}

// endpointsOf are the addresses of a pool, with what is wrong about them. Known is false where they depend on something that
// nobody has found out yet; the pool keeps what it has then.
func (o *Options) endpointsOf(s *Snapshot, id upstream.ID) (addresses []netip.AddrPort, problems []Problem, known bool) {
	key := Key{id.Namespace, id.Service}
	service := s.Service(key)
	if address, ok := o.throughService(service, id); ok {
		return []netip.AddrPort{address}, nil, true
	}
	var port *corev1.ServicePort
	name, _ := portOf(id)
	names := []string{name}
	if service != nil {
		if port = poolPort(service, id); port != nil {
			names = append(names, strconv.Itoa(int(port.Port)))
		}
	}
	if mapped := o.mapped(key, names...); mapped != nil {
		return mapped, nil, true
	}
	if isExternal(service) {
		return o.externalEndpoints(s, service, id)
	}
	if port == nil {
		return nil, nil, true // the Ingresses have been told
	}
	var all found
	list := s.Slices(key)
	for _, slice := range list {
		o.collect(&all, slice, port)
	}
	zone := cmp.Or(o.Zone, s.zone)
	near := o.near(service, all.ready, zone)
	if len(near) == 0 {
		near = o.near(service, all.leaving, zone)
	}
	if len(near) == 0 {
		all.problems = append(all.problems, noEndpoints(key, port, len(list), &all))
	}
	return addressesOf(near), all.problems, true
}

// nameOf is the name that the endpoints of a pool depend on, empty where it is none that has to be asked for.
func (o *Options) nameOf(s *Snapshot, id upstream.ID) string {
	key := Key{id.Namespace, id.Service}
	service := s.Service(key)
	if !isExternal(service) || o.DisableExternalName || externalPort(service, id) == 0 {
		return ""
	}
	port, _ := portOf(id)
	name := service.Spec.ExternalName
	if isAddress(strings.TrimSuffix(name, ".")) || checkExternalName(name) != "" || o.mapped(key, port) != nil {
		return ""
	}
	return name
}

// collect adds the endpoints of a slice. Kubernetes ties a Service's port to those of its slices by name alone: the
// numbers are those of the Pods, and differ from slice to slice when targetPort is a name.
func (o *Options) collect(all *found, slice *discoveryv1.EndpointSlice, port *corev1.ServicePort) {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return // no addresses in it, and deprecated
	}
	for _, p := range slice.Ports {
		if !sameProtocol(p.Protocol, port.Protocol) {
			continue
		}
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name != port.Name {
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
			all.ready = add(all.ready, located{netip.AddrPortFrom(address, port), e.Hints})
		case leaving:
			all.leaving = add(all.leaving, located{netip.AddrPortFrom(address, port), e.Hints})
		default:
			all.unready++
		}
	}
}

// add appends an address that is not there yet. Beyond a few hundred the pool, which drops doubles too, does it faster.
func add(all []located, one located) []located {
	if len(all) < 256 && slices.ContainsFunc(all, func(l located) bool { return l.address == one.address }) {
		return all
	}
	return append(all, one)
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
	name, so := portName(port), answered503
	if !isTCP(port.Protocol) {
		so = datagramsDropped
	}
	switch {
	case sliceCount == 0:
		p.Field = ""
		p.Message = "has no EndpointSlice (none has the label " + discoveryv1.LabelServiceName + ": " + service.Name + "); " + so
	case all.unready > 0:
		// How many there are is another number at every start of a Pod: the same problem, which is to be told once.
		p.Message = fmt.Sprintf("no endpoint of port %q is ready; %s", name, so)
	case len(all.names) > 0:
		p.Message = fmt.Sprintf("port %q has no endpoints: its EndpointSlices have ports named %s, and %q is expected; %s", name, quoted(all.names), port.Name, so)
	default:
		p.Message = fmt.Sprintf("port %q has no endpoints; %s", name, so)
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
