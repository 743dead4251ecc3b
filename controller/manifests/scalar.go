package manifests

import (
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A scalar is what a YAML scalar means to Kubernetes.
type scalar struct {
	tag  string // "!!null", "!!bool", "!!int", "!!float" or "!!str"
	text string // as JSON writes it, without quotes for a string
}

// resolve reads a scalar as the YAML 1.1 of kubectl does, where yes, no, on and off are booleans; yaml.v3 by itself
// reads those as strings, and a manifest would mean one thing here and another on a cluster.
func resolve(n *yaml.Node) scalar {
	if n.Kind != yaml.ScalarNode {
		return scalar{"!!str", ""}
	}
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return scalar{tag, "null"}
	case "!!bool":
		return scalar{tag, strings.ToLower(n.Value)}
	case "!!int":
		if text, ok := integer(n.Value); ok {
			return scalar{tag, text}
		}
		return float(n)
	case "!!float":
		return float(n)
	}
	if n.Style == 0 && n.Tag != "!" {
		switch n.Value {
		case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
			return scalar{"!!bool", "true"}
		case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			return scalar{"!!bool", "false"}
		}
	}
	return scalar{"!!str", n.Value}
}

// integer writes a YAML integer, which may be 0x1f, 0o17, 017 or 1_000, as JSON does.
func integer(s string) (string, bool) {
	s = strings.ReplaceAll(s, "_", "")
	s = strings.TrimPrefix(s, "+")
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	if u, err := strconv.ParseUint(s, 0, 64); err == nil {
		return strconv.FormatUint(u, 10), true
	}
	return "", false
}

func float(n *yaml.Node) scalar {
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return scalar{"!!str", n.Value} // .inf, .nan, 1e999: JSON cannot write them
	}
	return scalar{"!!float", strconv.FormatFloat(f, 'g', -1, 64)}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// textOf is the text of a scalar in the key position or where a name stands.
func textOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return resolve(n).text
}

// child is the value of a key of a mapping, and the key; nil when there is none. Of duplicates it is the last.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if textOf(n.Content[i]) == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
