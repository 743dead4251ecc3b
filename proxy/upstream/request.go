package upstream

import (
	"net/http"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// appendHead appends the head of the request as the endpoint is to see it.
func (x *trip) appendHead(b []byte) ([]byte, error) {
	r := x.r
	start := len(b)
	b, err := http1.AppendRequestLine(b, r.Method, x.target, x.host)
	if err != nil {
		return b, err
	}
	old := x.t.options.HTTP10
	if old {
		b[start+len(r.Method)+len(x.target)+len("  HTTP/1.")] = '0'
	}
	sized, trailers := false, false
	for name, values := range r.Header {
		switch {
		case name == "Content-Length":
			sized = true
			continue
		case name == "Te":
			trailers = acceptsTrailers(values)
			continue
		case ofConnection(name), name == "Host", name == "Expect":
			continue
		}
		for _, value := range values {
			b = http1.AppendField(b, name, value)
		}
	}
	if x.expect {
		b = http1.AppendField(b, "Expect", "100-continue")
	}
	if !old && trailers {
		b = http1.AppendField(b, "Te", "trailers")
	}
	if x.upgrade {
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
	} else if x.t.options.Connection != "" {
		b = http1.AppendField(b, "Connection", x.t.options.Connection)
	}
	return http1.AppendEnd(x.appendFraming(b, sized)), nil
}

// appendFraming says how the body ends. A request without one says so only where an endpoint might wait for it (RFC 9110
// section 8.6), or where the client did: that is sized.
func (x *trip) appendFraming(b []byte, sized bool) []byte {
	r := x.r
	switch {
	case x.streamed && x.length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		if len(r.Trailer) > 0 {
			x.trailers = announced(r)
		}
		if len(x.trailers) > 0 {
			b = http1.AppendField(b, "Trailer", strings.Join(x.trailers, ", "))
		}
		return b
	case x.streamed || x.small.bytes != nil:
		return http1.AppendLength(b, x.length)
	case r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch || sized:
		return http1.AppendLength(b, 0)
	}
	return b
}

// ofConnection reports whether a field, by its canonical name, concerns one connection only and is never passed on (RFC
// 9110 section 7.6.1, with the older ones that are still about). The front has removed what the client's Connection
// field named besides; here it is too late, since the front's own fields are in place.
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Http2-Settings", "Proxy-Authenticate", "Proxy-Authorization":
		return true
	}
	return false
}

// acceptsTrailers reports whether the client's TE, with these values, holds "trailers", the one word of it that is passed
// on: gRPC servers insist on it.
func acceptsTrailers(te []string) bool {
	for _, v := range te {
		if http1.HasToken(v, "trailers") {
			return true
		}
	}
	return false
}

// announced are the trailer fields that the client announced and that may be sent: those that may stand in a trailer at all,
// and that the front would have let pass in a header. What comes unannounced is not for the endpoint.
func announced(r *http.Request) []string {
	names := make([]string, 0, len(r.Trailer))
	for name := range r.Trailer {
		if !http1.ForbiddenTrailer(name) && proxy.Passes(name) && !ofConnection(name) && !nominates(r.Header, name) {
			names = append(names, name)
		}
	}
	return names
}

// nominates reports whether the Connection field names another (RFC 9110 section 7.6.1).
func nominates(h http.Header, name string) bool {
	for _, v := range h["Connection"] {
		if http1.HasToken(v, name) {
			return true
		}
	}
	return false
}
