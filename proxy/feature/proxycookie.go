package feature

import (
	"net/http"
	"slices"
	"strings"

	"sallyport/proxy"
)

// proxyCookie rewrites where the cookies of endpoints hold (reference B3 #45 and #46), for an application that takes itself
// for another host or path than clients do.
//
// It stands next to the endpoints, so that cookies which other features set are left alone.
func proxyCookie(a *Annotations, d *Draft) {
	a.Section("Cookies of endpoints", ReachPaths, "A value is two words: what the cookie says, and what it is to say instead. A Domain must be the whole of what is "+
		"written here, in any case, a dot before it aside; of a Path the beginning counts. A cookie without the attribute gets none. Regular expressions, "+
		"which nginx begins with ~, are not taken.")
	domain := a.Shared().replacement("proxy-cookie-domain", "the Domain of endpoints' cookies that is replaced, and by what")
	path := a.Shared().replacement("proxy-cookie-path", "the beginning of the Path of endpoints' cookies that is replaced, and by what")
	domain.from, domain.to = strings.TrimPrefix(domain.from, "."), strings.TrimPrefix(domain.to, ".")
	if domain.from != "" || path.from != "" {
		d.OnHeader(&cookieRewrite{domain, path})
	}
}

// A textReplacement is one text in place of another. The zero textReplacement replaces nothing.
type textReplacement struct{ from, to string }

// replacement reads two words, or "off".
func (a *Annotations) replacement(name, usage string) textReplacement {
	d := Declaration{Name: name, Values: "off, or two words separated by a space", Default: "off", Usage: usage}
	return read(a, d, textReplacement{}, func(value string) (textReplacement, string) {
		words := strings.Fields(value)
		switch {
		case oneLine(value) != "":
			return textReplacement{}, oneLine(value)
		case len(words) == 1 && words[0] == "off":
			return textReplacement{}, ""
		case len(words) != 2:
			return textReplacement{}, `expected "off", or two words as in "from to"`
		case strings.HasPrefix(words[0], "~"):
			return textReplacement{}, "regular expressions are not supported here"
		}
		for _, word := range words {
			if strings.Contains(word, "$") {
				return textReplacement{}, shown(word) + ": there are no variables here"
			}
			if !isAttribute(word) {
				return textReplacement{}, shown(word) + " cannot stand in a cookie"
			}
		}
		return textReplacement{words[0], words[1]}, ""
	})
}

// isAttribute reports whether a text can be the value of a cookie's attribute (RFC 6265 section 4.1.1).
func isAttribute(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == ';' }) < 0
}

type cookieRewrite struct{ domain, path textReplacement }

func (c *cookieRewrite) SetHeader(_ *proxy.Exchange, header http.Header) {
	cookies := header["Set-Cookie"]
	copied := false
	for i, cookie := range cookies {
		now := c.rewrite(cookie)
		if now == cookie {
			continue
		}
		if !copied { // whose they were is not known
			cookies, copied = slices.Clone(cookies), true
			header["Set-Cookie"] = cookies
		}
		cookies[i] = now
	}
}

// rewrite returns the cookie as clients are to get it, without an allocation where that is as it was.
func (c *cookieRewrite) rewrite(cookie string) string {
	// What stands before the first semicolon is name and value, whatever it looks like.
	for at := strings.IndexByte(cookie, ';'); at >= 0; {
		start := at + 1
		end := len(cookie)
		if next := strings.IndexByte(cookie[start:], ';'); next >= 0 {
			end = start + next
		}
		name, value, has := strings.Cut(cookie[start:end], "=")
		if has {
			if now, changed := c.attribute(strings.TrimSpace(name), strings.TrimSpace(value)); changed {
				cookie = cookie[:start+len(name)+1] + now + cookie[end:]
				end = start + len(name) + 1 + len(now)
			}
		}
		if at = end; at == len(cookie) {
			break
		}
	}
	return cookie
}

// attribute returns the new value of an attribute.
func (c *cookieRewrite) attribute(name, value string) (now string, changed bool) {
	switch {
	case c.domain.from != "" && strings.EqualFold(name, "Domain"):
		bare, dotted := strings.CutPrefix(value, ".")
		if !strings.EqualFold(bare, c.domain.from) {
			return "", false
		}
		if dotted {
			return "." + c.domain.to, true
		}
		return c.domain.to, true
	case c.path.from != "" && strings.EqualFold(name, "Path"):
		if rest, ok := strings.CutPrefix(value, c.path.from); ok {
			return c.path.to + rest, true
		}
	}
	return "", false
}
