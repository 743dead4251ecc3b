package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

func isJSON(name string) bool { return strings.HasSuffix(name, ".json") }

// parseJSON makes node trees of the values of a JSON file, as parseText does for YAML.
func parseJSON(text []byte) ([]*yaml.Node, []mistake) {
	r := &jsonReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.decoder.UseNumber()
	var documents []*yaml.Node
	for {
		token, err := r.next()
		if err == io.EOF {
			return documents, nil
		}
		var n *yaml.Node
		if err == nil {
			n, err = r.value(token, 0)
		}
		if err != nil {
			return documents, []mistake{r.explain(err)}
		}
		if !isNull(n) {
			documents = append(documents, n)
		}
	}
}

// A jsonReader follows the line of the token last read.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	offset  int // up to which lines are counted
	line    int
}

func (r *jsonReader) next() (json.Token, error) {
	token, err := r.decoder.Token()
	at := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.text[r.offset:at], []byte("\n"))
	r.offset = at
	return token, err
}

func (r *jsonReader) value(token json.Token, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels of nesting", maxDepth)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return r.members(yaml.MappingNode, "!!map", depth)
		}
		return r.members(yaml.SequenceNode, "!!seq", depth)
	case string:
		return r.scalar("!!str", v), nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return r.scalar("!!float", v.String()), nil
		}
		return r.scalar("!!int", v.String()), nil
	case bool:
		return r.scalar("!!bool", fmt.Sprint(v)), nil
	}
	return r.scalar("!!null", "null"), nil
}

func (r *jsonReader) scalar(tag, value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Line: r.line}
	if tag == "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// members reads up to the end of an object or array; keys are values to it like any other.
func (r *jsonReader) members(kind yaml.Kind, tag string, depth int) (*yaml.Node, error) {
	n := &yaml.Node{Kind: kind, Tag: tag, Line: r.line}
	for {
		token, err := r.next()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			return n, nil
		}
		child, err := r.value(token, depth+1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
}

func (r *jsonReader) explain(err error) mistake {
	line := r.line
	var message string
	switch syntax, ok := err.(*json.SyntaxError); {
	case err == io.ErrUnexpectedEOF:
		line, message = lineAt(bytes.TrimRight(r.text, "\n"), len(r.text)), "not JSON: the file ends in the middle of a value"
	case ok:
		line, message = lineAt(r.text, int(syntax.Offset)-1), "not JSON: "+syntax.Error()
		if strings.Contains(message, "invalid character '}'") || strings.Contains(message, "invalid character ']'") {
			message += "; a comma too many before it?"
		}
	default:
		message = err.Error()
	}
	return mistake{line, message}
}
