package http1

import "strconv"

// AppendRequestLine appends the request line and the Host field to b. A method, target or host that could end the line
// early or be read as two words is refused, whoever has validated it before: HTTP/2 carries them as lengths, where a
// space or a line end is nothing special, and here it would be another request.
func AppendRequestLine(b []byte, method, target, host string) ([]byte, error) {
	switch {
	case !ValidToken(method):
		return b, errMethod
	case target == "" || !all(target, targetByte):
		return b, errTarget
	case !all(host, targetByte):
		return b, errHost
	}
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	return append(b, "\r\n"...), nil
}

// AppendField appends a field line. A field that could not be one, by its name or by a control character in its value,
// is left out: it could only have been meant to begin another.
func AppendField(b []byte, name, value string) []byte {
	if !ValidToken(name) || !ValidValue(value) {
		return b
	}
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// AppendLength appends a Content-Length field.
func AppendLength(b []byte, n int64) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}

// AppendEnd appends the empty line that ends a head or a trailer.
func AppendEnd(b []byte) []byte { return append(b, "\r\n"...) }

// ForbiddenTrailer reports whether a field, by its canonical name, must not be taken from or put into a trailer: those
// that frame or route a message, hold a session or credentials, or say how the content is to be read (RFC 9110 section
// 6.5.1). Most recipients merge trailers into the header, where a late one would replace what was already acted upon.
func ForbiddenTrailer(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Host", "Connection", "Keep-Alive", "Upgrade",
		"Proxy-Connection", "Http2-Settings", "Expect", "Max-Forwards", "Cache-Control", "Pragma", "Range", "If-Match",
		"If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Authorization", "Proxy-Authorization",
		"Proxy-Authenticate", "Www-Authenticate", "Cookie", "Set-Cookie", "Age", "Date", "Expires", "Location",
		"Retry-After", "Vary", "Warning", "Content-Encoding", "Content-Type", "Content-Range", "Content-Security-Policy",
		"Strict-Transport-Security", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip":
		return true
	}
	return false
}
