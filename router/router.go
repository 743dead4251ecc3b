// Package router answers one question: which route serves this host and path?
//
// A [Table] is built once from routes and never changes. Whoever wants another one builds another one, or derives it
// from the last with [Table.Update], which costs by what changed and shares the rest, and swaps a pointer.
//
//	table := router.New([]router.Route{
//		{Match: router.Match{Host: "a.test", Path: "/", Type: router.Prefix}, Source: "default/web", Handler: web},
//	}, nil)
//	route := table.Lookup("a.test", "/index.html")
//
// # The order in which routes are tried
//
// The host decides first: the exact name, else the wildcard that takes its first label, else the first regular
// expression for hosts, else the routes that take any host. A host that is in the table is the only one asked: a path it
// does not serve is answered by its own [Host.Fallback], never by a wildcard host or by the routes for any host.
//
// Then the path, among the routes of that host: Exact; then the longest Prefix, by whole segments; then Regex routes
// in the order they were given. This is the order of the Kubernetes Ingress documentation
// (https://kubernetes.io/docs/concepts/services-networking/ingress/#path-types), with Regex behind it. Where a host has
// both, a Regex comes before each Prefix that is shorter than the text which every match of it, and of the Regex routes
// before it, begins with: /api/(.*) comes before /, and neither /(.*) nor /a(.*) before /a.
//
// # What it does not do
//
// It does not read requests: host and path arrive in the one form the table is written in, a lower-case name without
// port and a decoded path without dot segments. It knows nothing of Kubernetes.
package router

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A PathType says how a route's path is compared with a request's.
type PathType uint8

const (
	// Prefix takes the path itself and everything below it, by whole segments: /foo takes /foo, /foo/ and /foo/bar, not
	// /foobar. A trailing slash means nothing: /foo/ is the same Prefix as /foo.
	Prefix PathType = iota
	// Exact takes the path itself, byte for byte.
	Exact
	// Regex takes every path in which the regular expression (RE2 syntax) matches at the start, whatever the case.
	Regex
)

func (t PathType) String() string {
	switch t {
	case Exact:
		return "Exact"
	case Prefix:
		return "Prefix"
	case Regex:
		return "Regex"
	}
	return "?"
}

// A Match says which requests a route takes.
type Match struct {
	Host string   // lower case; "*.example.org" takes exactly one label; "~" and a regular expression; "" takes any host
	Path string   // decoded, begins with '/'
	Type PathType // Prefix, Exact, Regex
}

// A Route is a Match and what answers it. Source names the Ingress ("namespace/name"), for logs, metrics and explanations.
type Route struct {
	Match
	Source  string
	Handler http.Handler
}

// A Host is what holds for a host as a whole, beside its routes.
type Host struct {
	// Name is the host as in [Match].Host.
	Name string
	// Fallback answers the paths of this host that no route takes. Nil means that Lookup returns nil for them.
	Fallback *Route
}

// A Table finds the route for a request. It never changes; build another and swap it. The nil Table has no routes.
type Table struct {
	names     map[string]*paths // by exact name
	wildcards map[string]*paths // by what follows the first label, dot included: ".example.org"
	patterns  []hostPattern     // by name
	any       *paths            // nil: no route takes any host
}

// A hostPattern takes the hosts in which a regular expression matches.
type hostPattern struct {
	name    string // with its "~"
	pattern *regexp.Regexp
	paths   *paths
}

// New builds a table. Of two routes with equal Match the first wins; so does the first of two Hosts with one name. A
// Regex route whose expression does not compile takes no request: see [Compile]. The table points into routes: leave
// them as they are.
func New(routes []Route, hosts []Host) *Table {
	return (*Table)(nil).Update(nil, routes, hosts)
}

// Update returns a table in which every host named by routes, hosts or gone has the given routes and nothing else; a
// host that is only in gone is no longer in the table. All other hosts are shared with t, which stays as it was.
func (t *Table) Update(gone []string, routes []Route, hosts []Host) *Table {
	changed := make(map[string]*builder)
	at := func(name string) *builder {
		b := changed[name]
		if b == nil {
			b = new(builder)
			changed[name] = b
		}
		return b
	}
	for i := range routes {
		at(routes[i].Host).add(&routes[i])
	}
	for i := range hosts {
		if b := at(hosts[i].Name); !b.isHost {
			b.isHost, b.fallback = true, hosts[i].Fallback
		}
	}
	for _, name := range gone {
		at(name)
	}

	next := &Table{names: make(map[string]*paths), wildcards: make(map[string]*paths)}
	if t != nil {
		next.names, next.wildcards, next.patterns, next.any = maps.Clone(t.names), maps.Clone(t.wildcards), slices.Clone(t.patterns), t.any
	}
	for name, b := range changed {
		next.set(name, b.build())
	}
	return next
}

// set puts p in place for a host; nil removes the host.
func (t *Table) set(name string, p *paths) {
	byName := t.names
	switch {
	case name == "":
		t.any = p
		return
	case strings.HasPrefix(name, "~"):
		t.setPattern(name, p)
		return
	case strings.HasPrefix(name, "*."):
		name, byName = name[1:], t.wildcards
	}
	if p == nil {
		delete(byName, name)
		return
	}
	byName[name] = p
}

// setPattern puts p in place for the hosts that a regular expression takes. One that does not compile takes none.
func (t *Table) setPattern(name string, p *paths) {
	at, found := slices.BinarySearchFunc(t.patterns, name, func(h hostPattern, name string) int { return strings.Compare(h.name, name) })
	if found {
		t.patterns = slices.Delete(t.patterns, at, at+1)
	}
	if p == nil {
		return
	}
	if pattern, err := CompileHost(name); err == nil {
		t.patterns = slices.Insert(t.patterns, at, hostPattern{name, pattern, p})
	}
}

// Lookup returns the route that serves host and path, or nil. Host is a lower-case name without port or trailing dot
// ("" when the request has none), path a decoded path that begins with '/'. It allocates nothing.
func (t *Table) Lookup(host, path string) *Route {
	p := t.host(host)
	if p == nil {
		return nil
	}
	return p.lookup(path)
}

// Has reports whether a host, as for Lookup, is one that the table names: itself, by a wildcard or by an expression. Routes
// that take any host name none.
func (t *Table) Has(host string) bool {
	p := t.host(host)
	return p != nil && p != t.any
}

func (t *Table) host(name string) *paths {
	if t == nil {
		return nil
	}
	if p := t.names[name]; p != nil {
		return p
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 {
		if p := t.wildcards[name[dot:]]; p != nil {
			return p
		}
	}
	if name != "" {
		for i := range t.patterns {
			if t.patterns[i].pattern.MatchString(name) {
				return t.patterns[i].paths
			}
		}
	}
	return t.any
}

// Compile returns the regular expression that a Regex route with this path is matched by. The error is that of package
// regexp and names the construct that is not in RE2.
func Compile(path string) (*regexp.Regexp, error) {
	return regexp.Compile("(?i)^(?:" + path + ")")
}

// CompileHost returns the regular expression that a host beginning with "~" stands for. It matches anywhere in a name.
func CompileHost(name string) (*regexp.Regexp, error) {
	return regexp.Compile("(?i)" + strings.TrimPrefix(name, "~"))
}
