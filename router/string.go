package router

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// All yields the routes in the order in which they are tried: hosts by name, then wildcard hosts, then any host; within
// a host Exact, Prefix from the longest, Regex, and the host's fallback last.
func (t *Table) All() iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		if t == nil {
			return
		}
		hosts := make([]*paths, 0, len(t.names)+len(t.wildcards)+1)
		for _, byName := range []map[string]*paths{t.names, t.wildcards} {
			for _, name := range slices.Sorted(maps.Keys(byName)) {
				hosts = append(hosts, byName[name])
			}
		}
		if t.any != nil {
			hosts = append(hosts, t.any)
		}
		for _, p := range hosts {
			for _, r := range p.ordered() {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Len is how many routes the table has, fallbacks included.
func (t *Table) Len() int {
	n := 0
	for range t.All() {
		n++
	}
	return n
}

// String prints the routes in the order they are tried, one a line: host ("*" for any), path type, path, source.
// Golden files and the routes page are made of it.
func (t *Table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for r := range t.All() {
		host := r.Host
		if host == "" {
			host = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", host, r.Type, r.Path, r.Source)
	}
	w.Flush()
	return b.String()
}
