package feature

import (
	"sallyport/proxy/upstream"
)

// protocols are what the words of backend-protocol stand for.
var protocols = map[string]upstream.Protocol{
	"HTTP": upstream.HTTP, "HTTPS": upstream.HTTPS, "GRPC": upstream.GRPC, "GRPCS": upstream.GRPCS, "AUTO_HTTP": upstream.AutoHTTP,
}

// backendProtocol is how endpoints are spoken to (reference B2 #18 and #26, B3 #41).
func backendProtocol(a *Annotations, d *Draft) {
	a.Section("Protocol of the endpoints", ReachPaths, "Without backend-protocol the appProtocol of the Service's port counts: http, https, grpc, kubernetes.io/h2c, "+
		"kubernetes.io/ws or kubernetes.io/wss; ingress-nginx does not look at it. With HTTPS and GRPCS the certificate of an endpoint is not checked unless proxy-ssl-verify is on. AUTO_HTTP "+
		"speaks HTTPS for what came by HTTPS and HTTP for the rest. FCGI, FastCGI, is not supported. A WebSocket works whatever connection-proxy-header "+
		"says, where ingress-nginx breaks it.")
	protocol := a.Word("backend-protocol", "HTTP", []string{"HTTP", "HTTPS", "GRPC", "GRPCS", "AUTO_HTTP"}, "what the endpoints speak")
	connection := a.Word("connection-proxy-header", "", []string{"close", "keep-alive"}, "the Connection field that endpoints are sent; with close no connection is used twice")
	version := a.Shared().Word("proxy-http-version", "1.1", []string{"1.0", "1.1"}, "the version of HTTP that is spoken to endpoints, unless they speak gRPC; with 1.0 there is neither keep-alive nor a WebSocket")
	d.Upstream.Protocol, d.ProtocolGiven = protocols[protocol], a.Has("backend-protocol")
	d.Upstream.HTTP10 = version == "1.0"
	if connection != "" {
		d.Upstream.Connection = connection
	}
}

// isGRPC reports whether requests are gRPC's.
func isGRPC(o upstream.Options) bool {
	return o.Protocol == upstream.GRPC || o.Protocol == upstream.GRPCS
}
