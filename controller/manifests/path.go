package manifests

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Paths name a place in an object: "spec.rules[0].http", with keys that are not plain names in brackets:
// "metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirect]".

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// keyPath is the path of a key that may be anybody's.
func keyPath(path, name string) string {
	if plain(name) {
		return join(path, name)
	}
	return path + "[" + name + "]"
}

func plain(name string) bool { return name != "" && !strings.ContainsAny(name, ".[]/ \n") }

// steps takes a path apart: "a.b[0].c[x.y/z]" is a, b, 0, c, x.y/z.
func steps(path string) []string {
	var steps []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			end := closing(path)
			steps = append(steps, path[1:end])
			path = path[min(end+1, len(path)):]
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			steps = append(steps, path[:end])
			path = path[end:]
		}
	}
	return steps
}

// closing finds the bracket that ends a key: one at the end of the path, or before a dot or another bracket.
func closing(path string) int {
	for i := 1; i < len(path); i++ {
		if path[i] == ']' && (i+1 == len(path) || path[i+1] == '.' || path[i+1] == '[') {
			return i
		}
	}
	return len(path)
}

// follow walks as many steps as the tree has. It returns the line of the last key or item reached, the node there, and
// how many steps were taken.
func follow(n *yaml.Node, path []string) (line int, at *yaml.Node, taken int) {
	line = n.Line
	for _, step := range path {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var key, value *yaml.Node
		if n.Kind == yaml.SequenceNode {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(n.Content) {
				break
			}
			key, value = n.Content[i], n.Content[i]
		} else if key, value = child(n, step); key == nil {
			break
		}
		line, n = key.Line, value
		taken++
	}
	return line, n, taken
}
