package router

import (
	"cmp"
	"maps"
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

	// literal decides which prefixes the route comes before: those that are shorter. It is the number of bytes that every
	// match of this and of the regular expressions before it begins with, a slash at the end not counted, so that all routes
	// of the host have one order.
	literal int
}

// addRegex adds a route unless its expression does not compile.
func (p *paths) addRegex(r *Route) {
	pattern, err := Compile(r.Path)
	if err != nil {
		return
	}
	text := ""
	if plain, err := regexp.Compile(r.Path); err == nil {
		text, _ = plain.LiteralPrefix()
	}
	literal := len(prefixKey(text))
	if n := len(p.regex); n > 0 {
		literal = min(literal, p.regex[n-1].literal)
	}
	p.regex = append(p.regex, regexRoute{r, pattern, literal})
}

func (p *paths) lookup(path string) *Route {
	if r := p.exact[path]; r != nil {
		return r
	}
	prefix := p.longestPrefix(path)
	if len(p.regex) > 0 {
		if r := p.firstRegex(path, prefix); r != nil {
			return r
		}
	}
	if prefix != nil {
		return prefix
	}
	return p.fallback
}

// firstRegex returns the first regular expression that matches, of those that come before a prefix.
func (p *paths) firstRegex(path string, prefix *Route) *Route {
	least := -1
	if prefix != nil {
		least = len(prefixKey(prefix.Path))
	}
	for i := range p.regex {
		r := &p.regex[i]
		if r.literal <= least {
			break
		}
		if r.pattern.MatchString(path) {
			return r.Route
		}
	}
	return nil
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
			p.addRegex(r)
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
	prefixes := slices.SortedFunc(maps.Values(p.prefix), func(a, b *Route) int {
		return cmp.Or(cmp.Compare(len(prefixKey(b.Path)), len(prefixKey(a.Path))), cmp.Compare(a.Path, b.Path))
	})
	for _, r := range p.regex {
		for len(prefixes) > 0 && len(prefixKey(prefixes[0].Path)) >= r.literal {
			routes, prefixes = append(routes, prefixes[0]), prefixes[1:]
		}
		routes = append(routes, r.Route)
	}
	routes = append(routes, prefixes...)
	if p.fallback != nil {
		routes = append(routes, p.fallback)
	}
	return routes
}
