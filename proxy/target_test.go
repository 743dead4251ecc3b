package proxy

import (
	"net/http"
	"strings"
	"testing"

	"sallyport/router"
)

func TestReadTargetHasOneReading(t *testing.T) {
	for _, c := range []struct{ raw, path, target string }{
		{"/", "/", "/"},
		{"/a/b?x=1", "/a/b", "/a/b?x=1"},
		{"/a?", "/a", "/a?"},
		{"/x?a=1;b=%zz&u=//h/../..", "/x", "/x?a=1;b=%zz&u=//h/../.."},
		{"/a%20b", "/a b", "/a%20b"},
		{"/caf%C3%a9", "/café", "/caf%C3%a9"},
		{"/pub/../admin", "/admin", "/admin"},
		{"/pub/%2e%2E/admin?q", "/admin", "/admin?q"},
		{"/./a/.", "/a/", "/a/"},
		{"/a/..", "/", "/"},
		{"/../../a", "/a", "/a"},
		{"/a/...", "/a/...", "/a/..."},
		{"/a/.hidden", "/a/.hidden", "/a/.hidden"},
		{"/%252e%252e/a", "/%2e%2e/a", "/%252e%252e/a"},
		{"/a%2Fb", "/a%2Fb", "/a%2Fb"},
		{"//a//b", "//a//b", "//a//b"},
		{"/a;x=1/b", "/a;x=1/b", "/a;x=1/b"},
	} {
		path, target, ok := readTarget(c.raw)
		if !ok || path != c.path || target != c.target {
			t.Errorf("readTarget(%q) = %q, %q, %v; want %q, %q", c.raw, path, target, ok, c.path, c.target)
		}
	}
}

func TestReadTargetRefusesWhatIsNoURI(t *testing.T) {
	for _, raw := range []string{
		"", "a", "*", "/a b", "/a\tb", "/a#b", "/a\"b", "/<", "/>", "/a\\b", "/^", "/`", "/{", "/|", "/}", "/\x7f", "/\xe9",
		"/%", "/%2", "/%zz", "/a%00b", "/x?a b", "/x?<",
	} {
		if path, target, ok := readTarget(raw); ok {
			t.Errorf("readTarget(%q) = %q, %q; want it refused", raw, path, target)
		}
	}
}

// TestReadingsThatDivergeAreRefused has the routes /, /admin and /a/b, and targets that lead to one of them in one
// reading and to another in the next.
func TestReadingsThatDivergeAreRefused(t *testing.T) {
	table := router.New([]router.Route{
		{Match: router.Match{Path: "/"}, Source: "root"},
		{Match: router.Match{Path: "/admin"}, Source: "admin"},
		{Match: router.Match{Path: "/a/b"}, Source: "ab"},
	}, nil)
	for _, c := range []struct{ target, source string }{ // "" for refused
		{"/x%2Fy", "root"},
		{"/x//y", "root"},
		{"/x;p=1/y", "root"},
		{"/x%5Cy", "root"},
		{"/admin/x;y", "admin"},
		{"/admin//x", "admin"},
		{"/a%2Fb", ""},
		{"/a%5Cb", ""},
		{"/a//b", ""},
		{"/a;x/b", ""},
		{"/a%3bx/b", ""},
		{"//admin", ""},
		{"/admin;x", ""},
		{"/;x/admin", ""},
		{"/%2Fadmin", ""},
		{"/x/..;/admin", ""},
		{"/x/..%3b/y", ""},
		{"/x%2F..%2Fadmin", ""},
		{"/x/..%2Fy", ""},
		{"/x/%5c..%5cadmin", ""},
		{"/x%252Fy", "root"},
		{"/admin/%2561", "admin"},
		{"/50%25off", "root"},
		{"/%2561dmin", ""},
		{"/%25%36%31dmin", ""},
		{"/%252525252561dmin", ""},
		{"/%25u0061dmin", ""},
		{"/a%252Fb", ""},
		{"/x/%252e%252e/y", ""},
		{"/;x%2Fadmin", ""},
		{"/x%3Fy", "root"},
		{"/admin%3Fy", ""},
		{"/admin%2500", ""},
		{"/admin%0A", ""},
		{"/%C3%A9%C0", "root"},
		{"/%C1%A1dmin", ""},
		{"/x/%C0%AE%C0%AE/y", ""},
		{"/a%E0%80%AFb", ""},
	} {
		path, target, ok := readTarget(c.target)
		if !ok {
			t.Errorf("readTarget(%q) refuses it", c.target)
			continue
		}
		route, ok := find(table, "h.test", path, target)
		switch {
		case !ok && c.source != "":
			t.Errorf("%q is refused, want route %s", c.target, c.source)
		case ok && c.source == "":
			t.Errorf("%q leads to %s, want it refused", c.target, route.Source)
		case ok && route.Source != c.source:
			t.Errorf("%q leads to %s, want %s", c.target, route.Source, c.source)
		}
	}
}

func TestOrdinaryTargetsAllocateNothing(t *testing.T) {
	table := router.New([]router.Route{{Match: router.Match{Path: "/"}, Handler: http.NotFoundHandler()}}, nil)
	if n := testing.AllocsPerRun(1000, func() {
		path, target, _ := readTarget("/some/where/index.html?a=b&c=%20")
		find(table, "a.test", path, target)
	}); n != 0 {
		t.Errorf("an ordinary target costs %v allocations", n)
	}
	path, target, _ := readTarget("/caf%C3%A9/%E0%B8%81/a%20b.html")
	if n := testing.AllocsPerRun(1000, func() { find(table, "a.test", path, target) }); n != 0 {
		t.Errorf("looking up an ordinary target with escapes costs %v allocations", n)
	}
}

// FuzzReadTarget holds what every admitted target promises: reading it again changes nothing, no reading of it has a dot
// segment that find would let pass, and the query is the client's, byte for byte.
func FuzzReadTarget(f *testing.F) {
	for _, seed := range []string{
		"/", "/a/b?x=1", "/pub/../admin", "/%2e%2e/%2E", "/a//../b", "/..;/x", "/a%2f..%2fb", "/a/./b/../../c?../..", "/%5c..%5c", "/a;b;c/..",
	} {
		f.Add(seed)
	}
	table := router.New([]router.Route{{Match: router.Match{Path: "/"}}, {Match: router.Match{Path: "/admin"}}}, nil)
	f.Fuzz(func(t *testing.T, raw string) {
		path, target, ok := readTarget(raw)
		if !ok {
			return
		}
		if path == "" || path[0] != '/' || target[0] != '/' {
			t.Fatalf("readTarget(%q) = %q, %q: both begin with a slash", raw, path, target)
		}
		again, forwarded, ok := readTarget(target)
		if !ok || again != path || forwarded != target {
			t.Fatalf("readTarget(%q) = %q, %q; reading that target gives %q, %q, %v", raw, path, target, again, forwarded, ok)
		}
		_, query, _ := strings.Cut(raw, "?")
		if _, got, _ := strings.Cut(target, "?"); got != query {
			t.Fatalf("readTarget(%q): query %q, want %q", raw, got, query)
		}
		rawPath, _, _ := strings.Cut(target, "?")
		if hasDotSegment(rawPath) {
			t.Fatalf("readTarget(%q) forwards %q, which has a dot segment", raw, target)
		}
		if _, ok := find(table, "a.test", path, target); ok {
			if read := mergeSlashes(dropParameters(turnBackslashes(decode(rawPath)))); hasDotSegment(read) {
				t.Fatalf("%q passes, and may be read as %q", target, read)
			}
		}
	})
}
