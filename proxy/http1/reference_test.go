package http1

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// This file reads requests and chunked bodies in the slowest and most obvious way, by the grammar of RFC 9110 and RFC 9112,
// for the package to be held against. What the package refuses beyond the grammar stands here too, each with its reason.

const (
	tchar  = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]" // RFC 9110 section 5.6.2
	vchar  = `[\x21-\x7e\x{80}-\x{ff}]`     // field-vchar of RFC 9110 section 5.5
	fvalue = `(?:` + vchar + `(?:[ \t\x21-\x7e\x{80}-\x{ff}]*` + vchar + `)?)?`
)

var (
	requestLineRule = regexp.MustCompile(`^(` + tchar + `+) (` + vchar + `+) HTTP/1\.([0-9])$`)
	fieldRule       = regexp.MustCompile(`^(` + tchar + `+):[ \t]*(` + fvalue + `)[ \t]*$`)
	lengthRule      = regexp.MustCompile(`^[0-9]{1,18}$`) // more digits do not fit; RFC 9112 has a recipient refuse them
	chunkRule       = regexp.MustCompile(`^([0-9A-Fa-f]{1,15})(?:[ \t]*;[ \t\x21-\x7e\x{80}-\x{ff}]*)?$`)
	lowerRule       = regexp.MustCompile(`^[a-z]`)
)

// latin1 makes a rune of every byte, so that regular expressions are about bytes.
func latin1(data []byte) string {
	runes := make([]rune, len(data))
	for i, b := range data {
		runes[i] = rune(b)
	}
	return string(runes)
}

// octets is the reverse.
func octets(text string) string {
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
	}
	return string(b)
}

// size is how many bytes a text of latin1 has.
func size(text string) int { return len(octets(text)) }

type referenceHead struct {
	method, target string
	minor          int
	fields         []Field
	length         int64 // -1: chunked
	close          bool
	rest           string // behind the head
}

// readRequest reads the head that data begins with. Whole says whether there is a whole one, however wrong.
func readRequest(data []byte, limit Limit) (h referenceHead, whole, ok bool) {
	text := strings.TrimPrefix(latin1(data), "\r\n") // RFC 9112 section 2.2
	head, rest, whole := strings.Cut(text, "\r\n\r\n")
	if !whole || size(head)+4 > limit.Bytes {
		return h, whole, false
	}
	h.rest = rest
	lines := strings.Split(head, "\r\n")
	first := requestLineRule.FindStringSubmatch(lines[0])
	// No method in use begins with a small letter: what does is more likely the rest of a body.
	if first == nil || lowerRule.MatchString(lines[0]) || len(lines)-1 > limit.Fields {
		return h, true, false
	}
	h.method, h.target = octets(first[1]), octets(first[2])
	h.minor, _ = strconv.Atoi(first[3])
	if h.fields, ok = readFields(lines[1:]); !ok {
		return h, true, false
	}
	return h, true, h.frame()
}

func readFields(lines []string) (fields []Field, ok bool) {
	for _, line := range lines {
		field := fieldRule.FindStringSubmatch(line)
		if field == nil {
			return nil, false
		}
		fields = append(fields, Field{http.CanonicalHeaderKey(octets(field[1])), octets(field[2])})
	}
	return fields, true
}

func (h *referenceHead) all(name string) (values []string) {
	for _, f := range h.fields {
		if f.Name == name {
			values = append(values, f.Value)
		}
	}
	return values
}

// frame decides about body and connection by RFC 9112 sections 3.2, 6.1, 6.3 and 9.3, and refuses where those let a
// recipient repair: two lengths that are equal, a length beside a coding.
func (h *referenceHead) frame() bool {
	lengths, codings, hosts := h.all("Content-Length"), h.all("Transfer-Encoding"), h.all("Host")
	switch {
	case len(hosts) > 1, len(hosts) == 0 && h.minor > 0:
		return false
	case len(lengths) > 1, len(codings) > 1, len(lengths)+len(codings) > 1:
		return false
	case len(codings) == 1 && (h.minor == 0 || strings.ToLower(codings[0]) != "chunked"):
		return false
	case len(lengths) == 1 && !lengthRule.MatchString(lengths[0]):
		return false
	}
	for _, expected := range h.all("Expect") {
		if strings.ToLower(expected) != "100-continue" {
			return false
		}
	}
	if len(codings) == 1 {
		h.length = -1
	} else if len(lengths) == 1 {
		h.length, _ = strconv.ParseInt(lengths[0], 10, 64)
	}
	options := "," + strings.ToLower(strings.Join(h.all("Connection"), ","))
	options = regexp.MustCompile(`[ \t]*,[ \t]*`).ReplaceAllString(options+",", ",,")
	switch {
	case strings.Contains(options, ",close,"):
		h.close = true
	case h.minor == 0:
		h.close = !strings.Contains(options, ",keep-alive,")
	}
	return true
}

// readChunks reads the chunked body that text begins with (RFC 9112 section 7.1).
func readChunks(text string) (body string, trailer []Field, rest string, ok bool) {
	excess := 0
	for {
		line, after, found := strings.Cut(text, "\r\n")
		length := chunkRule.FindStringSubmatch(line)
		if !found || length == nil || size(line)+2 > maxLine {
			return "", nil, "", false
		}
		n, _ := strconv.ParseInt(length[1], 16, 64)
		// Framing that outweighs the content is for nothing but to keep us busy.
		if excess = int(max(0, int64(excess+size(line)+2-16)-2*n)); excess > maxExcess {
			return "", nil, "", false
		}
		if n == 0 {
			trailer, rest, ok = readTrailer(after)
			return body, trailer, rest, ok
		}
		runes := []rune(after)
		if int64(len(runes)) < n+2 || string(runes[n:n+2]) != "\r\n" {
			return "", nil, "", false
		}
		body += octets(string(runes[:n]))
		text = string(runes[n+2:])
	}
}

func readTrailer(text string) (trailer []Field, rest string, ok bool) {
	section, rest, found := strings.Cut("\r\n"+text, "\r\n\r\n")
	if !found || size(section)+2 > MaxHead {
		return nil, "", false
	}
	if section == "" {
		return nil, rest, true
	}
	fields, ok := readFields(strings.Split(section[2:], "\r\n"))
	for _, f := range fields {
		if !ForbiddenTrailer(f.Name) {
			trailer = append(trailer, f)
		}
	}
	return trailer, rest, ok && len(fields) <= maxFields
}
