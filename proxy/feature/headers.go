package feature

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
)

// responseHeaders sets fields of every answer of the routes, from whoever it is (reference A12). It has the last word.
func responseHeaders(a *Annotations, d *Draft) {
	a.Section("Fields of answers", ReachPaths, "custom-headers names a ConfigMap whose keys are fields that every answer of the Ingress has, errors and redirects among "+
		"them; the operator says which names may be set. While the ConfigMap is missing, or has a name that may not be set, the routes answer 503: "+
		"such fields often protect the pages. Unlike in ingress-nginx, a change of the ConfigMap counts at once. An empty value removes the field.")
	allowed := a.Config().HeaderNames("global-allowed-response-headers", "the fields of answers that Ingresses may set with custom-headers")
	everywhere := a.Config().ConfigMap("add-headers", "the ConfigMap with fields that every answer of every Ingress has")
	own := a.Strict().ConfigMap("custom-headers", "the ConfigMap with fields that every answer has")
	server := a.Config().Bool("server-tokens", false, "whether answers say Server: sallyport")
	all := fields(everywhere, func(expected string) { a.Config().Refuse("add-headers", expected) })
	if server && all["Server"] == "" {
		all["Server"] = "sallyport"
	}
	if len(all) > 0 {
		setter := newFieldSetter(all)
		d.Everywhere(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proxy.From(r).Everywhere = setter
				next.ServeHTTP(w, r)
			})
		})
	}
	set := make(map[string]string)
	refuse := func(expected string) { a.Strict().Refuse("custom-headers", expected) }
	good := fields(own, refuse)
	for _, name := range slices.Sorted(maps.Keys(good)) {
		if !slices.Contains(allowed, name) {
			refuse(fmt.Sprintf("%q is not among the global-allowed-response-headers of the ConfigMap of the controller", name))
			continue
		}
		set[name] = good[name]
	}
	if len(set) > 0 {
		d.OnHeader(newFieldSetter(set))
	}
}

// fields are the good ones among those of a ConfigMap, by canonical name. The others are refused one by one.
func fields(data map[string]string, refuse func(expected string)) map[string]string {
	good := make(map[string]string, len(data))
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name, text := canonical(key), strings.TrimSpace(data[key])
		expected := checkFieldName(key)
		switch {
		case expected != "":
		case framing(name):
			expected = fmt.Sprintf("%q says how messages end or what becomes of the connection, which nobody may say but the proxy", name)
		default:
			expected = checkFieldValue(text)
		}
		if expected != "" {
			refuse(expected + "; it is not set")
			continue
		}
		good[name] = text
	}
	return good
}

// framing reports whether a field, by its canonical name, belongs to one message or connection by its nature. Set by hand
// it would make client and endpoint disagree about where a message ends.
func framing(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
		"Http2-Settings":
		return true
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}

// A fieldSetter gives answers their fields.
type fieldSetter struct {
	names  []string
	values [][]string // beside names; nil: the field is removed
}

func newFieldSetter(set map[string]string) *fieldSetter {
	s := new(fieldSetter)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		s.names = append(s.names, name)
		if set[name] == "" {
			s.values = append(s.values, nil)
		} else {
			s.values = append(s.values, []string{set[name]}[:1:1]) // shared by all answers: nobody can append to it in place
		}
	}
	return s
}

func (s *fieldSetter) SetHeader(_ *proxy.Exchange, header http.Header) {
	for i, name := range s.names {
		if s.values[i] == nil {
			delete(header, name)
		} else {
			header[name] = s.values[i]
		}
	}
}

// hideHeaders removes fields of endpoints' answers. It stands next to the endpoints, so that what features set stays.
func hideHeaders(a *Annotations, d *Draft) {
	a.Section("Fields of endpoints' answers", ReachProcess, "An endpoint's Server never passes unless allow-backend-server-header is on.")
	hidden := a.Config().HeaderNames("hide-headers", "the fields of endpoints' answers that clients do not get")
	hidden = slices.DeleteFunc(hidden, framing)
	if len(hidden) > 0 {
		set := make(map[string]string, len(hidden))
		for _, name := range hidden {
			set[name] = ""
		}
		d.OnHeader(newFieldSetter(set))
	}
}

// proxySetHeaders gives requests the fields that the operator wants endpoints to see (reference A11). It stands next to the
// endpoints: what it sets is not taken for the client's word by anybody but them.
func proxySetHeaders(a *Annotations, d *Draft) {
	a.Section("Fields of requests", ReachProcess, "The values may hold variables. An empty one, also one that comes out empty, removes the field.")
	data := a.Config().ConfigMap("proxy-set-headers", "the ConfigMap with fields that endpoints are sent, in place of the client's")
	refuse := func(expected string) { a.Config().Refuse("proxy-set-headers", expected) }
	var set []requestField
	good := fields(data, refuse)
	for _, name := range slices.Sorted(maps.Keys(good)) {
		text, err := value.Parse(good[name])
		if err != nil {
			refuse(name + ": " + err.Error() + "; it is not set")
			continue
		}
		set = append(set, requestField{name, text, literal(text)})
	}
	if len(set) > 0 {
		d.Use(func(next http.Handler) http.Handler { return &requestFields{next, set} })
	}
}

// A requestField is a field that requests are given.
type requestField struct {
	name  string
	text  *value.Template
	fixed []string // the value where it has no variables, else nil
}

func literal(t *value.Template) []string {
	if text, ok := t.Literal(); ok {
		return []string{text}[:1:1]
	}
	return nil
}

type requestFields struct {
	next http.Handler
	set  []requestField
}

func (h *requestFields) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for i := range h.set {
		f := &h.set[i]
		values := f.fixed
		if values == nil {
			text, err := f.text.ExpandField(r, nil)
			if err != nil { // without the field the endpoint might see less than it relies on
				proxy.Fail(w, r, http.StatusRequestHeaderFieldsTooLarge, proxy.BadRequest)
				return
			}
			values = []string{text}
		}
		switch {
		case f.name == "Host":
			if e := proxy.From(r); e.UpstreamHost == "" && isAuthority(values[0]) {
				e.UpstreamHost = values[0]
			}
		case values[0] == "":
			delete(r.Header, f.name)
		default:
			r.Header[f.name] = values
		}
	}
	h.next.ServeHTTP(w, r)
}
