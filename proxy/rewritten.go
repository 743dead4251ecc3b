package proxy

import "strings"

// NormalPath is the request's path as a rewrite sees it: decoded, without dot segments, and with one slash where there are
// several. Unlike Path, an encoded slash is a slash in it (reference A4). Where the readings of a path differ they lead to
// the same route.
func (e *Exchange) NormalPath() string {
	raw, _, _ := strings.Cut(e.Target, "?")
	if !strings.Contains(raw, "%") && !strings.Contains(raw, "//") {
		return e.Path
	}
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' && validEscape(raw[i:]) {
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
		}
		if c != '/' || len(b) == 0 || b[len(b)-1] != '/' {
			b = append(b, c)
		}
	}
	return string(b)
}

// AppendTarget appends a decoded path as a request line has it: what may not stand there is encoded, and dot segments,
// which a rewrite may have made of harmless pieces, are resolved. The result begins with a slash.
func AppendTarget(dst, path []byte) []byte {
	begin := len(dst)
	if len(path) == 0 || path[0] != '/' {
		dst = append(dst, '/')
	}
	const hex = "0123456789ABCDEF"
	dotted := false
	for i, c := range path {
		if c == '.' && (i == 0 || path[i-1] == '/') {
			dotted = true
		}
		if c == '%' || c == '?' || !inURI(c) {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
			continue
		}
		dst = append(dst, c)
	}
	if dotted {
		if resolved := resolveDots(string(dst[begin:])); len(resolved) < len(dst)-begin {
			dst = append(dst[:begin], resolved...)
		}
	}
	return dst
}
