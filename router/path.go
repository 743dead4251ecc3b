package router

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// paths is the routes of one host.
//
// Prefixes are kept without their trailing slash ("/" is ""), so that a lookup is a walk back over the slashes of the
// request's path, each step one map lookup with a substring:
//
//	/a/b/c  ->  prefix["/a/b/c"]  prefix["/a/b"]  prefix["/a"]  prefix[""]
//
// The walk starts no further than the longest and the deepest prefix reach: without that, a path of ten thousand slashes
// would hash fifty million bytes.
type paths struct {
	exact    map[string]*Route
	prefix   map[string]*Route
	longest  int // bytes of the longest key of prefix
	deepest  int // slashes of the key of prefix that has the most
	regex    []regexRoute
	fallback *Route
}

type regexRoute struct {
	*Route
	pattern *regexp.Regexp
}

func (p *paths) lookup(path string) *Route {
	if r := p.exact[path]; r != nil {
		return r
	}
	if r := p.longestPrefix(path); r != nil {
		return r
	}
	for i := range p.regex {
		if p.regex[i].pattern.MatchString(path) {
			return p.regex[i].Route
		}
	}
	return p.fallback
}

func (p *paths) longestPrefix(path string) *Route {
	if len(p.prefix) == 0 {
		return nil
	}
	path = p.reach(path)
	for {
		if r := p.prefix[path]; r != nil {
			return r
		}
		slash := strings.LastIndexByte(path, '/')
		if slash < 0 {
			return nil
		}
		path = path[:slash]
	}
}

// reach cuts a path at the last place where a key may end: at its own end or at a slash, within the bytes of the longest
// key and the slashes of the deepest.
func (p *paths) reach(path string) string {
	if len(path) > p.longest {
		path = path[:p.longest+1]
		if end := strings.LastIndexByte(path, '/'); end >= 0 {
			path = path[:end]
		}
	}
	end := 0
	for range p.deepest + 1 {
		slash := strings.IndexByte(path[end:], '/')
		if slash < 0 {
			return path
		}
		end += slash + 1
	}
	return path[:end-1]
}

// A builder collects the routes of one host.
type builder struct {
	routes   []*Route
	isHost   bool
	fallback *Route
}

func (b *builder) add(r *Route) { b.routes = append(b.routes, r) }

// build returns nil when nothing was collected.
func (b *builder) build() *paths {
	if len(b.routes) == 0 && !b.isHost {
		return nil
	}
	p := &paths{fallback: b.fallback}
	var compiled map[string]*Route
	for _, r := range b.routes {
		switch r.Type {
		case Exact:
			put(&p.exact, r.Path, r)
		case Prefix:
			key := prefixKey(r.Path)
			put(&p.prefix, key, r)
			p.longest = max(p.longest, len(key))
			p.deepest = max(p.deepest, strings.Count(key, "/"))
		case Regex:
			if !put(&compiled, r.Path, r) {
				continue
			}
			if pattern, err := Compile(r.Path); err == nil {
				p.regex = append(p.regex, regexRoute{r, pattern})
			}
		}
	}
	return p
}

// put adds a route unless one has its key already.
func put(m *map[string]*Route, key string, r *Route) (added bool) {
	if *m == nil {
		*m = make(map[string]*Route)
	}
	if _, taken := (*m)[key]; taken {
		return false
	}
	(*m)[key] = r
	return true
}

func prefixKey(path string) string { return strings.TrimSuffix(path, "/") }

// len is how many routes there are, the fallback included.
func (p *paths) len() int {
	n := len(p.exact) + len(p.prefix) + len(p.regex)
	if p.fallback != nil {
		n++
	}
	return n
}

// ordered returns the routes in the order in which lookup tries them, the fallback last.
func (p *paths) ordered() []*Route {
	var routes []*Route
	for _, r := range p.exact {
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b *Route) int { return cmp.Compare(a.Path, b.Path) })
	exact := len(routes)
	for _, r := range p.prefix {
		routes = append(routes, r)
	}
	slices.SortFunc(routes[exact:], func(a, b *Route) int {
		return cmp.Or(cmp.Compare(len(prefixKey(b.Path)), len(prefixKey(a.Path))), cmp.Compare(a.Path, b.Path))
	})
	for _, r := range p.regex {
		routes = append(routes, r.Route)
	}
	if p.fallback != nil {
		routes = append(routes, p.fallback)
	}
	return routes
}
