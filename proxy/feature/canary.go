package feature

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"sallyport/proxy"
	"sallyport/proxy/feature/pattern"
	"sallyport/proxy/upstream"
)

// Canaries (reference A16): an Ingress may offer its Services beside those of other Ingresses, for some of their requests.
//
//	Ingress web          a.test/shop  to  shop        the route, with everything that is asked for it
//	Ingress web-canary   a.test/shop  to  shop-next   canary: "true", canary-by-header: X-Next, canary-weight: "10"
//
//	X-Next: always       to shop-next
//	X-Next: never        to shop
//	anything else        one request in ten to shop-next
//
// A canary makes no route. The controller lays it beside the route with its host, path and path type (controller/canary.go);
// here is what it asks for, and the choice among a route and its canaries.

// canary says that an Ingress is one, and which requests it takes.
func canary(a *Annotations, d *Draft) {
	a.Section("Canaries", ReachPaths, "An Ingress with canary: \"true\" makes no routes of its own. Each of its paths follows the route that another Ingress of its namespace has for the same host, path and "+
		"path type, and takes some of the requests of that route to its own Service; its defaultBackend follows that of the Ingress whose default backend answers for the host, or for all other hosts where the canary has no rules. "+
		"Unlike in ingress-nginx nothing but that route is touched, whatever else leads to the same Services, and a route may have any number of canaries. "+
		"Who asks for a canary by header or cookie, the oldest first, gets it; who says never to one is not sent there. The weights divide all other requests: each canary "+
		"has its share of its total, and shares beyond the whole are cut. A canary without endpoints takes no requests, and a route without endpoints answers 503 whatever its canaries have. "+
		"What else is asked for the requests is for the route's Ingress to say. Of the canary's own annotations count those that say how endpoints of its Service are picked; where any "+
		"other is not the same on the route's Ingress that is told, and if it is to keep clients out the canary takes no requests. "+
		"Expressions are RE2's, and one that cannot be read sends nobody to the canary who sends the header.")
	wanted := a.Bool("canary", false, "whether the Ingress is a canary")
	c := &Canary{written: a.written}
	c.Weight = a.Int("canary-weight", 0, "how many of canary-weight-total requests the canary takes, of those that neither header nor cookie decides")
	c.Total = a.IntBetween("canary-weight-total", usualTotal, usualTotal, 1<<31-1, "what the weight is a share of")
	c.header = a.fieldName("canary-by-header", "the header field that asks for the canary, with the value always, or for the route, with never")
	c.value = a.String("canary-by-header-value", "", "the value of the header field that asks for the canary, in place of always and never; any other decides nothing")
	c.pattern = a.expression("canary-by-header-pattern", "what the value of the header field must hold to ask for the canary, in place of always and never; it does not count beside canary-by-header-value")
	c.cookie = a.cookieName("canary-by-cookie", "the cookie that asks for the canary, with the value always, or for the route, with never")
	c.Legacy = a.Word("affinity-canary-behavior", "sticky", []string{"sticky", "legacy"}, "with sticky a client with session affinity stays on the side, route or canary, that it was sent to first; with legacy every request is decided by itself") == "legacy"
	if !wanted {
		a.refuseWithoutCanary()
		return
	}
	c.closed = c.value == "" && a.Has("canary-by-header-value") || c.value == "" && c.pattern == nil && a.Has("canary-by-header-pattern")
	if c.header == "" && !a.Has("canary-by-header") {
		for _, name := range []string{"canary-by-header-value", "canary-by-header-pattern"} {
			a.Refuse(name, "expected canary-by-header beside it, which names the field; it has no effect")
		}
	}
	d.Canary = c
}

// usualTotal is the total of weights. A smaller one does not count, as in ingress-nginx.
const usualTotal = 100

// refuseWithoutCanary tells of annotations that say something of a canary where there is none.
func (a *Annotations) refuseWithoutCanary() {
	for _, name := range []string{"canary-weight", "canary-weight-total", "canary-by-header", "canary-by-header-value", "canary-by-header-pattern", "canary-by-cookie"} {
		if a.Has(name) {
			a.Refuse(name, `expected canary: "true" beside it; without, this is an Ingress like any other, which may take all requests of the route it was to stand beside`)
		}
	}
}

// fieldName reads the name of a header field. Hyphens and underscores are alike.
func (a *Annotations) fieldName(name, usage string) string {
	d := Declaration{Name: name, Values: "the name of a header field", Usage: usage}
	return read(a, d, "", func(text string) (string, string) {
		text = strings.TrimSpace(text)
		return canonical(strings.ReplaceAll(text, "_", "-")), checkFieldName(text)
	})
}

// cookieName reads the name of a cookie.
func (a *Annotations) cookieName(name, usage string) string {
	d := Declaration{Name: name, Values: "the name of a cookie", Usage: usage}
	return read(a, d, "", func(text string) (string, string) {
		text = strings.TrimSpace(text)
		return text, unless(httpguts.ValidHeaderFieldName(text), shown(text)+" is no name of a cookie") // both are tokens (RFC 6265 section 4.1.1)
	})
}

// expression reads a regular expression that matches anywhere in a text. Nil: it is absent, or bad.
func (a *Annotations) expression(name, usage string) *regexp.Regexp {
	d := Declaration{Name: name, Values: "a regular expression (RE2)", Usage: usage}
	return read(a, d, nil, func(text string) (*regexp.Regexp, string) {
		if expected := oneLine(text); expected != "" {
			return nil, expected
		}
		if err := pattern.Diagnose(text); err != nil {
			return nil, "expected a regular expression: " + err.Error()
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, "expected a regular expression: " + err.Error()
		}
		return re, ""
	})
}

// A Canary is which requests an Ingress takes from the routes it is laid beside.
type Canary struct {
	// Weight of Total requests, of those that nothing else decides, are its own.
	Weight, Total int
	// Legacy decides every request by itself, also those of clients that have session affinity.
	Legacy bool

	header  string         // canonical; empty: none decides
	value   string         // empty: none is asked for
	pattern *regexp.Regexp // nil: none is asked for
	closed  bool           // whoever sends header is sent elsewhere: what its value must be cannot be read
	cookie  string         // empty: none decides
	written map[string]written
}

// A verdict is what a request says of a canary.
type verdict uint8

const (
	undecided verdict = iota
	wants             // the request is for the canary
	shuns             // it is not
)

// decide reads what the request says in so many words.
func (c *Canary) decide(r *http.Request) verdict {
	if text, sent := fieldOf(r, c.header); sent {
		switch {
		case c.closed:
			return shuns
		case c.value != "":
			if text == c.value {
				return wants
			}
		case c.pattern != nil:
			if c.pattern.MatchString(text) {
				return wants
			}
		case text == "always":
			return wants
		case text == "never":
			return shuns
		}
	}
	if c.cookie != "" {
		switch cookieOf(r, c.cookie) {
		case "always":
			return wants
		case "never":
			return shuns
		}
	}
	return undecided
}

// fieldOf is a field as nginx has it in a variable: several are joined.
func fieldOf(r *http.Request, name string) (text string, sent bool) {
	if name == "" {
		return "", false
	}
	switch values := r.Header[name]; {
	case len(values) == 1:
		return values[0], true
	case len(values) > 1:
		return strings.Join(values, ", "), true
	}
	return r.Host, name == "Host"
}

// cookieOf is the value of the first cookie with a name, whatever the case of that; "" where there is none.
func cookieOf(r *http.Request, name string) string {
	for _, line := range r.Header["Cookie"] {
		for rest := line; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			if key, value, ok := strings.Cut(pair, "="); ok && strings.EqualFold(strings.TrimSpace(key), name) {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}

// Key is one of the canary's annotations in full.
func (c *Canary) Key(name string) string { return c.written[name].key }

// Upstream is how the canary's requests are sent: as the route's are, to endpoints that are picked as the canary says. The
// affinity that clients have for the route they have for the canary too, by the same cookie.
func (c *Canary) Upstream(route, own upstream.Options) upstream.Options {
	route.Balance, route.HashBy = own.Balance, own.HashBy
	if c.Legacy || route.Affinity == nil {
		route.Affinity = own.Affinity
	}
	return route
}

// An Ignored is an annotation of a canary that does not count, and that the route's Ingress does not have just so.
type Ignored struct {
	Key    string // in full
	Guards bool   // it is to keep clients out
}

// Ignored goes through the canary's annotations beside those of the route's Ingress.
func (c *Canary) Ignored(route map[string]string) []Ignored {
	var all []Ignored
	theirs := newAnnotations(Input{Annotations: route}).written
	for _, name := range slices.Sorted(maps.Keys(c.written)) {
		w := c.written[name]
		if !countsOnCanary(name) && annotationNames()[name] && strings.TrimSpace(theirs[name].value) != strings.TrimSpace(w.value) {
			all = append(all, Ignored{w.key, guards(name)})
		}
	}
	return all
}

// countsOnCanary reports whether an annotation says something of a canary's own Service, or of the canary.
func countsOnCanary(name string) bool {
	for _, family := range []string{"canary", "affinity", "session-cookie-", "load-balance", "upstream-hash-by", "slow-start", "service-upstream"} {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return ofService()[name]
}

// ofService are the annotations that reach the Services of an Ingress.
var ofService = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool)
	for _, d := range Declarations() {
		if d.Annotation && d.Section.Reach == ReachService {
			names[d.Name] = true
		}
	}
	return names
})

// Shares divides the requests that nothing else decides among the canaries of a route, in their order. Over is the index of
// the first that has less than it asks for, because the others leave no more; -1: there is none.
func Shares(canaries []*Canary) (shares []float64, over int) {
	over = -1
	left := 1.0
	for i, c := range canaries {
		share := float64(c.Weight) / float64(c.Total)
		if share > left+rounding {
			share = left
			if over < 0 {
				over = i
			}
		}
		left = max(0, left-share)
		shares = append(shares, share)
	}
	return shares, over
}

// rounding is what a sum of fractions may be off by: ten tenths are a whole.
const rounding = 1e-9

// A Side is one of the ways that requests of a route may go.
type Side struct {
	Canary *Canary          // nil: the route itself
	Share  float64          // of the requests that nothing else decides
	Info   *proxy.RouteInfo // for log and metrics
	Pool   *upstream.Pool
	// Affinity is what keeps clients where they were first; nil: nothing does.
	Affinity *upstream.Affinity
	Handler  http.Handler
}

// holds reports whether a client was there before, and is to come again.
func (s *Side) holds(r *http.Request) bool { return s.Affinity != nil && s.Affinity.Holds(r, s.Pool) }

// Split sends the requests of a route to it or to its canaries, the first of which is asked first.
func Split(route Side, canaries []Side) http.Handler {
	s := &split{route: route}
	at := 0.0
	for _, side := range canaries {
		s.sides = append(s.sides, portion{side, at, at + side.Share})
		s.sticks = s.sticks || !side.Canary.Legacy
		at += side.Share
		if at > 1-rounding {
			s.sides[len(s.sides)-1].to = 1 // which no draw reaches
		}
	}
	return s
}

type split struct {
	route  Side
	sides  []portion
	sticks bool // some canary keeps the clients that it got, and leaves the route its own
}

// A portion is a canary with what it has of 0 to 1, from being its own and to the next one's.
type portion struct {
	Side
	from, to float64
}

func (s *split) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if side := s.pick(r); side != nil {
		proxy.From(r).Info = side.Info
		side.Handler.ServeHTTP(w, r)
		return
	}
	s.route.Handler.ServeHTTP(w, r)
}

// pick is the canary that takes a request; nil: the route does.
func (s *split) pick(r *http.Request) *portion {
	if s.route.Pool.Len() == 0 {
		return nil // the answer is 503, whatever the canaries have
	}
	stays := false // at the route, as far as a canary respects that
	if s.sticks {
		if stays = s.route.holds(r); !stays {
			if side := s.holding(r); side != nil {
				return side
			}
		}
	}
	at := rand.Float64()
	var drawn *portion
	for i := range s.sides {
		side := &s.sides[i]
		if stays && !side.Canary.Legacy {
			continue
		}
		switch side.Canary.decide(r) {
		case wants:
			return side.living()
		case undecided:
			if side.from <= at && at < side.to {
				drawn = side
			}
		}
	}
	return drawn.living()
}

// holding is the canary whose client it is; nil: it is none's.
func (s *split) holding(r *http.Request) *portion {
	for i := range s.sides {
		if side := &s.sides[i]; !side.Canary.Legacy && side.holds(r) {
			return side
		}
	}
	return nil
}

// living is the canary where it can take a request.
func (s *portion) living() *portion {
	if s == nil || s.Pool.Len() == 0 {
		return nil
	}
	return s
}
