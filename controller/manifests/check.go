package manifests

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sallyport/controller"
)

// A checker walks a node tree beside the Go type it is to become. It writes the tree as JSON, without what the type
// does not know, and reports every place where the two differ, with line and path. A JSON decoder alone would stop at
// the first wrong type and could name no line at all.
//
// Aliases are written out, which lets a few hundred bytes of YAML stand for gigabytes, so everything is counted.
type checker struct {
	schemas  schemas
	out      []byte // the JSON form
	problems []controller.Problem
	failed   bool // a problem that keeps the object from being decoded

	parents []parent // objects around the current node, outermost first
	values  int      // nodes visited through aliases
	inside  map[*yaml.Node]bool
	over    bool
}

// A parent is an object on the way down to the current node.
type parent struct {
	t    reflect.Type
	path string
}

const (
	maxAliased  = 10_000  // values that a document may take from aliases
	maxWritten  = 4 << 20 // bytes of a document with aliases written out
	maxProblems = 50      // of one object; who has more has one
)

func (c *checker) problem(severity controller.Severity, reason, path string, line int, format string, a ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, controller.Problem{
			Severity: severity, Reason: reason, Field: path, Line: line, Message: fmt.Sprintf(format, a...),
		})
	}
}

// fail reports a value of the wrong type. The object does not decode.
func (c *checker) fail(path string, line int, format string, a ...any) {
	c.failed = true
	c.problem(controller.Error, controller.ReasonBadObject, path, line, format, a...)
	c.out = append(c.out, "null"...)
}

// value checks one node, whose key stands at line, and writes it.
func (c *checker) value(n *yaml.Node, t reflect.Type, path string, line int) {
	if len(c.out) > maxWritten || c.values > maxAliased {
		c.tooMuch(line)
		return
	}
	if len(c.inside) > 0 {
		c.values++
	}
	if n.Kind == yaml.AliasNode {
		c.alias(n, t, path, line)
		return
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isNull(n):
		c.out = append(c.out, "null"...)
	case reflect.PointerTo(t).Implements(unmarshaler):
		c.custom(n, t, path, line)
	case t.Kind() == reflect.Struct:
		c.object(n, t, path, line)
	case t.Kind() == reflect.Map:
		c.dictionary(n, t, path, line)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		c.base64(n, path, line)
	case t.Kind() == reflect.Slice:
		c.list(n, t, path, line)
	default:
		c.scalar(n, t, path, line)
	}
}

func (c *checker) tooMuch(line int) {
	if !c.over {
		c.over = true
		c.fail("", line, "with its aliases written out the document has more than %d values or %d MiB", maxAliased, maxWritten>>20)
		return
	}
	c.out = append(c.out, "null"...)
}

func (c *checker) alias(n *yaml.Node, t reflect.Type, path string, line int) {
	target := n.Alias
	if c.inside[target] {
		c.fail(path, line, "the alias *%s stands inside what it names", n.Value)
		return
	}
	if c.inside == nil {
		c.inside = make(map[*yaml.Node]bool)
	}
	c.inside[target] = true
	c.value(target, t, path, line)
	delete(c.inside, target)
}

// object checks a mapping against the fields of a struct. Of a key written twice the last one counts, as it does for
// every JSON decoder of Kubernetes.
func (c *checker) object(n *yaml.Node, t reflect.Type, path string, line int) {
	if n.Kind != yaml.MappingNode {
		c.mismatch(n, t, path, line)
		return
	}
	members := c.members(n, path)
	c.parents = append(c.parents, parent{t, path})
	c.out = append(c.out, '{')
	first, told := true, false
	for _, m := range members {
		f, ok := c.schemas.find(t, m.name)
		if !ok {
			told = c.unknown(n, t, m, path, told)
			continue
		}
		if path == "" && m.name == "status" || path == "metadata" && m.name == "managedFields" {
			continue // what a cluster says about the object; nobody asks for anything here
		}
		c.key(m.name, first)
		first = false
		c.value(m.value, f.kind, join(path, m.name), m.line)
	}
	c.out = append(c.out, '}')
	c.parents = c.parents[:len(c.parents)-1]
}

func (c *checker) key(name string, first bool) {
	if !first {
		c.out = append(c.out, ',')
	}
	c.out = appendString(c.out, name)
	c.out = append(c.out, ':')
}

// A member is a key of a mapping with its value.
type member struct {
	name  string
	line  int
	value *yaml.Node
}

// members lists a mapping in order, with merge keys (<<) resolved and duplicates reported.
func (c *checker) members(n *yaml.Node, path string) []member {
	members := make([]member, 0, len(n.Content)/2)
	index := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			c.fail(path, n.Content[i].Line, "a key is %s; keys are strings", what(key))
			c.out = c.out[:len(c.out)-len("null")]
			continue
		}
		if key.ShortTag() == "!!merge" {
			continue
		}
		m := member{textOf(key), n.Content[i].Line, value}
		if at, ok := index[m.name]; ok {
			c.problem(controller.Error, controller.ReasonDuplicateField, keyPath(path, m.name), m.line,
				"is written twice, on lines %d and %d; the last one counts", members[at].line, m.line)
			members[at] = m
			continue
		}
		index[m.name] = len(members)
		members = append(members, m)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() == "!!merge" {
			members = c.merge(n.Content[i+1], members, index, path)
		}
	}
	return members
}

// merge adds the members of a mapping, or of a list of them, that are not there yet.
func (c *checker) merge(n *yaml.Node, members []member, index map[string]int, path string) []member {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	c.values += 1 + len(n.Content)/2
	if c.values > maxAliased {
		return members
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := textOf(n.Content[i])
			if _, ok := index[name]; !ok && n.Content[i].ShortTag() != "!!merge" {
				index[name] = len(members)
				members = append(members, member{name, n.Content[i].Line, n.Content[i+1]})
			}
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind != yaml.SequenceNode {
				members = c.merge(item, members, index, path)
			}
		}
	}
	return members
}

// dictionary checks a mapping whose keys are the user's: annotations, labels, data.
func (c *checker) dictionary(n *yaml.Node, t reflect.Type, path string, line int) {
	if n.Kind != yaml.MappingNode {
		c.mismatch(n, t, path, line)
		return
	}
	c.out = append(c.out, '{')
	for i, m := range c.members(n, path) {
		c.key(m.name, i == 0)
		if isNull(m.value) && t.Elem().Kind() == reflect.String {
			c.problem(controller.Warning, controller.ReasonInvalid, path+"["+m.name+"]", m.line,
				`has no value and is read as an empty string: write "" if that is meant, quote it if the word null is`)
		}
		c.value(m.value, t.Elem(), path+"["+m.name+"]", m.line)
	}
	c.out = append(c.out, '}')
}

func (c *checker) list(n *yaml.Node, t reflect.Type, path string, line int) {
	if n.Kind != yaml.SequenceNode {
		c.mismatch(n, t, path, line)
		return
	}
	c.out = append(c.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.value(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), item.Line)
	}
	c.out = append(c.out, ']')
}

func (c *checker) scalar(n *yaml.Node, t reflect.Type, path string, line int) {
	s := resolve(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		c.mismatch(n, t, path, line)
	case t.Kind() == reflect.String && s.tag == "!!str":
		c.out = appendString(c.out, s.text)
	case t.Kind() == reflect.Bool && s.tag == "!!bool",
		t.Kind() == reflect.Interface && s.tag != "!!str":
		c.out = append(c.out, s.text...)
	case t.Kind() == reflect.Interface:
		c.out = appendString(c.out, s.text)
	case isInteger(t) && s.tag == "!!int":
		if _, err := strconv.ParseInt(s.text, 10, t.Bits()); errors.Is(err, strconv.ErrRange) {
			c.fail(path, line, "%s is too large a number", s.text)
			return
		}
		c.out = append(c.out, s.text...)
	default:
		c.mismatch(n, t, path, line)
	}
}

func isInteger(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 }

// custom checks the few types that read themselves: times, quantities, ports that are a number or a name.
func (c *checker) custom(n *yaml.Node, t reflect.Type, path string, line int) {
	s := resolve(n)
	switch t {
	case reflect.TypeFor[intstr.IntOrString]():
		if n.Kind != yaml.ScalarNode || s.tag == "!!bool" || s.tag == "!!float" {
			c.fail(path, line, "is %s; a port's number or name is expected", what(n))
			return
		}
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		var at metav1.Time
		if s.tag != "!!str" || at.UnmarshalQueryParameter(s.text) != nil {
			c.fail(path, line, "is %s; a time such as 2026-01-31T12:00:00Z is expected", what(n))
			return
		}
	}
	if n.Kind != yaml.ScalarNode {
		c.out = append(c.out, "null"...) // only field sets of managed fields, which are left out anyway
		return
	}
	if s.tag == "!!str" {
		c.out = appendString(c.out, s.text)
		return
	}
	c.out = append(c.out, s.text...)
}

func (c *checker) base64(n *yaml.Node, path string, line int) {
	s := resolve(n)
	if n.Kind != yaml.ScalarNode || s.tag != "!!str" {
		c.fail(path, line, "is %s; base64 text in quotes is expected, or plain text in quotes under stringData", what(n))
		return
	}
	if _, err := base64.StdEncoding.DecodeString(s.text); err != nil {
		var at base64.CorruptInputError
		where := ""
		if errors.As(err, &at) {
			where = fmt.Sprintf(" (wrong at character %d of %d)", int64(at)+1, len(s.text))
		}
		c.fail(path, line, "is not base64%s: encode the value, or write it as it is under stringData", where)
		return
	}
	c.out = appendString(c.out, s.text)
}

func appendString(out []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(out, quoted...)
}
