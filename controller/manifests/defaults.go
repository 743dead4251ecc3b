package manifests

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What an API server fills in before anybody sees an object (pkg/apis/*/v1/defaults.go of Kubernetes), as far as
// serving can tell the difference. A field written in a manifest is never changed.

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func fillPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultService(s *corev1.Service) *corev1.Service {
	fill(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	fill(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	if s.Spec.SessionAffinity == corev1.ServiceAffinityNone {
		s.Spec.SessionAffinityConfig = nil
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		fillPointer(&s.Spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		fillPointer(&s.Spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		fillPointer(&s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		fillPointer(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		fill(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		fill(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	return s
}

func defaultSlice(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	for i := range s.Ports {
		fillPointer(&s.Ports[i].Name, "")
		fillPointer(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	return s
}

func defaultIngressClass(c *networkingv1.IngressClass) *networkingv1.IngressClass {
	if c.Spec.Parameters != nil {
		fillPointer(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
	return c
}

// defaultSecret moves stringData into data, where it wins, as the API server does on writing.
func defaultSecret(s *corev1.Secret) *corev1.Secret {
	fill(&s.Type, corev1.SecretTypeOpaque)
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = make(map[string][]byte)
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
	return s
}
