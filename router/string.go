package router

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// All yields the routes in the order in which they are tried: hosts by name, then wildcard hosts, then regular
// expressions for hosts, then any host; within a host Exact, Prefix from the longest with Regex where
// it comes before, and the host's fallback last.
func (t *Table) All() iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		if t == nil {
			return
		}
		for p := range t.hosts() {
			for _, r := range p.ordered() {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// hosts yields the hosts in the order of All.
func (t *Table) hosts() iter.Seq[*paths] {
	return func(yield func(*paths) bool) {
		for _, byName := range []map[string]*paths{t.names, t.wildcards} {
			for _, name := range slices.Sorted(maps.Keys(byName)) {
				if !yield(byName[name]) {
					return
				}
			}
		}
		for _, h := range t.patterns {
			if !yield(h.paths) {
				return
			}
		}
		if t.any != nil {
			yield(t.any)
		}
	}
}

// Len is how many routes the table has, fallbacks included.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	n := 0
	for p := range t.hosts() {
		n += p.len()
	}
	return n
}

// String prints the routes in the order they are tried, one a line: host ("*" for any), path type, path, source.
// Golden files and the routes page are made of it. A path that would break its line or the columns is quoted as in Go.
func (t *Table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for r := range t.All() {
		host := r.Host
		if host == "" {
			host = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", host, r.Type, printable(r.Path), r.Source)
	}
	w.Flush()
	return b.String()
}

func printable(path string) string {
	if strings.ContainsFunc(path, unicode.IsControl) {
		return strconv.Quote(path)
	}
	return path
}
