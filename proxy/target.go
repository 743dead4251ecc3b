package proxy

import (
	"strings"

	"sallyport/router"
)

// One reading of a path.
//
// A proxy that matches one path and lets the upstream serve another is an open door: a route that guards /admin is worth
// nothing if /pub/..;/admin is matched as something under /pub and served as /admin. So a request has one path, which is
// matched and forwarded alike:
//
//	/pub/../admin/x     is matched and forwarded as /admin/x: dot segments are resolved first (RFC 3986 section 5.2.4),
//	/pub/%2e%2e/admin   percent-encoded ones too
//	/a%20b?q=%zz        is matched as "/a b" and forwarded as it came; the query is nobody's business
//
// Some bytes are read differently by different servers, and no form of them is right for all: %2F is a slash to some,
// // is / to many, ;x is dropped by servlet containers, %5C is a slash on some systems. Such a target is forwarded as it
// came and matched under every reading. If the readings lead to different routes, the request is refused:
//
//	/a%2Fb              with routes / alone: fine.  With /a/b beside it: 400
//	/a;x=1/b            with routes / and /a: 400, since a container would serve /a/b
//
// And what no honest client sends is refused whatever the routes: a raw backslash, an encoded NUL, bytes outside the URI
// grammar, escapes that are none, and a reading that makes a dot segment appear (/..;/ or /x%2f../).

// maxTarget is the longest target taken, in bytes.
const maxTarget = 8 << 10

// What a path holds that servers read differently.
const (
	encodedSlash = 1 << iota
	encodedBackslash
	parameters
	emptySegments
)

// readTarget checks a target in origin form and returns the path to match, in its literal reading, and what to forward.
// It allocates nothing where nothing is encoded and no dot segment is resolved.
func readTarget(raw string) (path, target string, ok bool) {
	if raw == "" || raw[0] != '/' {
		return "", "", false
	}
	rawPath, query, _ := strings.Cut(raw, "?")
	simple := true
	for i := range len(rawPath) {
		switch c := rawPath[i]; {
		case !inURI(c) || c == '?':
			return "", "", false
		case c == '%':
			if !validEscape(rawPath[i:]) {
				return "", "", false
			}
			simple = false
		case c == '.' && rawPath[i-1] == '/':
			simple = false
		}
	}
	for i := range len(query) {
		if !inURI(query[i]) {
			return "", "", false
		}
	}
	if simple {
		return rawPath, raw, true
	}
	resolved := resolveDots(rawPath)
	target = raw
	if resolved != rawPath {
		target = resolved + raw[len(rawPath):]
	}
	return decode(resolved, 0), target, true
}

// inURI reports whether a byte may stand in a target (RFC 3986 appendix A, and '%').
func inURI(c byte) bool {
	if c <= ' ' || c >= 0x7f {
		return false
	}
	switch c {
	case '"', '<', '>', '\\', '^', '`', '{', '|', '}', '#':
		return false
	}
	return true
}

// validEscape reports whether s begins with an escape of a byte other than NUL.
func validEscape(s string) bool {
	return len(s) > 2 && isHex(s[1]) && isHex(s[2]) && s[1:3] != "00"
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

// resolveDots removes dot segments from an escaped path. Going above the root stays at the root. Where there are none it
// returns the same string.
func resolveDots(path string) string {
	if !hasDotSegment(path) {
		return path
	}
	segments := strings.Split(path[1:], "/")
	kept := segments[:0]
	for i, segment := range segments {
		last := i == len(segments)-1
		switch dots(segment) {
		case 0:
			kept = append(kept, segment)
			continue
		case 2:
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		}
		if last {
			kept = append(kept, "") // "/a/." is "/a/"
		}
	}
	return "/" + strings.Join(kept, "/")
}

func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if dots(segment) != 0 {
			return true
		}
	}
	return false
}

// dots is 1 for "." and 2 for "..", encoded or not, and 0 for any other segment.
func dots(segment string) int {
	n := 0
	for segment != "" {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) > 2 && segment[0] == '%' && segment[1] == '2' && segment[2]|0x20 == 'e':
			segment = segment[3:]
		default:
			return 0
		}
		if n++; n > 2 {
			return 0
		}
	}
	return n
}

// ambiguities tells which of the bytes that are read differently an escaped path holds.
func ambiguities(path string) (set int) {
	for i := range len(path) {
		switch path[i] {
		case '/':
			if i > 0 && path[i-1] == '/' {
				set |= emptySegments
			}
		case ';':
			set |= parameters
		case '%':
			switch unhex(path[i+1])<<4 | unhex(path[i+2]) {
			case '/':
				set |= encodedSlash
			case '\\':
				set |= encodedBackslash
			case ';':
				set |= parameters
			}
		}
	}
	return set
}

// decode is an escaped path under the reading that takes each of the given ambiguities the other way than literally.
// Read literally, an encoded slash stays encoded: it is a byte of its segment.
func decode(path string, reading int) string {
	b := make([]byte, 0, len(path))
	skipping := false // the parameters of a segment
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' {
			c, escaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
		}
		slash := c == '/' && !escaped || c == '/' && reading&encodedSlash != 0 || c == '\\' && escaped && reading&encodedBackslash != 0
		switch {
		case slash:
			skipping = false
			if reading&emptySegments == 0 || len(b) == 0 || b[len(b)-1] != '/' {
				b = append(b, '/')
			}
		case c == ';' && reading&parameters != 0:
			skipping = true
		case skipping:
		case escaped && c == '/':
			b = append(b, "%2F"...)
		default:
			b = append(b, c)
		}
		if escaped {
			i += 2
		}
	}
	return string(b)
}

// find returns the route of a request, which is nil when there is none. ok is false when the readings of the target lead
// to different routes, or one of them to a dot segment.
func find(table *router.Table, host, path, target string) (route *router.Route, ok bool) {
	route = table.Lookup(host, path)
	raw, _, _ := strings.Cut(target, "?")
	set := ambiguities(raw)
	if set == 0 {
		return route, true
	}
	if strings.Contains(decode(raw, set), "//") { // "/;x/a" without its parameters, "/%2Fa" with its slash
		set |= emptySegments
	}
	for reading := set; reading != 0; reading = (reading - 1) & set { // every subset of set but the empty one
		other := decode(raw, reading)
		if hasDotSegment(other) || table.Lookup(host, other) != route {
			return nil, false
		}
	}
	return route, true
}
