package manifests

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// An API server of those days stored every version of an Ingress as one thing and served it as any other. What is done
// here is what it did: internal/apis/networking/v1beta1 of Kubernetes 1.18 to 1.21.

// fromBetaIngress makes a networking.k8s.io/v1 Ingress of an older one. A path without pathType is
// ImplementationSpecific, the default of the old versions.
func fromBetaIngress(old *networkingv1beta1.Ingress) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: old.ObjectMeta}
	ingress.Spec.IngressClassName = old.Spec.IngressClassName
	ingress.Spec.DefaultBackend = fromBetaBackend(old.Spec.Backend)
	for _, t := range old.Spec.TLS {
		ingress.Spec.TLS = append(ingress.Spec.TLS, networkingv1.IngressTLS{Hosts: t.Hosts, SecretName: t.SecretName})
	}
	for _, r := range old.Spec.Rules {
		rule := networkingv1.IngressRule{Host: r.Host}
		if r.HTTP != nil {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{}
			for _, p := range r.HTTP.Paths {
				rule.HTTP.Paths = append(rule.HTTP.Paths, fromBetaPath(p))
			}
		}
		ingress.Spec.Rules = append(ingress.Spec.Rules, rule)
	}
	return ingress
}

func fromBetaPath(p networkingv1beta1.HTTPIngressPath) networkingv1.HTTPIngressPath {
	kind := networkingv1.PathTypeImplementationSpecific
	if p.PathType != nil {
		kind = networkingv1.PathType(*p.PathType)
	}
	path := networkingv1.HTTPIngressPath{Path: p.Path, PathType: &kind}
	if backend := fromBetaBackend(&p.Backend); backend != nil {
		path.Backend = *backend
	}
	return path
}

func fromBetaBackend(old *networkingv1beta1.IngressBackend) *networkingv1.IngressBackend {
	if old == nil {
		return nil
	}
	backend := &networkingv1.IngressBackend{Resource: old.Resource}
	if old.ServiceName == "" && old.ServicePort == (intstr.IntOrString{}) {
		return backend
	}
	backend.Service = &networkingv1.IngressServiceBackend{Name: old.ServiceName}
	if old.ServicePort.Type == intstr.String {
		backend.Service.Port.Name = old.ServicePort.StrVal
	} else {
		backend.Service.Port.Number = old.ServicePort.IntVal
	}
	return backend
}

// fromBetaSlice makes a discovery.k8s.io/v1 EndpointSlice of an older one; its topology labels name node and zone.
func fromBetaSlice(old *discoveryv1beta1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  old.ObjectMeta,
		AddressType: discoveryv1.AddressType(old.AddressType),
	}
	for _, e := range old.Endpoints {
		endpoint := discoveryv1.Endpoint{
			Addresses:          e.Addresses,
			Conditions:         discoveryv1.EndpointConditions(e.Conditions),
			Hostname:           e.Hostname,
			TargetRef:          e.TargetRef,
			NodeName:           e.NodeName,
			DeprecatedTopology: e.Topology,
		}
		if zone, ok := e.Topology[corev1.LabelTopologyZone]; ok {
			endpoint.Zone = &zone
		}
		if node, ok := e.Topology[corev1.LabelHostname]; ok && endpoint.NodeName == nil {
			endpoint.NodeName = &node
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	for _, p := range old.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort(p))
	}
	return defaultSlice(slice)
}
