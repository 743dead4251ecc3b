package controller

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"sallyport/proxy/upstream"
)

// protocols are the values of a Service port's appProtocol that say how its endpoints are spoken to. A WebSocket needs no
// word of its own: it begins as HTTP/1.1 does.
var protocols = map[string]upstream.Protocol{
	"http": upstream.HTTP, "https": upstream.HTTPS, "grpc": upstream.GRPC,
	"kubernetes.io/h2c": upstream.GRPC, // HTTP/2 in the clear, which is what gRPC goes over
	"kubernetes.io/ws":  upstream.HTTP, "kubernetes.io/wss": upstream.HTTPS,
}

// speaking is the target with what its port says its endpoints speak.
func (t target) speaking(port *corev1.ServicePort) target {
	if port.AppProtocol == nil || *port.AppProtocol == "" {
		return t
	}
	protocol, known := protocols[strings.ToLower(*port.AppProtocol)]
	if !known {
		t.unspoken = *port.AppProtocol
	}
	t.plain = protocol == upstream.GRPC && !strings.EqualFold(*port.AppProtocol, "grpc")
	t.protocol = protocol
	return t
}

// sending is how requests of an Ingress are sent to a target: as its annotations say, else as the Service port does.
func (t *translated) sending(to target) upstream.Options {
	o := t.features.Upstream
	if !t.features.ProtocolGiven {
		o.Protocol = to.protocol
	}
	return t.kept(to, o)
}
