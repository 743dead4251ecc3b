package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzRead: whatever a file holds, reading it neither panics nor takes long, every problem has a line that the file
// has, a file without a problem means the same when it is read again, and what was decoded has a name.
func FuzzRead(f *testing.F) {
	broken := filepath.Join("..", "..", "testdata", "broken")
	entries, err := os.ReadDir(broken)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join(broken, e.Name())); err == nil {
			f.Add(text, isJSON(e.Name()))
		}
	}
	f.Add([]byte(","), true)
	f.Add([]byte(oldIngress), false)
	f.Add([]byte("a: &a {<<: [*a, *a]}\n<<: *a\n"), false)
	f.Add([]byte("--- !!binary x\n%YAML 1.1\n---\n? [a]\n: b\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, asJSON bool) {
		name := "f.yaml"
		if asJSON {
			name = "f.json"
		}
		lines := 1 + strings.Count(string(text), "\n") + strings.Count(string(text), "\r") +
			strings.Count(string(text), "\u0085") + strings.Count(string(text), "\u2028") + strings.Count(string(text), "\u2029")
		start := time.Now()
		r := &reader{schemas: make(schemas), file: name}
		got := r.read([]byte(string(text)))
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("reading %d bytes took %v", len(text), took)
		}
		for _, p := range got.problems {
			if p.Line < 1 || p.Line > lines || p.Message == "" || p.Reason == "" {
				t.Errorf("problem %+v of a text with %d lines", p, lines)
			}
		}
		for _, e := range got.entries {
			if e.ref.Name == "" || e.bad == (e.made != nil) {
				t.Errorf("entry %+v", e)
			}
		}
		r = &reader{schemas: make(schemas), file: name}
		if again := r.read([]byte(string(text))); len(again.entries) != len(got.entries) || len(again.problems) != len(got.problems) {
			t.Errorf("read again there are %d objects and %d problems, before %d and %d",
				len(again.entries), len(again.problems), len(got.entries), len(got.problems))
		}
	})
}

// What a parser could be made to spend, on files of the largest size.
func TestHostileFilesTakeBoundedTimeAndMemory(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, maxFileSize/len(unit)) }
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	for name, text := range map[string]string{
		"brackets":       fill("["),
		"braces":         fill("{a: "),
		"dashes":         fill("- "),
		"question marks": fill("? "),
		"documents":      fill("---\n"),
		"anchors":        fill("&a "),
		"comments":       fill("# x\n"),
		"quotes":         fill("'"),
		"one line":       object + "  v: " + fill("x"),
		"keys":           object + strings.Repeat("  k: \"\"\n", 400_000),
		"unknown":        strings.Repeat("x: 1\n", 10) + object[:len(object)-6] + fill("y: 1\n"),
		"merges":         object + "  v: &v {a: \"1\"}\n  <<: [" + strings.Repeat("*v, ", 500_000) + "*v]\n",
		"string aliases": object + "  v: &v \"" + strings.Repeat("x", 4000) + "\"\n" + manyAliases(9000),
		"laughs":         strings.Replace(object, "data:\n", bomb+"data: *a9\n", 1),
		"slice laughs":   "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\n" + bomb + "endpoints:\n- addresses: *a9\n",
	} {
		start := time.Now()
		r := &reader{schemas: make(schemas), file: "f.yaml"}
		got := r.read([]byte(text))
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: %d bytes took %v", name, len(text), took)
		} else {
			t.Logf("%s: %v, %d objects, %d problems", name, took, len(got.entries), len(got.problems))
		}
		for _, e := range got.entries {
			if len(e.content) > 2*maxWritten {
				t.Errorf("%s: an object of %d bytes", name, len(e.content))
			}
		}
	}
}

func manyAliases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: *v\n", i)
	}
	return b.String()
}
