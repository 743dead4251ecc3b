package htpasswd

import (
	"strconv"
	"strings"
)

// digest is what a client sends: the parameters of RFC 7616, section 3.4, unquoted.
type digest struct {
	username, realm, nonce, uri, response, algorithm, cnonce, nc, qop string

	count uint32 // nc
}

// maxHeader is how long an Authorization field may be: most of it is the target.
const maxHeader = 16 << 10

// parseDigest reads the value of an Authorization field. What can be read in two ways is not read: a parameter that is
// there twice, or a quote that does not end.
func parseDigest(field string) (d digest, ok bool) {
	if len(field) > maxHeader {
		return digest{}, false
	}
	scheme, rest, _ := strings.Cut(field, " ")
	if !strings.EqualFold(scheme, "Digest") {
		return digest{}, false
	}
	seen := map[string]bool{}
	for rest = strings.Trim(rest, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
		name, after, found := strings.Cut(rest, "=")
		name = strings.ToLower(strings.TrimRight(name, " \t"))
		if !found || name == "" || strings.ContainsAny(name, " \t,\"") || seen[name] {
			return digest{}, false
		}
		seen[name] = true
		value, after, ok := cutValue(strings.TrimLeft(after, " \t"))
		if !ok {
			return digest{}, false
		}
		rest = after
		switch name {
		case "username":
			d.username = value
		case "realm":
			d.realm = value
		case "nonce":
			d.nonce = value
		case "uri":
			d.uri = value
		case "response":
			d.response = value
		case "algorithm":
			d.algorithm = value
		case "cnonce":
			d.cnonce = value
		case "nc":
			d.nc = value
		case "qop":
			d.qop = value
		case "userhash": // "false" says what we take it for; nobody was offered "true"
			if !strings.EqualFold(value, "false") {
				return digest{}, false
			}
		}
	}
	n, err := strconv.ParseUint(d.nc, 16, 32)
	if err != nil || len(d.nc) != 8 || d.cnonce == "" {
		return digest{}, false
	}
	d.count = uint32(n)
	return d, true
}

// cutValue reads a token or a quoted string, which must be followed by a comma or the end.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t\"")
		if end < 0 {
			end = len(s)
		}
		value, rest = s[:end], s[end:]
	} else {
		var unquoted strings.Builder
		i := 1
		for ; i < len(s) && s[i] != '"'; i++ {
			if s[i] == '\\' {
				if i++; i == len(s) {
					return "", "", false
				}
			}
			unquoted.WriteByte(s[i])
		}
		if i == len(s) {
			return "", "", false
		}
		value, rest = unquoted.String(), s[i+1:]
	}
	rest = strings.TrimLeft(rest, " \t")
	return value, rest, rest == "" || rest[0] == ','
}
