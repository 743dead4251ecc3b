package router

import (
	"slices"
	"testing"
)

func TestUpdateEqualsNew(t *testing.T) {
	first := []string{"Prefix a.test /", "Exact a.test /x", "Prefix b.test /", "Prefix *.w.test /", "Prefix * /"}
	for _, c := range []struct {
		claim  string
		gone   []string
		change []string
		want   []string
	}{
		{"nothing", nil, nil, first},
		{"a host gets other routes", nil, []string{"Prefix a.test /new"}, []string{"Prefix a.test /new", "Prefix b.test /", "Prefix *.w.test /", "Prefix * /"}},
		{"a host comes", nil, []string{"Prefix c.test /"}, append(slices.Clone(first), "Prefix c.test /")},
		{"a host goes", []string{"b.test"}, nil, []string{"Prefix a.test /", "Exact a.test /x", "Prefix *.w.test /", "Prefix * /"}},
		{"a wildcard goes", []string{"*.w.test"}, nil, []string{"Prefix a.test /", "Exact a.test /x", "Prefix b.test /", "Prefix * /"}},
		{"any host goes", []string{""}, nil, first[:4]},
		{"gone and back", []string{"b.test"}, []string{"Prefix b.test /b"}, []string{"Prefix a.test /", "Exact a.test /x", "Prefix b.test /b", "Prefix *.w.test /", "Prefix * /"}},
		{"one that never was goes", []string{"never.test", "*.never.test"}, nil, first},
		{"all go", []string{"a.test", "b.test", "*.w.test", ""}, nil, nil},
	} {
		old := New(routes(t, first...), nil)
		before := old.String()
		got := old.Update(c.gone, routes(t, c.change...), nil).String()
		if want := New(routes(t, c.want...), nil).String(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.claim, got, want)
		}
		if after := old.String(); after != before {
			t.Errorf("%s: the table updated from has become\n%s", c.claim, after)
		}
	}
}

func TestUpdateSharesWhatDidNotChange(t *testing.T) {
	old := New(routes(t, "Prefix a.test /", "Prefix b.test /", "Regex b.test /r", "Prefix *.w.test /", "Prefix * /"), nil)
	next := old.Update(nil, routes(t, "Prefix a.test /"), nil)
	for _, host := range []string{"b.test", "x.w.test", "other.test"} {
		if old.host(host) != next.host(host) {
			t.Errorf("%s was built again", host)
		}
	}
	if old.host("a.test") == next.host("a.test") {
		t.Error("a.test was not built again")
	}
}

func TestUpdateOfAHostTakesItsFallback(t *testing.T) {
	fallback := &Route{Match: Match{Host: "a.test", Path: "/"}, Source: "fallback"}
	old := New(routes(t, "Prefix a.test /x"), []Host{{"a.test", fallback}})
	if got := old.Update(nil, routes(t, "Prefix a.test /x"), nil).Lookup("a.test", "/y"); got != nil {
		t.Errorf("the fallback %q outlived its host's change", got.Source)
	}
	if got := old.Update(nil, nil, []Host{{"a.test", fallback}}); got.Lookup("a.test", "/x") != fallback {
		t.Error("the routes of a host outlived its change")
	}
}
