package feature

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
	"sallyport/router"
)

// rewrite changes the path that an endpoint is asked for, and says whether paths are regular expressions (reference A4.2
// and A4.3).
//
//	path /app(/|$)(.*), rewrite-target /$2
//	/app/a/b?q=1   ->   /a/b?q=1
//	/app           ->   /
//
// The path of the Ingress is searched, as a regular expression and whatever the case, in the decoded path of the request,
// anywhere in it. Where it is found the whole path is replaced by the target; the query stays.
func rewrite(a *Annotations, d *Draft) {
	a.Section("Rewriting and regular expressions", ReachPaths, "With use-regex, or with a rewrite-target that differs from a path, every path of the host becomes a regular expression, "+
		"Exact and Prefix ones included, as long as their Ingresses are of the same namespace: matched at the start, whatever the case, the longest text first. "+
		"`sallyport routes` names the Ingress that caused it. Unlike in ingress-nginx, Ingresses of other namespaces are left alone, and expressions are RE2: "+
		"a path that needs lookaround or back-references is not served, and told. The target replaces the whole path, with $1 to $9 filled in; encoded slashes become slashes. "+
		"A target that is an address is a redirect with 302, which keeps the query. "+
		"What would make a path with . or .. between slashes is answered 400.")
	target := a.String("rewrite-target", "", "the path that endpoints are asked for, with $1 to $9 for what the groups of the Ingress's path matched; or an address to redirect to")
	useRegex := a.Bool("use-regex", false, "whether the paths of the host are regular expressions")
	prefix := a.template("x-forwarded-prefix", "text, with $1 to $9 and variables", "the value of X-Forwarded-Prefix for endpoints, sent where a rewrite is active; $1 to $9 are allowed", value.Captures)
	d.SpreadRegex(func(path string) bool { return useRegex || target != "" && target != path })
	if target == "" {
		return
	}
	var next func(Place, *regexp.Regexp) Middleware
	if isAddress(target) {
		next = a.redirectOf(target)
	} else {
		next = a.replacementOf(target, prefix)
	}
	if next == nil {
		return // the paths are expressions all the same: as text they would take other requests
	}
	d.UseAt(func(at Place) Middleware {
		if at.Match.Path == target || at.Match.Type != router.Regex {
			return nil // the paths that no route takes are not rewritten either
		}
		pattern, err := regexp.Compile("(?i)" + at.Match.Path)
		if err != nil {
			return nil // its author did not write an expression
		}
		return next(at, pattern)
	})
}

func isAddress(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// redirectOf is the middleware of a target that is an address. Nil: it is none that can be used.
func (a *Annotations) redirectOf(target string) func(Place, *regexp.Regexp) Middleware {
	to, err := value.ParseURL(target, value.Captures)
	if err != nil {
		a.Refuse("rewrite-target", "expected a path, or an address to redirect to: "+err.Error())
		return nil
	}
	return func(_ Place, pattern *regexp.Regexp) Middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				captures := pattern.FindStringSubmatch(proxy.From(r).NormalPath())
				if captures == nil {
					next.ServeHTTP(w, r)
					return
				}
				location, err := to.Expand(r, captures[1:])
				if err != nil {
					proxy.Fail(w, r, http.StatusBadRequest, proxy.BadRequest)
					return
				}
				redirectTo(w, r, http.StatusFound, withQuery(location, proxy.From(r).Target))
			})
		}
	}
}

// withQuery is a location with the query of a request's target behind its own, unless it ends in "?" (reference A4.3: the
// query is kept).
func withQuery(location, target string) string {
	_, query, _ := strings.Cut(target, "?")
	bare, ended := strings.CutSuffix(location, "?")
	switch {
	case ended:
		return bare
	case query == "":
		return location
	case strings.Contains(location, "?"):
		return location + "&" + query
	}
	return location + "?" + query
}

// replacementOf is the middleware of a target that is a path. Nil: it is none that can be used.
func (a *Annotations) replacementOf(target string, prefix *value.Template) func(Place, *regexp.Regexp) Middleware {
	template, err := value.Parse(target, value.Captures)
	switch {
	case err != nil:
		a.Refuse("rewrite-target", "expected a path, with $1 to $9 for what groups matched: "+err.Error())
		return nil
	case strings.ContainsAny(target, "?# "):
		a.Refuse("rewrite-target", "expected a path, without a query and without spaces: the query of the request is kept")
		return nil
	case climbs([]byte(target)):
		a.Refuse("rewrite-target", "expected a path without . and .. between its slashes")
		return nil
	}
	return func(_ Place, pattern *regexp.Regexp) Middleware {
		return func(next http.Handler) http.Handler {
			return &rewriter{next: next, pattern: pattern, template: template, fixed: onlyCaptures(target), prefix: prefix}
		}
	}
}

// onlyCaptures is a target as [regexp.Regexp.Expand] has it; "" where it holds variables.
func onlyCaptures(target string) string {
	var b strings.Builder
	for i := 0; i < len(target); i++ {
		switch c := target[i]; {
		case c != '$':
			b.WriteByte(c)
		case i+1 < len(target) && target[i+1] >= '0' && target[i+1] <= '9':
			i++
			b.WriteString("${" + target[i:i+1] + "}")
		case i+1 == len(target):
			b.WriteString("$$")
		default:
			return ""
		}
	}
	return b.String()
}

// A rewriter replaces the path that is sent upstream.
type rewriter struct {
	next     http.Handler
	pattern  *regexp.Regexp
	template *value.Template
	fixed    string // the template where captures are all it needs, else ""
	prefix   *value.Template
}

func (h *rewriter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := proxy.From(r)
	path := e.NormalPath()
	at := h.pattern.FindStringSubmatchIndex(path)
	if at == nil && !strings.HasSuffix(path, "/") {
		// A Prefix that ends in a slash takes the path without it too.
		path += "/"
		at = h.pattern.FindStringSubmatchIndex(path)
	}
	if h.prefix != nil {
		if value, err := h.prefix.ExpandField(r, captured(path, at)); err == nil && value != "" {
			r.Header.Set("X-Forwarded-Prefix", value)
		}
	}
	if at == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	var room, out [256]byte
	replaced := room[:0]
	if h.fixed != "" {
		replaced = h.pattern.ExpandString(replaced, h.fixed, path, at)
	} else {
		text, err := h.template.ExpandWith(r, captured(path, at))
		if err != nil {
			proxy.Fail(w, r, http.StatusBadRequest, proxy.BadRequest)
			return
		}
		replaced = append(replaced, text...)
	}
	if climbs(replaced) {
		// The pieces were harmless, and what they make would lead to a path that another route may guard.
		proxy.Fail(w, r, http.StatusBadRequest, proxy.AmbiguousPath)
		return
	}
	target := proxy.AppendTarget(out[:0], replaced)
	if query := strings.IndexByte(e.Target, '?'); query >= 0 {
		target = append(target, e.Target[query:]...)
	}
	e.UpstreamTarget = string(target)
	h.next.ServeHTTP(w, r)
}

// climbs reports whether some reading of a rewritten path has a dot segment, which the path of the request had not: it was
// resolved there.
func climbs(path []byte) bool {
	for len(path) > 0 {
		end := bytes.IndexAny(path, "/\\")
		segment := path
		if path = path[len(path):]; end >= 0 {
			segment, path = segment[:end], segment[end+1:]
		}
		segment, _, _ = bytes.Cut(segment, []byte(";"))
		if string(segment) == "." || string(segment) == ".." {
			return true
		}
	}
	return false
}

// captured is what groups matched, "" for those that did not.
func captured(path string, at []int) []string {
	if len(at) < 2 {
		return nil
	}
	groups := make([]string, 0, len(at)/2-1)
	for i := 2; i < len(at); i += 2 {
		if at[i] < 0 {
			groups = append(groups, "")
			continue
		}
		groups = append(groups, path[at[i]:at[i+1]])
	}
	return groups
}
