package manifests

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// explain turns a parser's complaint into a line of the file and what to do about it.
func (c chunk) explain(err error) mistake {
	line, message := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(strings.SplitN(err.Error(), "\n", 2)[0]); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	if tab := c.firstTab(); tab > 0 && tab <= line+1 {
		return mistake{c.line - 1 + tab, "a tab in the indentation: YAML takes spaces only"}
	}
	line = c.refine(line, message)
	for _, e := range explanations {
		if strings.Contains(message, e.complaint) {
			return mistake{c.line - 1 + line, e.advice}
		}
	}
	return mistake{c.line - 1 + line, "not YAML: " + message}
}

// explanations are tried in order.
var explanations = []struct{ complaint, advice string }{
	{"mapping values are not allowed", "not YAML: a second colon, or a key where none can be: check the indentation, " +
		"and quote a value that contains \": \""},
	{"could not find expected ':'", "not YAML: a line that is neither \"key: value\" nor part of the one before it: " +
		"check for a missing colon and the indentation"},
	{"did not find expected key", "not YAML: this line does not continue the object above it: check the indentation, " +
		"and for a quote or bracket that ends too early"},
	{"did not find expected '-' indicator", "not YAML: this line stands in a list but does not begin with \"- \": " +
		"check the indentation"},
	{"did not find expected ',' or", "not YAML: a bracket or brace is not closed, or a comma is missing"},
	{"did not find expected node content", "not YAML: a bracket or brace is not closed, or there is a comma too many"},
	{"found unexpected end of stream", "not YAML: a quote is opened here or before and never closed"},
	{"found unexpected document indicator", "not YAML: a quote is opened here or before and never closed"},
	{"found unknown escape character", `not YAML: an unknown escape in double quotes: write \\ for a backslash, or use ` +
		"single quotes"},
	{"cannot start any token", "not YAML: a value cannot begin with this character: quote it"},
	{"did not find expected alphabetic or numeric", "not YAML: a value that begins with * or & must be quoted"},
	{"unknown anchor", "not YAML: a value that begins with * must be quoted, or names an anchor that does not exist"},
	{"exceeded max depth", fmt.Sprintf("more than %d levels of nesting", maxDepth)},
	{"control characters are not allowed", "a control character: it is not a text file"},
}

// firstTab is the first line of the chunk that is indented by a tab, or 0.
func (c chunk) firstTab() int {
	n := 0
	for line := range bytes.Lines(c.text) {
		n++
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 && len(bytes.TrimSpace(line)) > 0 {
			return n
		}
	}
	return 0
}

// refine corrects the line where the parser is known to point elsewhere: to the end of the text for a quote that is
// never closed, and to the line before the beginning of the block or bracket it was in for what it found in there.
func (c chunk) refine(line int, message string) int {
	if strings.HasPrefix(message, "did not find expected key") || strings.HasPrefix(message, "did not find expected '-'") {
		if bad := c.badIndent(); bad > 0 {
			return bad
		}
	}
	for _, expected := range []string{"key", "'-'", "','", "node content", "<"} {
		if strings.HasPrefix(message, "did not find expected "+expected) {
			line++
		}
	}
	last := bytes.Count(c.text, []byte("\n"))
	if !bytes.HasSuffix(c.text, []byte("\n")) {
		last++
	}
	if strings.Contains(message, "unexpected end of stream") || strings.Contains(message, "unexpected document") {
		if open := c.openQuote(); open > 0 {
			return open
		}
	}
	return max(1, min(line, last))
}

// badIndent is the first line that goes back to an indentation which no line above it has, or 0. Text blocks (| and >)
// may have any indentation below their key.
func (c chunk) badIndent() int {
	open := []int{0}
	text := -1 // indentation of the key of a text block, while in it
	n, last := 0, 0
	for line := range strings.Lines(string(c.text)) {
		n++
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		rest = strings.TrimSpace(rest)
		if rest == "" || rest[0] == '#' || text >= 0 && indent > text {
			continue
		}
		text = -1
		for open[len(open)-1] > indent {
			open = open[:len(open)-1]
		}
		if top := open[len(open)-1]; top < indent {
			if indent < last {
				return n
			}
			open = append(open, indent)
		}
		for strings.HasPrefix(rest, "- ") {
			inner := strings.TrimLeft(rest[1:], " ")
			indent += len(rest) - len(inner)
			rest = inner
			open = append(open, indent)
		}
		if strings.HasSuffix(rest, "|") || strings.HasSuffix(rest, ">") || strings.HasSuffix(rest, "|-") || strings.HasSuffix(rest, ">-") {
			text = indent
		}
		last = indent
	}
	return 0
}

// openQuote guesses where a quote that is never closed began: the first line with a value that opens a quote and does
// not close it on the same line.
func (c chunk) openQuote() int {
	n := 0
	for line := range bytes.Lines(c.text) {
		n++
		text := strings.TrimSpace(string(line))
		text = strings.TrimPrefix(text, "- ")
		if _, value, ok := strings.Cut(text, ": "); ok {
			text = strings.TrimSpace(value)
		}
		if text == "" || text[0] != '"' && text[0] != '\'' {
			continue
		}
		if strings.Count(text, text[:1])%2 == 1 {
			return n
		}
	}
	return 0
}
