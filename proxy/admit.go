package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sallyport/proxy/http1"
)

// admit decides whether a request is one that every party on its way reads alike, and sets Host, Path and Target of the
// exchange. An empty reason admits it.
func admit(e *Exchange, r *http.Request) (status int, reason Reason) {
	if status := checkMethod(r.Method); status != 0 {
		if status == http.StatusMethodNotAllowed {
			return status, MethodNotAllowed
		}
		return status, BadRequest
	}
	if e.fields > maxFields {
		return http.StatusRequestHeaderFieldsTooLarge, BadRequest
	}
	if r.ProtoMajor > 1 && !soundStream(r) {
		return http.StatusBadRequest, BadRequest
	}
	if status := checkUpgrade(r); status != 0 {
		return status, BadRequest
	}
	var ok bool
	switch {
	case r.Host != "":
		if e.Host, ok = NormalHost(r.Host); !ok {
			return http.StatusBadRequest, BadRequest
		}
	case r.ProtoAtLeast(1, 1):
		return http.StatusBadRequest, BadRequest // RFC 9112 section 3.2
	}
	// HTTP/1.0 may name no host: its Host stays empty, which no rule names, so that only a route for any host takes it.
	raw, ok := originForm(e, r)
	if !ok {
		return http.StatusBadRequest, BadRequest
	}
	if len(raw) > maxTarget {
		return http.StatusRequestURITooLong, TargetTooLong
	}
	if raw == "*" {
		e.Target = raw
		if r.Method != http.MethodOptions {
			return http.StatusBadRequest, BadRequest
		}
		return 0, ""
	}
	if e.Path, e.Target, ok = readTarget(raw); !ok {
		return http.StatusBadRequest, BadRequest
	}
	return 0, ""
}

// checkMethod returns the status to refuse a method with, or 0. CONNECT asks for a tunnel, which a reverse proxy is not,
// and TRACE echoes credentials. A method in lower case is another method than the one it looks like (RFC 9110 section
// 9.1): whoever upper-cases it later would pass a check it never went through.
func checkMethod(method string) int {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return 0
	case http.MethodConnect, http.MethodTrace:
		return http.StatusMethodNotAllowed
	case "", "PRI":
		return http.StatusBadRequest
	}
	for i := range len(method) {
		switch c := method[i]; {
		case 'a' <= c && c <= 'z':
			return http.StatusNotImplemented
		case !isToken(c):
			return http.StatusBadRequest
		}
	}
	return 0
}

// isToken reports whether c may stand in a token (RFC 9110 section 5.6.2).
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// checkUpgrade returns the status to refuse a WebSocket handshake with that is none, or 0. The bytes behind one are another
// protocol's or the next request's, and everybody on the way must agree which: it is a GET without a body (RFC 6455 section
// 4.1), of the one version there is.
func checkUpgrade(r *http.Request) int {
	upgrade := r.Header["Upgrade"]
	if len(upgrade) == 0 || r.ProtoMajor != 1 || r.ProtoMinor == 0 || len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket") {
		return 0 // what is no WebSocket's is not passed on
	}
	asked := slices.ContainsFunc(r.Header["Connection"], func(line string) bool { return http1.HasToken(line, "upgrade") })
	switch {
	case !asked:
		return 0
	case r.Method != http.MethodGet || r.ContentLength != 0:
		return http.StatusBadRequest
	}
	if version, ok := r.Header["Sec-Websocket-Version"]; ok && (len(version) != 1 || version[0] != "13") {
		return http.StatusUpgradeRequired
	}
	return 0
}

// soundStream checks what net/http leaves open in a request of HTTP/2 (RFC 9113): whether Host names another host than
// :authority (section 8.3.1), whether Content-Length is the one that the frames bear out (section 8.1.1), and whether
// :path is a path (section 8.3.1). Whoever writes such a request as HTTP/1 lets two parties read two requests.
func soundStream(r *http.Request) bool {
	for _, host := range r.Header["Host"] {
		if host != r.Host {
			return false
		}
	}
	switch lengths := r.Header["Content-Length"]; len(lengths) {
	case 0:
	case 1:
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || int64(n) != r.ContentLength {
			return false
		}
	default:
		return false
	}
	return r.RequestURI != "" && (r.RequestURI[0] == '/' || r.RequestURI == "*")
}

// originForm returns the target as path and query, or "*". An absolute target (RFC 9112 section 3.2.2) must be of the
// connection's own scheme, or a client could claim HTTPS over plain HTTP, must not hold credentials, and must name the host
// that Host names.
func originForm(e *Exchange, r *http.Request) (raw string, ok bool) {
	raw = r.RequestURI
	if raw == "" || raw[0] == '/' || raw == "*" {
		return raw, raw != ""
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, e.Scheme) || r.URL.User != nil || r.URL.Opaque != "" {
		return "", false
	}
	authority, path := rest, "/"
	if slash := strings.IndexAny(rest, "/?"); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	if host, ok := NormalHost(authority); !ok || host != e.Host && r.Host != "" {
		return "", false
	}
	if path[0] == '?' {
		path = "/" + path
	}
	return path, true
}
