package manifests

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"sallyport/controller"
)

// An entry is one object of ours as a file holds it.
type entry struct {
	ref     controller.Ref
	version string // the apiVersion it is written in
	file    string
	line    int
	root    *yaml.Node // for lines; of the text read last
	content []byte     // JSON form; equal content is the same object

	// made is what the snapshot holds of it: one object, or of Endpoints none to many. Nil: it does not decode, and
	// has no last good version either.
	made []metav1.Object
	from metav1.Object // what made was made of, in the version of the manifest
	bad  bool          // it does not decode; made is an older version

	lacks []controller.Problem // of an Ingress: what an API server demands and it has not
	kept  bool                 // because of that made is an older version, which has
}

// A content is all that one file holds.
type content struct {
	entries  []*entry
	others   map[string]int
	problems []controller.Problem
	// broken says that it cannot be known which objects the file means to hold: a document does not parse, or has no
	// kind or name. What the file held when it was last right then stays.
	broken bool
}

// A reader turns the text of one file into its content.
type reader struct {
	schemas schemas
	file    string
	content content
}

func (r *reader) read(text []byte) content {
	documents, mistakes := parseText(r.file, text)
	for _, m := range mistakes {
		r.broken(controller.Ref{}, controller.ReasonBadYAML, "", m.line, m.message)
	}
	for _, d := range documents {
		r.document(d, "", "")
	}
	return r.content
}

// broken reports something that leaves it open which object is meant.
func (r *reader) broken(ref controller.Ref, reason, path string, line int, message string) {
	r.content.broken = true
	r.report(ref, controller.Problem{Severity: controller.Error, Reason: reason, Field: path, Line: line, Message: message})
}

func (r *reader) report(ref controller.Ref, problems ...controller.Problem) {
	for _, p := range problems {
		p.Object, p.File = ref, r.file
		r.content.problems = append(r.content.problems, p)
	}
}

// document reads one object or list. Items of a typed list inherit version and kind when they do not say their own.
func (r *reader) document(n *yaml.Node, apiVersion, kindName string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		r.broken(controller.Ref{}, controller.ReasonBadObject, "", n.Line,
			"is "+what(n)+"; an object with apiVersion, kind, metadata is expected")
		return
	}
	if line := missingSeparator(n); line > 0 {
		r.broken(controller.Ref{}, controller.ReasonDuplicateField, "kind", line,
			"a second object begins here: put a line of three dashes (---) before it")
		return
	}
	_, versionNode := child(n, "apiVersion")
	_, kindNode := child(n, "kind")
	if text := textOf(versionNode); text != "" {
		apiVersion = text
	}
	if text := textOf(kindNode); text != "" {
		kindName = text
	}
	switch {
	case kindName == "" && isKustomization(r.file):
		r.count("Kustomization")
	case kindName == "":
		r.broken(controller.Ref{}, controller.ReasonBadObject, "kind", n.Line, "is missing: write kind: Ingress, or what the object is")
	case isList(n, kindName):
		r.list(n, apiVersion, strings.TrimSuffix(kindName, "List"))
	default:
		r.object(n, apiVersion, kindName)
	}
}

func (r *reader) count(kindName string) {
	if r.content.others == nil {
		r.content.others = make(map[string]int)
	}
	r.content.others[kindName]++
}

func isKustomization(file string) bool {
	name := filepath.Base(file)
	return strings.TrimSuffix(name, filepath.Ext(name)) == "kustomization"
}

// missingSeparator is the line where apiVersion or kind stands a second time, or 0.
func missingSeparator(n *yaml.Node) int {
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := textOf(n.Content[i])
		if name != "apiVersion" && name != "kind" {
			continue
		}
		if seen[name] {
			return n.Content[i].Line
		}
		seen[name] = true
	}
	return 0
}

func isList(n *yaml.Node, kindName string) bool {
	_, items := child(n, "items")
	return strings.HasSuffix(kindName, "List") && items != nil
}

func (r *reader) list(n *yaml.Node, apiVersion, itemKind string) {
	if itemKind == "" {
		apiVersion = "" // kind: List has no version to hand down
	}
	key, items := child(n, "items")
	if isNull(items) {
		return
	}
	if items.Kind != yaml.SequenceNode {
		r.broken(controller.Ref{Kind: itemKind + "List"}, controller.ReasonBadObject, "items", key.Line,
			"is "+what(items)+`; a list is expected: begin each item with "- "`)
		return
	}
	for _, item := range items.Content {
		r.document(item, apiVersion, itemKind)
	}
}

// object reads one object that says what kind it is.
func (r *reader) object(n *yaml.Node, apiVersion, kindName string) {
	verdict, k, v, message := judge(apiVersion, kindName)
	if verdict == other {
		r.count(kindName)
		return
	}
	ref, ok := r.identify(n, k)
	if !ok {
		return
	}
	e := &entry{ref: ref, version: apiVersion, file: r.file, line: n.Line, root: n}
	r.content.entries = append(r.content.entries, e)
	if verdict == mistook {
		field, reason := "apiVersion", controller.ReasonUnknownVersion
		if kindNamed(kindName) == nil {
			field, reason = "kind", controller.ReasonBadObject
		} else if apiVersion == "" {
			message = "is missing: write apiVersion: " + k.versions[0].apiVersion
			reason = controller.ReasonBadObject
		}
		line := n.Line
		if key, _ := child(n, field); key != nil {
			line = key.Line
		}
		e.bad = true
		r.report(ref, controller.Problem{Severity: controller.Error, Reason: reason, Field: field, Line: line, Message: message})
		return
	}
	r.decode(e, n, v)
}

// identify finds out which object is meant, from as little as possible, so that a mistake elsewhere in the object does
// not hide whose mistake it is.
func (r *reader) identify(n *yaml.Node, k *kind) (controller.Ref, bool) {
	ref := controller.Ref{Kind: k.name}
	key, metadata := child(n, "metadata")
	nameKey, name := child(metadata, "name")
	_, namespace := child(metadata, "namespace")
	switch {
	case metadata == nil:
		r.broken(ref, controller.ReasonBadObject, "metadata", n.Line, "is missing: write metadata: {name: …}")
	case metadata.Kind != yaml.MappingNode && !isNull(metadata) && metadata.Kind != yaml.AliasNode:
		r.broken(ref, controller.ReasonBadObject, "metadata", key.Line, "is "+what(metadata)+"; an object with name is expected")
	case name == nil || isNull(name):
		r.broken(ref, controller.ReasonBadObject, "metadata.name", key.Line, "is missing: an object has a name")
	case resolve(name).tag != "!!str" || textOf(name) == "":
		r.broken(ref, controller.ReasonBadObject, "metadata.name", nameKey.Line,
			fmt.Sprintf("is %s; a string is expected: quote the value: %q", what(name), clip(name.Value)))
	default:
		ref.Name = textOf(name)
		ref.Namespace = "default"
		if text := textOf(namespace); text != "" && !isNull(namespace) {
			ref.Namespace = text
		}
		if k.cluster {
			ref.Namespace = ""
		}
		r.checkNames(ref, k, nameKey.Line, metadata)
		return ref, true
	}
	return ref, false
}

// checkNames reports names that an API server refuses. Here they do no harm, so the object is used.
func (r *reader) checkNames(ref controller.Ref, k *kind, line int, metadata *yaml.Node) {
	const labelLetters = "lower-case letters, digits and '-'"
	const says = "%q is not a name an API server takes; %s are expected"
	valid, letters := validation.IsDNS1123Subdomain, "lower-case letters, digits, '-' and '.'"
	if k.label {
		valid, letters = validation.IsDNS1123Label, labelLetters
	}
	if len(valid(ref.Name)) > 0 {
		r.report(ref, controller.Problem{Severity: controller.Error, Reason: controller.ReasonInvalid, Field: "metadata.name", Line: line,
			Message: fmt.Sprintf(says, clip(ref.Name), letters)})
	}
	if key, _ := child(metadata, "namespace"); key != nil && ref.Namespace != "" && len(validation.IsDNS1123Label(ref.Namespace)) > 0 {
		r.report(ref, controller.Problem{Severity: controller.Error, Reason: controller.ReasonInvalid, Field: "metadata.namespace", Line: key.Line,
			Message: fmt.Sprintf(says, clip(ref.Namespace), labelLetters)})
	}
}

// decode makes the object itself.
func (r *reader) decode(e *entry, n *yaml.Node, v *version) {
	o := v.empty()
	c := &checker{schemas: r.schemas}
	c.value(n, reflect.TypeOf(o), "", n.Line)
	if !c.failed {
		if err := json.UnmarshalCaseSensitivePreserveInts(c.out, o); err != nil {
			c.problem(controller.Error, controller.ReasonBadObject, "", n.Line, "does not decode: %v", err)
			c.failed = true
		}
	}
	r.report(e.ref, c.problems...)
	if c.failed {
		e.bad = true
		return
	}
	o.SetNamespace(e.ref.Namespace)
	e.content = bytes.Clone(c.out)
	e.made, e.from = v.finish(o), o
	if e.ref.Kind == "Ingress" {
		e.lacks = lacking(e)
	}
	r.examine(e, c.problems)
}

// examine reports the values that an API server refuses, but for those that only follow from a field that does not exist.
func (r *reader) examine(e *entry, known []controller.Problem) {
	made := e.from
	if e.ref.Kind == "EndpointSlice" {
		made = e.made[0] // in its current version
	}
	for _, w := range refused(made) {
		if !slices.ContainsFunc(known, func(p controller.Problem) bool {
			return p.Reason == controller.ReasonUnknownField && related(w.field, p.Field)
		}) {
			r.report(e.ref, controller.Problem{Severity: controller.Error, Reason: controller.ReasonInvalid, Field: w.field, Line: lineOf(e, w.field), Message: w.message})
		}
	}
}
