package manifests

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxDepth = 100 // levels of nesting in a document; Kubernetes objects stay under 20
)

// A mistake is something wrong at a line of a file. Messages say what to write instead.
type mistake struct {
	line    int
	message string
}

// parseText makes one node tree of each document of a file. Documents that do not parse are mistakes; the others are
// returned all the same. Lines of nodes count from the beginning of the file.
//
// The text is the function's to change. A file whose name ends in .json must be JSON: YAML would take a trailing comma or a missing quote and mean something
// else by it. Everything else is YAML, of which JSON is nearly a subset.
func parseText(name string, text []byte) ([]*yaml.Node, []mistake) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if m := notText(text); m != nil {
		return nil, []mistake{*m}
	}
	if isJSON(name) {
		return parseJSON(text)
	}
	var documents []*yaml.Node
	var mistakes []mistake
	for _, c := range split(text) {
		if c.empty() {
			continue
		}
		parsed, m := c.parse()
		documents = append(documents, parsed...)
		if m != nil {
			mistakes = append(mistakes, *m)
		}
	}
	return documents, mistakes
}

// notText refuses what no editor wrote as a manifest, before a parser makes a riddle of it.
func notText(text []byte) *mistake {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return &mistake{1, "the file is UTF-16: save it as UTF-8"}
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return &mistake{lineAt(text, at), "the file holds NUL bytes: it is not a text file"}
	}
	if utf8.Valid(text) {
		return nil
	}
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return &mistake{lineAt(text, at), fmt.Sprintf("byte 0x%02x is not UTF-8: save the file as UTF-8", text[at])}
}

// lineAt is the line of an offset, from 1.
func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:max(0, min(offset, len(text)))], []byte("\n"))
}

// A chunk is the text between two lines of "---", parsed by itself so that a mistake in it stays in it.
type chunk struct {
	line int // of its first line in the file
	text []byte
}

// split cuts a file at lines that are "---", alone or followed by white space, as kubectl does. No YAML scalar can
// contain such a line at its left edge, so this is also what a YAML parser would do. Directives (%YAML 1.2), which may
// only stand before such a line and would be parted from it, become comments: there is nothing they could change here.
func split(text []byte) []chunk {
	var chunks []chunk
	start, startLine, line := 0, 1, 1
	for at := 0; at < len(text); line++ {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		switch {
		case at > start && isSeparator(text[at:end]):
			chunks = append(chunks, chunk{startLine, text[start:at]})
			start, startLine = at, line
		case bytes.HasPrefix(text[at:end], []byte("%YAML ")), bytes.HasPrefix(text[at:end], []byte("%TAG ")):
			text[at] = '#'
		}
		at = end
	}
	return append(chunks, chunk{startLine, text[start:]})
}

// empty says whether there are only comments.
func (c chunk) empty() bool {
	text := bytes.TrimPrefix(c.text, []byte("---"))
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// parse makes node trees of a chunk: none when it holds only comments, several when "..." lines part them.
func (c chunk) parse() ([]*yaml.Node, *mistake) {
	var documents []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if err == io.EOF {
			return documents, nil
		}
		if err != nil {
			m := c.explain(err)
			return documents, &m
		}
		if len(document.Content) == 0 {
			continue
		}
		root := document.Content[0]
		if line := settle(root, c.line-1, 0); line > 0 {
			return documents, &mistake{line, fmt.Sprintf("more than %d levels of nesting", maxDepth)}
		}
		if !isNull(root) {
			documents = append(documents, root)
		}
	}
}

// settle moves the lines of a tree from chunk to file and drops its comments. It returns the line of a node nested
// too deeply, or 0. Aliases are not followed: they may lead in circles.
func settle(n *yaml.Node, by, depth int) int {
	n.Line += by
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if depth > maxDepth {
		return n.Line
	}
	for _, child := range n.Content {
		if line := settle(child, by, depth+1); line > 0 {
			return line
		}
	}
	return 0
}
