package manifests

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"sallyport/controller"
)

// A Change is one object that a reload added, changed or removed.
type Change struct {
	Verb   string // "added", "changed" or "removed"
	Object controller.Ref
	File   string // where it stands, or stood
	Line   int
}

func (c Change) String() string {
	return fmt.Sprintf("%s:%d: %s %s", c.File, c.Line, c.Verb, c.Object)
}

// changes compares two sets of entries. An object that only moved to another place did not change.
func changes(before, after map[controller.Ref]*entry) []Change {
	var list []Change
	for ref, e := range after {
		if e.made == nil {
			continue
		}
		old := before[ref]
		switch {
		case old == nil || old.made == nil:
			list = append(list, Change{"added", ref, e.file, e.line})
		case old != e && (old.version != e.version || !bytes.Equal(old.content, e.content)):
			list = append(list, Change{"changed", ref, e.file, e.line})
		}
	}
	for ref, old := range before {
		if now := after[ref]; old.made != nil && (now == nil || now.made == nil) {
			list = append(list, Change{"removed", ref, old.file, old.line})
		}
	}
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), a.Object.Compare(b.Object))
	})
	return list
}
