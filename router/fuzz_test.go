package router

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// slowLookup is what the package comment says, read off the list of routes for every request.
func slowLookup(all []Route, host, path string) *Route {
	name, ok := slowHost(all, host)
	if !ok {
		return nil
	}
	var prefix *Route
	for i := range all {
		if r := &all[i]; r.Host == name && r.Type == Exact && r.Path == path {
			return r
		}
	}
	for i := range all {
		r := &all[i]
		if r.Host == name && r.Type == Prefix && below(r.Path, path) && (prefix == nil || segments(r.Path) > segments(prefix.Path)) {
			prefix = r
		}
	}
	least := 1 << 30
	for i := range all {
		r := &all[i]
		if r.Host != name || r.Type != Regex {
			continue
		}
		pattern, err := Compile(r.Path)
		if err != nil {
			continue
		}
		least = min(least, literal(r.Path))
		if pattern.MatchString(path) && (prefix == nil || least > len(strings.TrimSuffix(prefix.Path, "/"))) {
			return r
		}
	}
	return prefix
}

// literal is how much of its path every match of a regular expression has in common, a slash at the end not counted.
func literal(expr string) int {
	plain, err := regexp.Compile(expr)
	if err != nil {
		return 0
	}
	text, _ := plain.LiteralPrefix()
	return len(strings.TrimSuffix(text, "/"))
}

// slowHost is the name under which routes are found for a host.
func slowHost(all []Route, host string) (name string, ok bool) {
	has := func(name string) bool {
		for i := range all {
			if all[i].Host == name {
				return true
			}
		}
		return false
	}
	if host != "" && !strings.HasPrefix(host, "*.") && has(host) {
		return host, true
	}
	if label, rest, dot := strings.Cut(host, "."); dot && label != "" && has("*."+rest) {
		return "*." + rest, true
	}
	names := []string{}
	for i := range all {
		if strings.HasPrefix(all[i].Host, "~") {
			names = append(names, all[i].Host)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if pattern, err := CompileHost(name); err == nil && host != "" && pattern.MatchString(host) {
			return name, true
		}
	}
	return "", has("")
}

// below reports whether a path is a prefix of another by whole segments.
func below(prefix, path string) bool {
	want := strings.Split(strings.TrimSuffix(prefix, "/"), "/")
	got := strings.Split(path, "/")
	if len(got) < len(want) {
		return false
	}
	for i := range want {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

func segments(prefix string) int { return strings.Count(strings.TrimSuffix(prefix, "/"), "/") }

// FuzzLookup builds a table of lines as in routes, in one step and in two, and compares both with slowLookup.
func FuzzLookup(f *testing.F) {
	for _, seed := range []struct{ lines, host, path string }{
		{"Prefix a.test /", "a.test", "/"},
		{"Prefix a.test /foo\nExact a.test /foo\nPrefix a.test /", "a.test", "/foo/"},
		{"Prefix a.test /\nRegex a.test /api/(.*)\nRegex a.test /(.*)", "a.test", "/api/x"},
		{"Prefix a.test /a\nRegex a.test /a/b.\nRegex a.test /a.*", "a.test", "/a/bc"},
		{"Prefix ~^[a-z]+.test$ /\nPrefix ~b /b\nPrefix * /", "abc.test", "/b"},
		{"Prefix a.test /foo/\nPrefix a.test /foo/bar", "a.test", "/foo/barbaz"},
		{"Prefix a.test /aaa/bbb\nPrefix a.test /aaa", "a.test", "/aaa/bbbxyz"},
		{"Prefix *.test /x\nPrefix a.test /y\nPrefix * /", "a.test", "/x"},
		{"Prefix *.test /x\nPrefix * /", "b.test", "/x/y"},
		{"Prefix *.w.test /\nPrefix *.a.w.test /", "b.a.w.test", "/"},
		{"Prefix * /", "", "/"},
		{"Regex a.test /a.*\nRegex a.test /A[bc]+\nExact a.test /abc", "a.test", "/ABC"},
		{"Regex a.test /[\nRegex a.test /(?!x)", "a.test", "/["},
		{"Prefix a.test /a//\nPrefix a.test /a", "a.test", "/a/bc"},
		{"Prefix a.test //\nExact a.test //", "a.test", "///"},
		{"Prefix a.test /a/b/c/d\nPrefix a.test /a", "a.test", "/a/////////////"},
		{"Prefix a.test /ä/ö", "a.test", "/ä/ö/ü"},
		{"Exact a.test /%2F\nPrefix a.test /;a", "a.test", "/;a/b"},
		{"Prefix a.test /long/longer/longest\nPrefix a.test /l", "a.test", "/long/longer/longest/of/all"},
		{"Prefix a.test /x\nPrefix a.test /x/\nPrefix a.test /x", "a.test", "/x"},
		{"Prefix .test /\nPrefix *.test /", ".test", "/"},
		{"Prefix *. /\nPrefix a. /", "a.", "/"},
	} {
		f.Add(seed.lines, seed.host, seed.path, uint8(1))
	}
	f.Fuzz(func(t *testing.T, lines, host, path string, split uint8) {
		var all []Route
		for line := range strings.Lines(lines) {
			if r, err := parse(strings.TrimSuffix(line, "\n")); err == nil && strings.HasPrefix(r.Path, "/") && len(all) < 30 {
				all = append(all, r)
			}
		}
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		want := slowLookup(all, host, path)
		table := New(all, nil)
		if got := table.Lookup(host, path); got != want {
			t.Errorf("%q %q is taken by %q, want %q, in\n%s", host, path, sourceOf(got), sourceOf(want), table)
		}
		updated := inTwoSteps(all, int(split))
		if got := updated.Lookup(host, path); sourceOf(got) != sourceOf(want) {
			t.Errorf("after Update %q %q is taken by %q, want %q, in\n%s", host, path, sourceOf(got), sourceOf(want), updated)
		}
		if got, want := updated.String(), table.String(); got != want {
			t.Errorf("after Update\n%s\nwant\n%s", got, want)
		}
		n := 0
		for range table.All() {
			n++
		}
		if table.Len() != n {
			t.Errorf("Len is %d, All has %d", table.Len(), n)
		}
	})
}

// inTwoSteps makes the table of all from one that has the first few and a host that goes.
func inTwoSteps(all []Route, first int) *Table {
	first = min(first, len(all))
	before := append([]Route{{Match: Match{Host: "goes.example", Path: "/"}}}, all[:first]...)
	gone, changed := []string{"goes.example"}, map[string]bool{}
	for _, r := range all[first:] {
		changed[r.Host] = true
	}
	var change []Route
	for _, r := range all {
		if changed[r.Host] || r.Host == "goes.example" {
			change = append(change, r)
		}
	}
	return New(before, nil).Update(gone, change, nil)
}
