package manifests

import (
	"encoding/json"
	"reflect"
	"strings"

	"sallyport/spelling"
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
	return spelling.Nearest(name, func(yield func(string) bool) {
		for _, f := range s.of(t) {
			if !yield(f.name) {
				return
			}
		}
	})
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
