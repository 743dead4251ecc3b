package value

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sallyport/proxy"
)

// URLs with variables: where to redirect to, whom to ask for leave.
//
//	https://sign-in.test/start?rd=$escaped_request_uri
//	$scheme://www.$host$request_uri
//	http://auth.$namespace.svc.cluster.local/verify
//
// In nginx such a text is put together and then read, which lets a client choose the host: with https://n.test$1, the
// client that asks for "/@evil.test/" is sent to evil.test. Here scheme and host end where the text says, or where a
// value begins that always begins with a slash. Only variables that are made of a checked host or of the user's own
// objects may stand before that; any other is an error while the route is built. What is put together is looked at once
// more, since a host of labels may be too long or hold two ports.
//
// Behind the host, a value that is text, as $1 or $http_x, is encoded so far that it stays in its part of the URL. One
// that is a piece of a URL already, as $request_uri or $args, stands as it is: $escaped_request_uri is for parameters.

// A URL is the template of an absolute URL of HTTP or HTTPS, or with [Relative] of a path on the same host.
type URL struct {
	template  *Template
	authority string // host and port where they hold no variable, else ""
}

// ErrHost is that the host of a URL came out as what no host can be, as $host is for a client that names none.
var ErrHost = errors.New("URL has no valid host")

// ParseURL reads a text as [Parse] does, and checks that every value of it will be a URL on a host that no client chooses,
// beyond asking for one of its own: $host is the client's word where the rule takes any host.
func ParseURL(text string, allow ...Option) (*URL, error) {
	t, err := Parse(text, allow...)
	if err != nil {
		return nil, err
	}
	for _, p := range t.parts {
		if err := checkText(p, text); err != nil {
			return nil, err
		}
	}
	u := &URL{template: t}
	if slices.Contains(allow, Relative) && t.beginsWithSlash() {
		if strings.HasPrefix(text, "//") {
			return nil, fmt.Errorf("%q begins with two slashes, which a client reads as a host", text)
		}
		return u, nil
	}
	if u.authority, err = t.checkAuthority(); err != nil {
		return nil, err
	}
	return u, nil
}

// checkText refuses what would make the text around the variables no URL.
func checkText(p part, text string) error {
	for i := range len(p.text) {
		switch c := p.text[i]; {
		case !isURL(c):
			return fmt.Errorf("%q holds %q, which no URL may hold", text, c)
		case c == '%' && (i+2 >= len(p.text) || !isHex(p.text[i+1]) || !isHex(p.text[i+2])):
			return fmt.Errorf("%q holds a %q without two hexadecimal digits behind it", text, c)
		}
	}
	return nil
}

func (t *Template) beginsWithSlash() bool {
	if len(t.parts) == 0 {
		return false
	}
	first := t.parts[0]
	return strings.HasPrefix(first.text, "/") || first.variable != nil && first.variable.kind == target
}

// endsAuthority is the index at which a part ends what stands before the path; negative: not in this part.
func (p part) endsAuthority() int {
	switch {
	case p.variable == nil:
		return strings.IndexAny(p.text, "/?#")
	case p.variable.kind == target:
		return 0
	}
	return -1
}

// checkAuthority goes through what stands before the path. It returns that where it is the same for every request.
func (t *Template) checkAuthority() (authority string, err error) {
	parts, ok := t.cutScheme()
	if !ok {
		return "", fmt.Errorf("%q is no absolute URL, it must begin with http:// or https://", t.text)
	}
	fixed := true
	for _, p := range parts {
		end := p.endsAuthority()
		switch {
		case end >= 0 && p.variable == nil:
			authority += p.text[:end]
		case end < 0 && p.variable == nil:
			authority += p.text
		case end < 0 && p.variable.kind == host:
			fixed = false
		case end < 0:
			return "", fmt.Errorf("%q lets a client write into the host: before the first slash only variables like $host may stand", t.text)
		}
		if end >= 0 {
			break
		}
	}
	if strings.Contains(authority, "@") {
		return "", fmt.Errorf("%q holds a user before its host, which is not supported", t.text)
	}
	if !fixed {
		return "", nil
	}
	if _, ok := proxy.NormalHost(authority); !ok {
		return "", fmt.Errorf("%q has no valid host, %q", t.text, authority)
	}
	return authority, nil
}

// cutScheme returns the parts behind the scheme.
func (t *Template) cutScheme() (rest []part, ok bool) {
	if len(t.parts) == 0 {
		return nil, false
	}
	rest = slices.Clone(t.parts)
	if v := rest[0].variable; v != nil {
		if rest = rest[1:]; v.kind != scheme || len(rest) == 0 {
			return nil, false
		}
		rest[0].text, ok = strings.CutPrefix(rest[0].text, "://")
		return rest, ok
	}
	name, text, ok := strings.Cut(rest[0].text, "://")
	rest[0].text = text
	return rest, ok && (strings.EqualFold(name, "http") || strings.EqualFold(name, "https"))
}

// Literal returns the URL where it has no variables.
func (u *URL) Literal() (text string, ok bool) { return u.template.Literal() }

// String returns the text as it was parsed.
func (u *URL) String() string { return u.template.text }

// Highest is the number of the highest capture in the URL; 0 when there is none.
func (u *URL) Highest() int { return u.template.Highest() }

// Authority returns host and port where they are the same for every request.
func (u *URL) Authority() (authority string, fixed bool) { return u.authority, u.authority != "" }

// Expand returns the URL for a request; captures may be nil. An error is ErrTooLong or [ErrHost]; the request cannot be
// served then.
func (u *URL) Expand(r *http.Request, captures []string) (string, error) {
	text, err := u.template.expand(r, captures, inURL)
	if err != nil {
		return "", err
	}
	if !u.staysPut(text) {
		return "", ErrHost
	}
	return text, nil
}

// staysPut looks at what came out. A path that begins with two slashes, as "/$1" can, would be read as a host.
func (u *URL) staysPut(text string) bool {
	if strings.HasPrefix(text, "/") {
		return !strings.HasPrefix(text, "//")
	}
	before, authority, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	if u.authority != "" {
		return authority == u.authority
	}
	_, valid := proxy.NormalHost(authority)
	return before != "" && valid
}
