package controller

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// A located is an endpoint, with the word of the control plane on whom it is for: hints on nodes and zones. Nil: none.
type located struct {
	address netip.AddrPort
	hints   *discoveryv1.EndpointHints
}

// near leaves, of the endpoints of a Service that asks for it, those that are meant for this process: for its node, else for
// its zone, else all. As kube-proxy has it, hints count only while every endpoint has some, and while one of them is meant
// for here: a Service that is being scaled is better served far away than by nobody.
func (o *Options) near(service *corev1.Service, all []located, zone string) []located {
	if !o.Topology || len(all) == 0 || !prefersNear(service) {
		return all
	}
	for _, here := range []func(*discoveryv1.EndpointHints) (hinted, here bool){
		func(h *discoveryv1.EndpointHints) (bool, bool) {
			return len(h.ForNodes) > 0, slices.ContainsFunc(h.ForNodes, func(n discoveryv1.ForNode) bool { return n.Name == o.Node && o.Node != "" })
		},
		func(h *discoveryv1.EndpointHints) (bool, bool) {
			return len(h.ForZones) > 0, slices.ContainsFunc(h.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == zone && zone != "" })
		},
	} {
		if some := meantForHere(all, here); len(some) > 0 {
			return some
		}
	}
	return all
}

// meantForHere are the endpoints whose hints are for here; none while one has no hints of that kind.
func meantForHere(all []located, here func(*discoveryv1.EndpointHints) (hinted, here bool)) []located {
	var some []located
	for _, one := range all {
		if one.hints == nil {
			return nil
		}
		hinted, meant := here(one.hints)
		if !hinted {
			return nil
		}
		if meant {
			some = append(some, one)
		}
	}
	return some
}

// prefersNear reports whether a Service asks for endpoints that are near, by its field or by the annotations before it.
func prefersNear(service *corev1.Service) bool {
	if service.Spec.TrafficDistribution != nil {
		return true
	}
	for _, name := range []string{corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints} {
		if strings.EqualFold(service.Annotations[name], "auto") {
			return true
		}
	}
	return false
}

func addressesOf(all []located) []netip.AddrPort {
	if len(all) == 0 {
		return nil
	}
	addresses := make([]netip.AddrPort, len(all))
	for i, one := range all {
		addresses[i] = one.address
	}
	return addresses
}
