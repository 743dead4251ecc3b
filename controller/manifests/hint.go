package manifests

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

// This file holds what is said about the mistakes people make: one sentence with the value, what was expected and,
// wherever it can be known, the very text to write.

// what describes a value: `the string "80"`, `the number 8`, `a list`.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "the alias *" + n.Value
	}
	switch s := resolve(n); s.tag {
	case "!!null":
		return "empty"
	case "!!bool":
		if clip(n.Value) != s.text {
			return fmt.Sprintf("%s, which YAML reads as %s", clip(n.Value), s.text)
		}
		return "the boolean " + s.text
	case "!!int", "!!float":
		return "the number " + clip(n.Value)
	default:
		return "the string " + strconv.Quote(clip(s.text))
	}
}

// clip keeps messages to a line.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// expected describes what a type takes.
func (c *checker) expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Map:
		return "an object of keys and strings"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object with " + c.schemas.names(t)
	}
	return "a whole number"
}

// mismatch reports a value of the wrong type.
func (c *checker) mismatch(n *yaml.Node, t reflect.Type, path string, line int) {
	c.fail(path, line, "is %s; %s is expected%s", what(n), c.expected(t), c.remedy(n, t, path))
}

// remedy says what to write in place of n, as ": …", or nothing when it cannot be known.
func (c *checker) remedy(n *yaml.Node, t reflect.Type, path string) string {
	s := resolve(n)
	isScalar := n.Kind == yaml.ScalarNode
	switch {
	case t.Kind() == reflect.String && isScalar && c.around() == reflect.TypeFor[networkingv1.ServiceBackendPort]():
		return ": a port's number is written number: " + s.text
	case t.Kind() == reflect.String && isScalar:
		return fmt.Sprintf(": quote the value: %q", clip(n.Value))
	case n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Kind == yaml.MappingNode:
		return ": {{ … }} is left over from a template, which has to be rendered first (helm template)"
	case t.Kind() == reflect.String && n.Kind == yaml.MappingNode && len(n.Content) == 2:
		return ": a value that contains \": \" or begins with { must be quoted"
	case isInteger(t) && s.tag == "!!str" && isScalar:
		return c.numberRemedy(s.text, path)
	case t.Kind() == reflect.Bool && (s.text == "true" || s.text == "false"):
		return ": write " + s.text + " without quotes"
	case t.Kind() == reflect.Slice && n.Kind == yaml.MappingNode:
		return `: begin each item with "- "`
	case t.Kind() == reflect.Slice && isScalar:
		return fmt.Sprintf(": write [%s]", clip(n.Value))
	case t.Kind() == reflect.Struct && isScalar:
		return structRemedy(s, t)
	case t.Kind() == reflect.Struct && n.Kind == yaml.SequenceNode:
		return `: leave out the "- "`
	}
	return ""
}

func (c *checker) numberRemedy(text, path string) string {
	if _, err := strconv.Atoi(text); err == nil {
		return ": write " + text + " without quotes"
	}
	if c.around() == reflect.TypeFor[networkingv1.ServiceBackendPort]() {
		return ": a port's name is written name: " + clip(text)
	}
	if strings.HasPrefix(path, "spec.ports[") && strings.HasSuffix(path, ".port") {
		return ": a port's name goes to name or targetPort"
	}
	return ""
}

// around is the innermost object, or nil.
func (c *checker) around() reflect.Type {
	if len(c.parents) == 0 {
		return nil
	}
	return c.parents[len(c.parents)-1].t
}

func structRemedy(s scalar, t reflect.Type) string {
	text := clip(s.text)
	switch {
	case t == reflect.TypeFor[networkingv1.ServiceBackendPort]() && s.tag == "!!int":
		return ": write port: {number: " + text + "}"
	case t == reflect.TypeFor[networkingv1.ServiceBackendPort]():
		return ": write port: {name: " + text + "}"
	case t == reflect.TypeFor[networkingv1.IngressServiceBackend]():
		return ": write service: {name: " + text + ", port: {number: 80}}"
	case t == reflect.TypeFor[networkingv1.IngressBackend]():
		return ": write backend: {service: {name: " + text + ", port: {number: 80}}}"
	case t == reflect.TypeFor[networkingv1.IngressRule](), t == reflect.TypeFor[networkingv1beta1.IngressRule]():
		return ": write host: " + text
	case t == reflect.TypeFor[networkingv1beta1.IngressBackend]():
		return ": write backend: {serviceName: " + text + ", servicePort: 80}"
	}
	return ""
}

// unknown reports a field that its object does not have; the object is used without it. It returns whether a mistake
// that spans several fields of n has been told by now, and keeps silent about the rest of it.
func (c *checker) unknown(n *yaml.Node, t reflect.Type, m member, path string, told bool) bool {
	at := keyPath(path, m.name)
	if advice := otherVersion(n, t, m.name); advice != "" {
		if !told {
			c.problem(controller.Error, controller.ReasonUnknownField, at, m.line, "%s", advice)
		}
		return true
	}
	c.problem(controller.Error, controller.ReasonUnknownField, at, m.line, "is not a field here: %s", c.advise(t, m.name))
	return told
}

// otherVersion recognises fields of another API version of Ingress.
func otherVersion(n *yaml.Node, t reflect.Type, name string) string {
	switch t {
	case reflect.TypeFor[networkingv1.IngressBackend]():
		if name == "serviceName" || name == "servicePort" {
			return "serviceName and servicePort are the old way of networking.k8s.io/v1beta1; networking.k8s.io/v1 has " +
				newBackend(n)
		}
	case reflect.TypeFor[networkingv1beta1.IngressBackend]():
		if name == "service" {
			return "belongs to networking.k8s.io/v1: write " + oldBackend(n) + ", or change apiVersion to networking.k8s.io/v1"
		}
	case reflect.TypeFor[networkingv1.IngressSpec]():
		if name == "backend" {
			return "is called defaultBackend in networking.k8s.io/v1: write defaultBackend: {service: {name: …, port: {number: …}}}"
		}
	case reflect.TypeFor[networkingv1beta1.IngressSpec]():
		if name == "defaultBackend" {
			return "is called backend before networking.k8s.io/v1: write backend: {serviceName: …, servicePort: …}, " +
				"or change apiVersion to networking.k8s.io/v1"
		}
	}
	return ""
}

// newBackend writes an old backend the way networking.k8s.io/v1 does.
func newBackend(n *yaml.Node) string {
	name, port := "…", "number: …"
	if _, v := child(n, "serviceName"); v != nil {
		name = clip(textOf(v))
	}
	if _, v := child(n, "servicePort"); v != nil && v.Kind == yaml.ScalarNode {
		kind := "name: "
		if _, err := strconv.Atoi(textOf(v)); err == nil {
			kind = "number: "
		}
		port = kind + clip(textOf(v))
	}
	return "service: {name: " + name + ", port: {" + port + "}}"
}

// oldBackend is the way back.
func oldBackend(n *yaml.Node) string {
	name, port := "…", "…"
	if _, service := child(n, "service"); service != nil {
		if _, v := child(service, "name"); v != nil {
			name = clip(textOf(v))
		}
		if _, p := child(service, "port"); p != nil && p.Kind == yaml.MappingNode && len(p.Content) > 0 {
			port = clip(textOf(p.Content[1]))
		}
	}
	return "serviceName: " + name + " and servicePort: " + port
}

// advise says what an unknown field was probably meant to be, the likeliest first: the name in another case, a place
// further in or out (wrong indentation), a name much like it.
func (c *checker) advise(t reflect.Type, name string) string {
	for _, f := range c.schemas.of(t) {
		if strings.EqualFold(f.name, name) {
			return "did you mean " + f.name + "?"
		}
	}
	if t == reflect.TypeFor[metav1.ObjectMeta]() && strings.Contains(name, "/") {
		return "it belongs under annotations or labels, indented further"
	}
	if inner := c.schemas.under(t, name); inner != "" {
		return "it belongs under " + inner + ", indented further"
	}
	for i := len(c.parents) - 2; i >= 0; i-- {
		if _, ok := c.schemas.find(c.parents[i].t, name); ok {
			return "it belongs to " + orObject(c.parents[i].path) + ", indented less"
		}
	}
	if near := c.schemas.nearest(t, name); near != "" {
		return "did you mean " + near + "?"
	}
	for i := len(c.parents) - 2; i >= 0; i-- {
		if inner := c.schemas.under(c.parents[i].t, name); inner != "" {
			return "it belongs under " + join(c.parents[i].path, inner)
		}
	}
	return "the fields here are " + c.schemas.names(t)
}

func orObject(path string) string {
	if path == "" {
		return "the object itself"
	}
	return path
}
