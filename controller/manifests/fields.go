package manifests

import (
	"encoding/json"
	"reflect"
	"strings"
)

// A field of a Kubernetes struct as manifests write it.
type field struct {
	name string
	kind reflect.Type
}

// schemas remembers the fields of struct types. It belongs to one Folder, which reads from one goroutine.
type schemas map[reflect.Type][]field

// of lists the fields of a struct in the order of the API documentation, embedded ones in their place.
func (s schemas) of(t reflect.Type) []field {
	if fields, ok := s[t]; ok {
		return fields
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			fields = append(fields, s.of(f.Type)...)
		case name != "":
			fields = append(fields, field{name, f.Type})
		}
	}
	s[t] = fields
	return fields
}

func (s schemas) find(t reflect.Type, name string) (field, bool) {
	for _, f := range s.of(t) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// object is the struct that a field holds, directly, by pointer or in a list; nil for anything else.
func object(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	return t
}

// under says where below t a field of that name exists, as a path like "http" or "backend.service"; "" when nowhere.
// Nearest levels come first. Four levels are enough for every kind read here, and end the recursion of types.
func (s schemas) under(t reflect.Type, name string) string {
	type place struct {
		t    reflect.Type
		path string
	}
	level := []place{{t, ""}}
	for range 4 {
		var next []place
		for _, p := range level {
			for _, f := range s.of(p.t) {
				inner := object(f.kind)
				if inner == nil || f.name == "status" || f.name == "metadata" {
					continue
				}
				path := strings.TrimPrefix(p.path+"."+f.name, ".")
				if _, ok := s.find(inner, name); ok {
					return path
				}
				next = append(next, place{inner, path})
			}
		}
		level = next
	}
	return ""
}

// nearest is the known field most like a name that is unknown, or "" when none is alike.
func (s schemas) nearest(t reflect.Type, name string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, f := range s.of(t) {
		if d := distance(strings.ToLower(name), strings.ToLower(f.name)); d < least {
			best, least = f.name, d
		}
	}
	return best
}

// distance is how many letters must be put in, left out, replaced or swapped with their neighbour to make a of b
// (optimal string alignment). Names longer than any field are not alike to any.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before, above, row [65]int
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}

// names lists the fields of an object for a message.
func (s schemas) names(t reflect.Type) string {
	var names []string
	for _, f := range s.of(t) {
		names = append(names, f.name)
	}
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
