package proxy

import (
	"net/netip"
	"strconv"
	"strings"
)

// NormalHost returns the one form that hosts are compared in: lower case, without port and without the trailing dot of
// a fully qualified name. It is used for the Host of a request, the :authority of HTTP/2 and the server name of a
// handshake alike, since a host that is one thing to one of them and another thing to the next is how policies are
// walked past.
//
//	A.Test:8080  ->  a.test
//	a.test.      ->  a.test
//	[::1]:80     ->  [::1]
//
// ok is false for what no host can be: a name with other bytes than letters, digits, '-' and '_', an empty label, a label
// over 63 or a name over 253 bytes, a port that is not between 1 and 65535, an unclosed bracket, an address of no kind.
// International names arrive as A-labels (xn--...) or not at all. It allocates only for what is not in lower case.
func NormalHost(s string) (host string, ok bool) {
	if strings.HasPrefix(s, "[") {
		return normalIPv6(s)
	}
	name, port, hasPort := strings.Cut(s, ":")
	if hasPort && !validPort(port) {
		return "", false
	}
	name = strings.TrimSuffix(name, ".")
	if !validName(name) {
		return "", false
	}
	return strings.ToLower(name), true
}

func normalIPv6(s string) (host string, ok bool) {
	inside, rest, closed := strings.Cut(s[1:], "]")
	if !closed || rest != "" && (rest[0] != ':' || !validPort(rest[1:])) {
		return "", false
	}
	addr, err := netip.ParseAddr(inside)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false
	}
	return "[" + addr.String() + "]", true
}

func validPort(s string) bool {
	if len(s) == 0 || len(s) > 5 || s[0] < '0' || s[0] > '9' {
		return false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// validName checks a name of labels, or an IPv4 address: a last label of digits alone is one.
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	start, digits := 0, true
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '.' {
			if i == start || i-start > 63 {
				return false
			}
			if i < len(name) {
				start, digits = i+1, true
			}
			continue
		}
		c := name[i]
		if c < '0' || c > '9' {
			digits = false
		}
		if !isLabel(c) {
			return false
		}
	}
	if digits {
		addr, err := netip.ParseAddr(name)
		return err == nil && addr.Is4()
	}
	return true
}

func isLabel(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
