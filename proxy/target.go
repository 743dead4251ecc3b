package proxy

import (
	"slices"
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
// // is / to many, ;x is dropped by servlet containers, %5C is a slash on some systems, %2561 is an a to who decodes twice.
// Such a target is forwarded as it came and matched under every reading: what any server could make of it with the steps
// below, in any order, having decoded it at least once. If the readings lead to different routes, the request is refused:
//
//	/a%2Fb              with routes / alone: fine.  With /a/b beside it: 400
//	/a;x=1/b            with routes / and /a: 400, since a container would serve /a/b
//	/%2561dmin          with routes / and /admin: 400
//	/what%3Fnow         with routes / and /what: 400, since a proxy behind us may send /what?now to the next
//
// And what no honest client sends is refused whatever the routes: a raw backslash, an encoded NUL, bytes outside the URI
// grammar, escapes that are none, and a reading that makes a dot segment appear (/..;/ or /x%2f../ or /%252e%252e/).
//
// What a file system takes for the same name is not among the readings: other letter case, trailing dots and spaces,
// full-width letters, a trailing slash where an Exact path has none. Whoever serves guarded files by such names must guard
// what the names lead to.

// maxTarget is the longest target taken, in bytes.
const maxTarget = 8 << 10

// Limits on the readings of one target. Honest ones have fewer than ten. What has more than these is refused, and costs half
// a millisecond at most (BenchmarkFind).
const (
	maxReadings = 128
	maxRead     = 8 * maxTarget // bytes of all of them
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
	return decodeSegments(resolved), target, true
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

// find returns the route of a request, which is nil when there is none. ok is false when the readings of the target lead
// to different routes, or one of them to a dot segment.
func find(table *router.Table, host, path, target string) (route *router.Route, ok bool) {
	route = table.Lookup(host, path)
	raw, _, _ := strings.Cut(target, "?")
	if !ambiguous(raw) {
		return route, true
	}
	all, ok := readings(raw)
	if !ok {
		return nil, false
	}
	for _, r := range all {
		if r.decoded && table.Lookup(host, r.path) != route {
			return nil, false
		}
	}
	return route, true
}

// ambiguous reports whether an escaped path holds anything that servers read differently: whether any step but one
// decoding would change it.
func ambiguous(path string) bool {
	for i := range len(path) {
		switch path[i] {
		case '/':
			if i > 0 && path[i-1] == '/' {
				return true
			}
		case ';':
			return true
		case '%':
			switch c := unhex(path[i+1])<<4 | unhex(path[i+2]); c {
			case '/', '\\', ';', '%', '?', '#', 0x7f, 0xc0, 0xc1:
				return true
			case 0xe0, 0xf0: // of long UTF-8, if what follows is below what UTF-8 has there
				if strings.HasPrefix(path[i+3:], "%8") {
					return true
				}
			default:
				if c < ' ' {
					return true
				}
			}
		}
	}
	return false
}

// A reading is what some server may make of a path.
type reading struct {
	path    string
	decoded bool // once at least, as every server does before it serves
}

// steps are what servers do to a path, some in one order, some in another, some twice.
var steps = []struct {
	do      func(path string) string
	decodes bool
}{
	{decode, true},
	{decodeSegments, true},
	{mergeSlashes, false},
	{turnBackslashes, false},
	{dropParameters, false},
	{cutParameters, false},
	{cutPath, false},
	{shortenUTF8, false},
}

// readings are all that the steps make of an escaped path, itself included. ok is false where there are too many, or
// where one has a dot segment. A path that is encoded many times over takes as many decodings: no depth is safe to stop
// at, and each is a reading that counts.
func readings(path string) (all []reading, ok bool) {
	all = append(all, reading{path, false})
	size := len(path)
	for i := 0; i < len(all); i++ { // all grows meanwhile
		r := all[i]
		if hasDotSegment(r.path) {
			return nil, false
		}
		for _, step := range steps {
			next := reading{step.do(r.path), r.decoded || step.decodes}
			if slices.Contains(all, next) {
				continue
			}
			if size += len(next.path); len(all) == maxReadings || size > maxRead {
				return nil, false
			}
			all = append(all, next)
		}
	}
	return all, true
}

// decode decodes once. What looks like an escape and is none stays, as does the % of a lone one.
func decode(path string) string { return decodeWith(path, "/") }

// decodeSegments decodes the segments of a path, so that an encoded slash stays encoded: it is a byte of its segment.
func decodeSegments(path string) string { return decodeWith(path, "%2F") }

func decodeWith(path, slash string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	b := make([]byte, 0, len(path))
	for {
		i := strings.IndexByte(path, '%')
		if i < 0 {
			return string(append(b, path...))
		}
		b = append(b, path[:i]...)
		c, n := escape(path[i:])
		if c == '/' {
			b = append(b, slash...)
		} else {
			b = append(b, c)
		}
		path = path[i+n:]
	}
}

// escape returns what the % that s begins with stands for, and how many bytes of s that takes: itself, where it begins no
// escape. Beside %61 it knows %u0061, which JavaScript's unescape and servers of Windows decode.
func escape(s string) (c byte, n int) {
	switch {
	case len(s) > 2 && s[0] == '%' && isHex(s[1]) && isHex(s[2]):
		return unhex(s[1])<<4 | unhex(s[2]), 3
	case len(s) > 5 && (s[:4] == "%u00" || s[:4] == "%U00") && '0' <= s[4] && s[4] <= '7' && isHex(s[5]):
		return unhex(s[4])<<4 | unhex(s[5]), 6
	}
	return s[0], 1
}

func mergeSlashes(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

func turnBackslashes(path string) string { return strings.ReplaceAll(path, "\\", "/") }

// dropParameters cuts each segment at its first semicolon, as servlet containers do.
func dropParameters(path string) string {
	if strings.IndexByte(path, ';') < 0 {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}

// cutParameters cuts the path at its first semicolon, as who knows parameters of the last segment only may do.
func cutParameters(path string) string {
	path, _, _ = strings.Cut(path, ";")
	return path
}

// cutPath ends a path where a server ends it that takes a decoded path for a URI, a line of text or a string of C.
func cutPath(path string) string {
	for i := range len(path) {
		if c := path[i]; c < ' ' || c == '?' || c == '#' || c == 0x7f {
			return path[:i]
		}
	}
	return path
}

// shortenUTF8 turns ASCII that was written in the two, three or four bytes of longer characters into what it is. RFC 3629
// forbids them, and servers have decoded %C0%AE as a dot, and %C0%2E too.
func shortenUTF8(path string) string {
	if !hasLong(path) {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); {
		c, n := long(path[i:])
		b = append(b, c)
		i += n
	}
	return string(b)
}

func hasLong(path string) bool {
	for i := range len(path) {
		if path[i] >= 0xc0 {
			if _, n := long(path[i:]); n > 1 {
				return true
			}
		}
	}
	return false
}

// long returns the byte that s begins with, and how many bytes of s stand for it. The two bits of it that the last byte
// has no room for are the end of the byte before.
func long(s string) (c byte, n int) {
	switch s[0] {
	case 0xc0, 0xc1:
		n = 2
	case 0xe0:
		n = 3
	case 0xf0:
		n = 4
	default:
		return s[0], 1
	}
	if len(s) < n || n > 2 && s[n-2]&^1 != 0x80 || n > 3 && s[1] != 0x80 {
		return s[0], 1
	}
	return s[n-2]<<6 | s[n-1]&0x3f, n
}
