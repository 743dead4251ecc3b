package manifests

//lint:file-ignore SA1019 v1 Endpoints are deprecated on clusters, and read from manifests for as long as people have them.

import (
	"fmt"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mirrorName comes between the name of an Endpoints object and a number in the names of the slices made of it.
const mirrorName = "-mirrored-"

// mirrored makes EndpointSlices of v1 Endpoints the way the mirroring controller of a cluster does: one per subset and
// address family, with the label that names the Service, ready and not ready addresses with their condition.
// (kubernetes.io/docs/concepts/services-networking/endpoint-slices, "EndpointSlice mirroring")
func mirrored(endpoints *corev1.Endpoints) []metav1.Object {
	objects := []metav1.Object{}
	if endpoints.Labels["endpointslice.kubernetes.io/skip-mirror"] == "true" {
		return objects
	}
	for _, m := range mirrors(endpoints) {
		objects = append(objects, m.slice)
	}
	return objects
}

// A mirror is a slice made of Endpoints, and where in them each of its endpoints is written.
type mirror struct {
	slice  *discoveryv1.EndpointSlice
	places []string
}

func mirrors(endpoints *corev1.Endpoints) []mirror {
	var made []mirror
	for i, subset := range endpoints.Subsets {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			m := mirror{slice: &discoveryv1.EndpointSlice{AddressType: family, Ports: slicePorts(subset.Ports)}}
			m.add(subset.Addresses, family, true, fmt.Sprintf("subsets[%d].addresses", i))
			m.add(subset.NotReadyAddresses, family, false, fmt.Sprintf("subsets[%d].notReadyAddresses", i))
			if len(m.slice.Endpoints) == 0 {
				continue
			}
			made = append(made, m)
			m.slice.Name = endpoints.Name + mirrorName + strconv.Itoa(len(made))
			m.slice.Namespace = endpoints.Namespace
			m.slice.Labels = map[string]string{
				discoveryv1.LabelServiceName: endpoints.Name,
				discoveryv1.LabelManagedBy:   "endpointslicemirroring-controller.k8s.io",
			}
		}
	}
	return made
}

func slicePorts(ports []corev1.EndpointPort) []discoveryv1.EndpointPort {
	var made []discoveryv1.EndpointPort
	for _, p := range ports {
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		made = append(made, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return made
}

// add takes in the addresses of one family, written at place.
func (m *mirror) add(addresses []corev1.EndpointAddress, family discoveryv1.AddressType, ready bool, place string) {
	for i, a := range addresses {
		ip, err := netip.ParseAddr(a.IP)
		isIPv6 := err == nil && ip.Is6() && !ip.Is4In6()
		if isIPv6 != (family == discoveryv1.AddressTypeIPv6) {
			continue // what is no address at all stays with IPv4, where the builder reports it
		}
		e := discoveryv1.Endpoint{
			Addresses:  []string{a.IP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			NodeName:   a.NodeName,
			TargetRef:  a.TargetRef,
		}
		if a.Hostname != "" {
			e.Hostname = &a.Hostname
		}
		m.slice.Endpoints = append(m.slice.Endpoints, e)
		m.places = append(m.places, fmt.Sprintf("%s[%d].ip", place, i))
	}
}

// placeInEndpoints is where in an Endpoints object a field of a slice made of it is written; "" when nowhere.
func placeInEndpoints(e *entry, slice, field string) string {
	endpoints, ok := e.from.(*corev1.Endpoints)
	path := steps(field)
	if !ok || len(path) < 2 || path[0] != "endpoints" {
		return ""
	}
	for _, m := range mirrors(endpoints) {
		if i, err := strconv.Atoi(path[1]); err == nil && m.slice.Name == slice && i >= 0 && i < len(m.places) {
			return m.places[i]
		}
	}
	return ""
}
