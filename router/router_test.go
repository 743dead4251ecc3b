package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// routes makes routes of lines such as "Prefix a.test /x"; the host "*" means any. The source is the line itself.
func routes(t testing.TB, lines ...string) []Route {
	t.Helper()
	var all []Route
	for _, line := range lines {
		r, err := parse(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func parse(line string) (Route, error) {
	kind, rest, _ := strings.Cut(line, " ")
	host, path, ok := strings.Cut(rest, " ")
	if !ok {
		return Route{}, fmt.Errorf("%q: expected type, host and path", line)
	}
	r := Route{Match: Match{Host: host, Path: path}, Source: line}
	if host == "*" {
		r.Host = ""
	}
	switch kind {
	case "Exact":
		r.Type = Exact
	case "Prefix":
		r.Type = Prefix
	case "Regex":
		r.Type = Regex
	default:
		return r, fmt.Errorf("%q: no path type %q", line, kind)
	}
	return r, nil
}

func sourceOf(r *Route) string {
	if r == nil {
		return ""
	}
	return r.Source
}

// The rows of https://kubernetes.io/docs/concepts/services-networking/ingress/#examples, in their order. Where the page
// has two request paths in a row there are two here.
func TestPathsOfTheIngressDocumentation(t *testing.T) {
	for _, c := range []struct {
		paths   []string
		request string
		want    string // the path that takes it, with its type; empty: none
	}{
		{[]string{"Prefix /"}, "/", "Prefix /"}, // (all paths)
		{[]string{"Prefix /"}, "/any", "Prefix /"},
		{[]string{"Prefix /"}, "/any/path/at/all/", "Prefix /"},
		{[]string{"Exact /foo"}, "/foo", "Exact /foo"},
		{[]string{"Exact /foo"}, "/bar", ""},
		{[]string{"Exact /foo"}, "/foo/", ""},
		{[]string{"Exact /foo/"}, "/foo", ""},
		{[]string{"Prefix /foo"}, "/foo", "Prefix /foo"},
		{[]string{"Prefix /foo"}, "/foo/", "Prefix /foo"},
		{[]string{"Prefix /foo/"}, "/foo", "Prefix /foo/"},
		{[]string{"Prefix /foo/"}, "/foo/", "Prefix /foo/"},
		{[]string{"Prefix /aaa/bb"}, "/aaa/bbb", ""},
		{[]string{"Prefix /aaa/bbb"}, "/aaa/bbb", "Prefix /aaa/bbb"},
		{[]string{"Prefix /aaa/bbb/"}, "/aaa/bbb", "Prefix /aaa/bbb/"},
		{[]string{"Prefix /aaa/bbb"}, "/aaa/bbb/", "Prefix /aaa/bbb"},
		{[]string{"Prefix /aaa/bbb"}, "/aaa/bbb/ccc", "Prefix /aaa/bbb"},
		{[]string{"Prefix /aaa/bbb"}, "/aaa/bbbxyz", ""},
		{[]string{"Prefix /", "Prefix /aaa"}, "/aaa/ccc", "Prefix /aaa"},
		{[]string{"Prefix /", "Prefix /aaa", "Prefix /aaa/bbb"}, "/aaa/bbb", "Prefix /aaa/bbb"},
		{[]string{"Prefix /", "Prefix /aaa", "Prefix /aaa/bbb"}, "/ccc", "Prefix /"},
		{[]string{"Prefix /aaa"}, "/ccc", ""},
		{[]string{"Prefix /foo", "Exact /foo"}, "/foo", "Exact /foo"},
	} {
		for _, host := range []string{"a.test", "*.test", "*"} {
			var lines []string
			for _, path := range c.paths {
				lines = append(lines, strings.Replace(path, " ", " "+host+" ", 1))
			}
			want := strings.Replace(c.want, " ", " "+host+" ", 1)
			for range 2 { // the order in which they are given does not count
				table := New(routes(t, lines...), nil)
				if got := sourceOf(table.Lookup("a.test", c.request)); got != want {
					t.Errorf("%q: %s is taken by %q, want %q", lines, c.request, got, want)
				}
				slices.Reverse(lines)
			}
		}
	}
}

// The rows of https://kubernetes.io/docs/concepts/services-networking/ingress/#hostname-wildcards, and their neighbours.
func TestHostsOfTheIngressDocumentation(t *testing.T) {
	table := New(routes(t, "Prefix *.foo.com /"), nil)
	for host, want := range map[string]bool{
		"bar.foo.com": true, "baz.bar.foo.com": false, "foo.com": false,
		"barfoo.com": false, ".foo.com": false, "bar.foo.com.evil.com": false, "foo.com.bar": false, "bar.foo.co": false, "": false, "com": false,
	} {
		if got := table.Lookup(host, "/") != nil; got != want {
			t.Errorf("*.foo.com takes %q: %v, want %v", host, got, want)
		}
	}
}

func TestTheBetterHostIsTheOnlyOneAsked(t *testing.T) {
	table := New(routes(t,
		"Prefix a.w.test /only",
		"Prefix *.w.test /", "Prefix *.w.test /only/wild",
		"Prefix * /", "Exact * /only/any", "Prefix *.empty.test /x",
	), []Host{{Name: "empty.test"}, {Name: "x.empty.test"}})
	for _, c := range []struct{ host, path, want string }{
		{"a.w.test", "/only/this", "Prefix a.w.test /only"},
		{"a.w.test", "/only/wild", "Prefix a.w.test /only"},
		{"a.w.test", "/only/any", "Prefix a.w.test /only"},
		{"a.w.test", "/other", ""},
		{"b.w.test", "/other", "Prefix *.w.test /"},
		{"b.w.test", "/only/any", "Prefix *.w.test /"},
		{"b.b.w.test", "/other", "Prefix * /"},
		{"w.test", "/only/any", "Exact * /only/any"},
		{"", "/other", "Prefix * /"},
		{"empty.test", "/", ""},
		{"x.empty.test", "/x", ""},
		{"y.empty.test", "/x", "Prefix *.empty.test /x"},
		{"y.empty.test", "/y", ""},
	} {
		if got := sourceOf(table.Lookup(c.host, c.path)); got != c.want {
			t.Errorf("%q %q is taken by %q, want %q", c.host, c.path, got, c.want)
		}
	}
}

func TestFallbackAnswersTheHostsOwnMisses(t *testing.T) {
	own := &Route{Match: Match{Host: "a.test", Path: "/"}, Source: "own"}
	every := &Route{Match: Match{Path: "/"}, Source: "every"}
	table := New(routes(t, "Prefix a.test /x", "Regex a.test /r[0-9]"), []Host{{"a.test", own}, {"", every}, {"bare.test", nil}})
	for _, c := range []struct{ host, path, want string }{
		{"a.test", "/x", "Prefix a.test /x"}, {"a.test", "/r1", "Regex a.test /r[0-9]"}, {"a.test", "/y", "own"},
		{"b.test", "/x", "every"}, {"", "/", "every"}, {"bare.test", "/", ""},
	} {
		if got := sourceOf(table.Lookup(c.host, c.path)); got != c.want {
			t.Errorf("%q %q is taken by %q, want %q", c.host, c.path, got, c.want)
		}
	}
}

func TestPathTypesAreTriedInOrder(t *testing.T) {
	table := New(routes(t,
		"Regex a.test /x/second", "Regex a.test /R/[a-z]+", "Regex a.test /r/.*", "Regex a.test /x.*",
		"Prefix a.test /x", "Prefix a.test /x/y/z", "Exact a.test /x/y", "Exact a.test /",
	), nil)
	for _, c := range []struct{ path, want string }{
		{"/x/y", "Exact a.test /x/y"},
		{"/x/y/", "Prefix a.test /x"},
		{"/x/y/z", "Prefix a.test /x/y/z"},
		{"/x/y/zz", "Prefix a.test /x"},
		{"/x/second", "Regex a.test /x/second"},
		{"/x/third", "Prefix a.test /x"},
		{"/r/abc", "Regex a.test /R/[a-z]+"},
		{"/R/ABC", "Regex a.test /R/[a-z]+"},
		{"/r/1", "Regex a.test /r/.*"},
		{"/before/r/1", ""},
		{"/", "Exact a.test /"},
		{"/X", "Regex a.test /x.*"},
		{"/y", ""},
	} {
		if got := sourceOf(table.Lookup("a.test", c.path)); got != c.want {
			t.Errorf("%q is taken by %q, want %q", c.path, got, c.want)
		}
	}
}

func TestAlternativesOfAnExpressionAreAllAnchored(t *testing.T) {
	table := New(routes(t, "Regex a.test /a|/b"), nil)
	for path, want := range map[string]bool{"/a": true, "/b": true, "/x/b": false} {
		if got := table.Lookup("a.test", path) != nil; got != want {
			t.Errorf("%q is taken: %v, want %v", path, got, want)
		}
	}
}

func TestTheFirstOfEqualsWins(t *testing.T) {
	var given []Route
	for _, source := range []string{"old", "new"} {
		for _, kind := range []PathType{Exact, Prefix, Regex} {
			given = append(given, Route{Match: Match{"a.test", "/" + kind.String(), kind}, Source: source})
		}
	}
	given = append(given, Route{Match: Match{"a.test", "/Prefix/", Prefix}, Source: "with a slash"})
	table := New(given, []Host{{"a.test", &Route{Source: "old"}}, {"a.test", &Route{Source: "new"}}})
	for _, path := range []string{"/Exact", "/Prefix", "/Prefix/", "/Regex", "/nothing"} {
		if got := sourceOf(table.Lookup("a.test", path)); got != "old" {
			t.Errorf("%s is taken by %q, want the old one", path, got)
		}
	}
	if n := table.Len(); n != 4 {
		t.Errorf("%d routes, want 4", n)
	}
}

func TestAnExpressionThatDoesNotCompileTakesNothing(t *testing.T) {
	const lookahead = "/(?!x)"
	if _, err := Compile(lookahead); err == nil || !strings.Contains(err.Error(), "(?!") {
		t.Errorf("Compile(%q) says %v, want an error that names the construct", lookahead, err)
	}
	table := New(routes(t, "Regex a.test "+lookahead, "Regex a.test /[", "Regex a.test /ok", "Prefix * /"), nil)
	for path, want := range map[string]string{"/ok": "Regex a.test /ok", lookahead: "", "/y": "", "/[": ""} {
		if got := sourceOf(table.Lookup("a.test", path)); got != want {
			t.Errorf("%q is taken by %q, want %q", path, got, want)
		}
	}
}

func TestPrefixesMetWithPathsOfManySlashes(t *testing.T) {
	table := New(routes(t, "Prefix a.test /a", "Prefix a.test /a/b", "Prefix a.test /a//", "Prefix b.test /"), nil)
	many := strings.Repeat("/", 10_000)
	for _, c := range []struct{ host, path, want string }{
		{"a.test", many, ""},
		{"a.test", "/a" + many, "Prefix a.test /a//"},
		{"a.test", "/a/b" + many, "Prefix a.test /a/b"},
		{"a.test", "/a/bcd", "Prefix a.test /a"},
		{"a.test", "/a/bc/d", "Prefix a.test /a"},
		{"a.test", "/abcde", ""},
		{"a.test", "/a//b", "Prefix a.test /a//"},
		{"b.test", many, "Prefix b.test /"},
	} {
		if got := sourceOf(table.Lookup(c.host, c.path)); got != c.want {
			t.Errorf("%.20q is taken by %q, want %q", c.path, got, c.want)
		}
	}
}

func TestNilTableHasNoRoutes(t *testing.T) {
	var table *Table
	if table.Lookup("a.test", "/") != nil || table.Len() != 0 || table.String() != "" {
		t.Errorf("the nil table has routes: %d, %q", table.Len(), table)
	}
}

func TestStringIsTheOrderInWhichRoutesAreTried(t *testing.T) {
	table := New(routes(t,
		"Prefix * /", "Regex * /any.*", "Prefix *.w.test /", "Exact b.test /z", "Exact b.test /a", "Regex a.test /r2", "Regex a.test /r1",
		"Prefix a.test /", "Prefix a.test /long/", "Prefix a.test /x", "Prefix a.test /long/er", "Exact a.test /x",
	), []Host{{"a.test", &Route{Match: Match{Host: "a.test", Path: "/"}, Source: "default/fallback"}}})
	want := strings.TrimPrefix(`
a.test     Exact    /x         Exact a.test /x
a.test     Prefix   /long/er   Prefix a.test /long/er
a.test     Prefix   /long/     Prefix a.test /long/
a.test     Regex    /r2        Regex a.test /r2
a.test     Regex    /r1        Regex a.test /r1
a.test     Prefix   /x         Prefix a.test /x
a.test     Prefix   /          Prefix a.test /
a.test     Prefix   /          default/fallback
b.test     Exact    /a         Exact b.test /a
b.test     Exact    /z         Exact b.test /z
*.w.test   Prefix   /          Prefix *.w.test /
*          Regex    /any.*     Regex * /any.*
*          Prefix   /          Prefix * /
`, "\n")
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n, want := table.Len(), strings.Count(want, "\n"); n != want {
		t.Errorf("Len is %d, want %d", n, want)
	}
	for first := range table.All() {
		if first.Source != "Exact a.test /x" {
			t.Errorf("All begins with %q", first.Source)
		}
		break
	}
}

func TestStringIsOneLineARouteWhateverThePath(t *testing.T) {
	given := []Route{{Match: Match{"a.test", "/x\nb.test\tExact\t/forged\tdefault/forged", Regex}, Source: "default/bad"}}
	want := `a.test   Regex   "/x\nb.test\tExact\t/forged\tdefault/forged"   default/bad` + "\n"
	if got := New(given, nil).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestATableHasTheHostsItNames(t *testing.T) {
	route := func(host string) Route { return Route{Match: Match{Host: host, Path: "/"}} }
	table := New([]Route{route("a.test"), route("*.apps.test"), route("~^r[0-9]+\\.test$"), route("")}, []Host{{Name: "bare.test"}})
	for host, want := range map[string]bool{
		"a.test": true, "x.apps.test": true, "r7.test": true, "bare.test": true,
		"b.test": false, "apps.test": false, "x.y.apps.test": false, "rx.test": false, "": false,
	} {
		if got := table.Has(host); got != want {
			t.Errorf("Has(%q) = %v, want %v", host, got, want)
		}
	}
	if (*Table)(nil).Has("a.test") || New(nil, nil).Has("a.test") {
		t.Error("an empty table has a host")
	}
}
