package feature

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sallyport/proxy"
)

// cors lets pages of other origins use the routes (reference B4): it answers their preflights, and gives every answer the
// fields that browsers look for, whoever makes it. It stands in front of redirects and of everything that asks who the
// client is, since browsers send preflights without credentials and take no redirect for an answer.
func cors(a *Annotations, d *Draft) {
	a.Section("Cross-origin requests", ReachPaths, "An OPTIONS request with an origin that is allowed is answered with 204, before redirects, limits, lists and authentication. "+
		"Every other answer to such an origin has the fields too, errors among them, in place of the endpoint's own; what the endpoint says in "+
		"Access-Control-Expose-Headers stays where cors-expose-headers is absent. Other origins get what the endpoint says. "+
		"A mistake in cors-allow-origin allows fewer origins, where ingress-nginx would allow all. Where any origin is allowed, credentials never are: browsers refuse both "+
		"together. Where the answer depends on the origin, it says so in Vary.")
	enabled := a.Bool("enable-cors", false, "whether pages of other origins may use the routes; without it the other annotations of CORS do nothing")
	origins := a.origins("cors-allow-origin", "the origins that may")
	methods := a.corsNames("cors-allow-methods", "GET, PUT, POST, DELETE, PATCH, OPTIONS", "methods", "", "the methods they may use")
	headers := a.corsNames("cors-allow-headers", "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization",
		"header names", "-_0123456789", "the fields they may send")
	exposed := a.corsNames("cors-expose-headers", "", "header names, or *", "-_*0123456789", "the fields of answers they may read")
	credentials := a.Bool("cors-allow-credentials", true, "whether browsers may send cookies and passwords along, unless any origin is allowed")
	age := a.IntBetween("cors-max-age", 1728000, -1, 1<<31-1, "for how many seconds browsers may remember a preflight; -1 means not at all")
	if origins.bad != "" {
		expected := origins.bad + "; expected origins as in https://app.example.org or https://*.example.org:8443"
		if !origins.any && len(origins.named) == 0 {
			expected += "; no origin is allowed, so nothing is said of CORS"
		}
		a.Refuse("cors-allow-origin", expected)
	}
	if origins.any && credentials && enabled && a.Has("cors-allow-credentials") {
		a.Refuse("cors-allow-credentials", "credentials are not allowed where cors-allow-origin allows any origin; name the origins")
	}
	if !enabled || !origins.any && len(origins.named) == 0 {
		return
	}
	policy := &corsPolicy{methods: single(methods), headers: single(headers), exposed: single(exposed), age: single(strconv.Itoa(age)), vary: !origins.any}
	if credentials && !origins.any {
		policy.credentials = single("true")
	}
	c := corsHandler{policy: policy}
	if origins.any {
		c.any = &corsAnswer{policy, single("*")}
	} else {
		c.allowed = make(map[string]*corsAnswer, len(origins.named))
		for _, name := range origins.named {
			c.allowed[name] = &corsAnswer{policy, single(name)}
		}
	}
	d.Use(func(next http.Handler) http.Handler {
		c := c
		c.next = next
		return &c
	})
}

// single is the values of a field that all answers share: nobody can append to it in place. Nil for "".
func single(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}[:1:1]
}

// corsNames reads what becomes a field's value as it stands: names of letters and the others, with commas and spaces
// between them.
func (a *Annotations) corsNames(name, usual, values, others, usage string) string {
	d := Declaration{Name: name, Values: "a list of " + values + ", separated by commas", Default: usual, Usage: usage}
	return read(a, d, usual, func(text string) (string, string) {
		other := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != ',' && r != ' ' && !strings.ContainsRune(others, r)
		}
		names := strings.ContainsFunc(text, func(r rune) bool { return r != ',' && r != ' ' })
		return text, unless(names && len(text) <= maxField && !strings.ContainsFunc(text, other), "expected a list of "+values+", separated by commas")
	})
}

// maxField bounds the bytes of a field that an annotation gives to every answer.
const maxField = 4 << 10

// origins are those that an annotation names.
type origins struct {
	any   bool
	named []string // in lower case; the first label may be *
	bad   string   // what is wrong with one that is left out; empty: all are good
}

func (a *Annotations) origins(name, usage string) origins {
	const values = "a list of scheme://host, with or without :port, where *. before the host takes one label; null for what has no origin; * for any origin"
	d := Declaration{Name: name, Values: values, Default: "*", Usage: usage}
	return read(a, d, origins{any: true}, func(text string) (o origins, _ string) {
		items, bad := parseList(text, "origins")
		o.bad = bad
		for _, item := range items {
			switch pattern, ok := parseOrigin(item); {
			case item == "*":
				o.any = true
			case ok:
				o.named = append(o.named, pattern)
			case o.bad == "":
				o.bad = fmt.Sprintf("%s is no origin", shown(item))
			}
		}
		// Never "expected": the default, which read would fall back to, is every origin there is.
		return o, ""
	})
}

// parseOrigin checks an origin as it may be named, and returns it in lower case.
func parseOrigin(text string) (lower string, ok bool) {
	lower = strings.ToLower(text)
	if lower == "null" {
		return lower, true
	}
	scheme, authority, ok := strings.Cut(lower, "://")
	if !ok || len(lower) > maxOrigin || scheme == "" || strings.ContainsFunc(scheme, func(r rune) bool { return !isLabelRune(r) && r != '+' && r != '.' }) {
		return "", false
	}
	host, port, found := strings.Cut(authority, ":")
	if n, err := strconv.ParseUint(port, 10, 16); found && (err != nil || n == 0 || port[0] == '0' || port[0] == '+') {
		return "", false
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(host, "*."), ".") {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool { return !isLabelRune(r) }) {
			return "", false
		}
	}
	return lower, true
}

func isLabelRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

// maxOrigin is the longest origin there is: a scheme, a host of 253 bytes, a port, and some room.
const maxOrigin = 300

// A corsPolicy is the fields that answers to all allowed origins share, ready to be set. Those that are nil answers do not get.
type corsPolicy struct {
	credentials, methods, headers, exposed, age []string

	vary bool // the answer depends on the origin
}

// A corsAnswer sets the fields of answers to one origin.
type corsAnswer struct {
	*corsPolicy
	origin []string
}

func (c *corsAnswer) SetHeader(_ *proxy.Exchange, header http.Header) {
	header["Access-Control-Allow-Origin"] = c.origin
	header["Access-Control-Allow-Methods"] = c.methods
	header["Access-Control-Allow-Headers"] = c.headers
	header["Access-Control-Max-Age"] = c.age
	if c.credentials != nil {
		header["Access-Control-Allow-Credentials"] = c.credentials
	} else {
		delete(header, "Access-Control-Allow-Credentials")
	}
	if c.exposed != nil {
		header["Access-Control-Expose-Headers"] = c.exposed
	}
	if c.vary {
		varyByOrigin(header)
	}
}

// otherOrigin is for answers to those who are not allowed, which a cache must not give to those who are.
type otherOrigin struct{}

func (otherOrigin) SetHeader(_ *proxy.Exchange, header http.Header) { varyByOrigin(header) }

var byOrigin = single("Origin")

func varyByOrigin(header http.Header) {
	vary := header["Vary"]
	if len(vary) == 0 {
		header["Vary"] = byOrigin
		return
	}
	for _, line := range vary {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name == "*" || strings.EqualFold(name, "Origin") {
				return
			}
		}
	}
	header["Vary"] = append(vary[:len(vary):len(vary)], "Origin")
}

type corsHandler struct {
	next    http.Handler
	policy  *corsPolicy
	any     *corsAnswer            // nil: only those in allowed
	allowed map[string]*corsAnswer // by origin; for one with * the answer lacks the origin that asked
}

func (c *corsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := proxy.From(r)
	answer, asked := c.any, r.Header["Origin"]
	if answer == nil && len(asked) == 1 { // several are no origin that a browser sends
		answer = c.find(asked[0])
	}
	if answer == nil {
		e.OnHeader(otherOrigin{})
		c.next.ServeHTTP(w, r)
		return
	}
	e.OnHeader(answer)
	if r.Method == http.MethodOptions && len(asked) == 1 {
		e.Reason = proxy.Preflight
		w.WriteHeader(http.StatusNoContent) // which has neither type nor length (RFC 9110 section 8.6)
		return
	}
	c.next.ServeHTTP(w, r)
}

// find returns the answer to an origin, nil where it is not allowed. It allocates once for one that a wildcard takes.
//
// Both ends are held: "https://a.test.evil.test" and "evilhttps://a.test" are not https://a.test. A wildcard is looked up
// by the origin with its first label replaced:
//
//	https://x.a.test:444  →  https://*.a.test:444
func (c *corsHandler) find(origin string) *corsAnswer {
	var room, wild [maxOrigin + 1]byte
	if len(origin) > maxOrigin {
		return nil
	}
	for i := range len(origin) {
		b := origin[i]
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		room[i] = b
	}
	lower := room[:len(origin)]
	if answer := c.allowed[string(lower)]; answer != nil && !isWildcard(origin) {
		return answer
	}
	label := strings.Index(origin, "://") + len("://")
	end := label
	for end < len(lower) && isLabelRune(rune(lower[end])) {
		end++
	}
	if label < len("://") || end == label || end == len(lower) || lower[end] != '.' {
		return nil
	}
	key := append(wild[:0], lower[:label]...)
	key = append(key, '*')
	key = append(key, lower[end:]...)
	if c.allowed[string(key)] == nil {
		return nil
	}
	echo := &corsEcho{room: [1]string{origin}}
	echo.corsAnswer = corsAnswer{c.policy, echo.room[:1:1]}
	return &echo.corsAnswer
}

// A corsEcho is the answer to one that a wildcard takes, with the room for its origin.
type corsEcho struct {
	corsAnswer
	room [1]string
}

func isWildcard(origin string) bool { return strings.Contains(origin, "*") }
