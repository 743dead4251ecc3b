package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"sallyport/proxy/upstream"
)

// keeping is the target with how long its Service keeps a client at an endpoint (spec.sessionAffinity: ClientIP).
func (t target) keeping(service *corev1.Service) target {
	if service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || isExternal(service) {
		return t
	}
	seconds := int32(corev1.DefaultClientIPServiceAffinitySeconds)
	if c := service.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds // from 1 to 86400, as sources see to
	}
	t.stay = time.Duration(seconds) * time.Second
	return t
}

// kept are the options with what the Service says of its clients, unless the Ingress says how endpoints are picked.
func (t *translated) kept(to target, o upstream.Options) upstream.Options {
	if to.stay > 0 && !t.features.PicksItself {
		o.Balance, o.HashBy = upstream.Balance{Policy: upstream.ClientIP, Stay: to.stay}, nil
	}
	return o
}
