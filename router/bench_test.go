package router

import (
	"fmt"
	"strings"
	"testing"
)

// A crowd is a table of n routes, five a host, every tenth host a wildcard; the last host has expressions too.
func crowd(n int) []Route {
	all := make([]Route, 0, n)
	for i := 0; len(all) < n; i++ {
		host := fmt.Sprintf("host-%d.example.test", i)
		if i%10 == 9 {
			host = fmt.Sprintf("*.wild-%d.example.test", i)
		}
		for _, m := range []Match{
			{host, "/", Prefix}, {host, "/api/v1/users", Prefix}, {host, "/api", Prefix}, {host, "/healthz", Exact}, {host, "/static/", Prefix},
		} {
			all = append(all, Route{Match: m, Source: "default/" + host})
		}
	}
	return append(all[:n:n],
		Route{Match: Match{"regex.test", `/items/[0-9]+(/|$)`, Regex}}, Route{Match: Match{"deep.test", "/" + strings.Repeat("x", 254), Prefix}},
		Route{Match: Match{"*.wild.test", "/", Prefix}}, Route{Match: Match{"a.test", "/x/y", Prefix}}, Route{Match: Match{"a.test", "/x", Exact}})
}

var shapes = []struct{ name, host, path string }{
	{"exact", "a.test", "/x"},
	{"prefix", "a.test", "/x/y/index.html"},
	{"wildcard", "a.wild.test", "/some/page"},
	{"regex", "regex.test", "/items/1234/view"},
	{"miss-of-path", "a.test", "/nothing/here"},
	{"miss-of-host", "nobody.example.test", "/some/page"},
	{"attack-of-slashes", "deep.test", strings.Repeat("/", 10_000)},
	{"attack-of-length", "deep.test", "/" + strings.Repeat("x", 10_000)},
}

func TestLookupAllocatesNothing(t *testing.T) {
	table := New(crowd(1000), nil)
	anyHost := table.Update(nil, routes(t, "Prefix * /"), nil)
	if anyHost.Lookup("nobody.example.test", "/some/page") == nil {
		t.Error("no route for any host")
	}
	for _, s := range shapes {
		found := strings.Contains("exact prefix wildcard regex", s.name)
		if got := table.Lookup(s.host, s.path) != nil; got != found {
			t.Errorf("%s: found %v, want %v", s.name, got, found)
		}
		for name, table := range map[string]*Table{"without": table, "with": anyHost} {
			if n := testing.AllocsPerRun(1000, func() { table.Lookup(s.host, s.path) }); n != 0 {
				t.Errorf("%s, %s routes for any host: %v allocations, want none", s.name, name, n)
			}
		}
	}
}

// BenchmarkLookup is flat in the number of routes. "spread" asks for another of 256 hosts each time, so that at 100,000
// routes it also pays for memory that is in no cache.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		table := New(crowd(n), nil)
		for _, s := range shapes {
			b.Run(fmt.Sprintf("%s/routes=%d", s.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					table.Lookup(s.host, s.path)
				}
			})
		}
		var hosts [256]string
		for i := range hosts {
			hosts[i] = fmt.Sprintf("host-%d.example.test", i*(n/5)/len(hosts))
		}
		b.Run(fmt.Sprintf("spread/routes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				table.Lookup(hosts[i&255], "/api/v1/users/1234")
				i += 37
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	all := crowd(50_000)
	b.ReportAllocs()
	for b.Loop() {
		New(all, nil)
	}
}

// BenchmarkUpdate changes one host of 10,000.
func BenchmarkUpdate(b *testing.B) {
	table, change := New(crowd(50_000), nil), crowd(5)[:5]
	b.ReportAllocs()
	for b.Loop() {
		table.Update(nil, change, nil)
	}
}
