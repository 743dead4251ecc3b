package manifests

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"sallyport/controller"
)

// A Change is one object that a reload added, changed, moved or removed.
type Change struct {
	Verb   string // "added", "changed", "moved" or "removed"
	Object controller.Ref
	File   string // where it stands, or stood
	Line   int
	From   string // of one that moved: the file where it stood
}

func (c Change) String() string {
	text := fmt.Sprintf("%s:%d: %s %s", c.File, c.Line, c.Verb, c.Object)
	if c.From != "" {
		text += " from " + c.From
	}
	return text
}

// changes compares two sets of entries. An object that only moved to another line did not change, nor one whose new
// version is not used.
func changes(before, after map[controller.Ref]*entry) []Change {
	var list []Change
	for ref, e := range after {
		if e.made == nil {
			continue
		}
		old := before[ref]
		switch {
		case old == nil || old.made == nil:
			list = append(list, Change{Verb: "added", Object: ref, File: e.file, Line: e.line})
		case old != e && !e.bad && !e.kept && (old.version != e.version || !bytes.Equal(old.content, e.content)):
			list = append(list, Change{Verb: "changed", Object: ref, File: e.file, Line: e.line})
		case old.file != e.file:
			list = append(list, Change{Verb: "moved", Object: ref, File: e.file, Line: e.line, From: old.file})
		}
	}
	for ref, old := range before {
		if now := after[ref]; old.made != nil && (now == nil || now.made == nil) {
			list = append(list, Change{Verb: "removed", Object: ref, File: old.file, Line: old.line})
		}
	}
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), a.Object.Compare(b.Object))
	})
	return list
}
