package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport/controller"
	"sallyport/controller/manifests"
	"sallyport/proxy/upstream"
)

const brokenDir = "../../testdata/broken"

// generated are the broken manifests that are too large, or too little of a text, to lie in a folder of texts.
func generated() map[string]string {
	good, err := os.ReadFile(filepath.Join(brokenDir, "beside", "good.yaml"))
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"huge.yaml":            "# padding\n" + strings.Repeat("# "+strings.Repeat("x", 97)+"\n", 50_000),
		"binary.yaml":          "apiVersion: v1\n\x7fELF\x02\x01\x01\x00\x00\x00\x00",
		"bom-and-garbage.yaml": "\xef\xbb\xbf\xfe\xfeapiVersion: v1\n",
		"utf-16.yaml":          "\xff\xfea\x00p\x00i\x00",
		"latin-1.yaml":         "# Stra\xdfe\n" + string(good),
	}
}

// TestBrokenManifestsAreToldOnce reads every broken manifest with a good one beside it, builds a table, and compares
// what is told, word for word up to the part of the message that expected.txt holds: nothing less, nothing more, and
// the good Ingress is served.
func TestBrokenManifestsAreToldOnce(t *testing.T) {
	cases := generated()
	entries, err := os.ReadDir(brokenDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == "expected.txt" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(brokenDir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		cases[e.Name()] = string(text)
	}
	expected := readExpected(t)
	for name := range expected {
		if cases[name] == "" {
			t.Errorf("expected.txt names %s, which does not exist", name)
		}
	}
	if len(cases) < 100 {
		t.Errorf("%d broken manifests, want 100 or more", len(cases))
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) { checkBroken(t, name, text, expected[name]) })
	}
}

// An expectation is a line of expected.txt: tab between place, severity, object, field, reason, part of the message.
type expectation struct{ place, severity, object, field, reason, message string }

func (e expectation) String() string {
	return strings.Join([]string{e.place, e.severity, e.object, e.field, e.reason, e.message}, "\t")
}

func readExpected(t *testing.T) map[string][]expectation {
	text, err := os.ReadFile(filepath.Join(brokenDir, "expected.txt"))
	if err != nil {
		t.Fatal(err)
	}
	expected := make(map[string][]expectation)
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 6 || columns[5] == "" {
			t.Fatalf("expected.txt:%d: %d columns, want 6: %q", i+1, len(columns), line)
		}
		name, _, _ := strings.Cut(columns[0], ":")
		expected[name] = append(expected[name], expectation{columns[0], columns[1], columns[2], columns[3], columns[4], columns[5]})
	}
	return expected
}

func checkBroken(t *testing.T, name, text string, expected []expectation) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	folder, err := manifests.Read([]string{dir, filepath.Join(brokenDir, "beside")})
	if err != nil {
		t.Fatal(err)
	}
	builder := controller.NewBuilder(controller.Options{ServeAllWithoutClasses: true, Pools: new(upstream.Pools)})
	result := builder.Build(folder.Snapshot())

	var got []expectation
	for _, p := range folder.Report(result.Problems) {
		place := strings.TrimPrefix(p.File, dir+"/")
		if p.Line > 0 {
			place += fmt.Sprintf(":%d", p.Line)
		}
		message := strings.ReplaceAll(p.Message, dir+"/", "")
		got = append(got, expectation{place, p.Severity.String(), p.Object.String(), p.Field, p.Reason, message})
	}
	same := slices.EqualFunc(got, expected, func(got, want expectation) bool {
		part := want.message
		want.message = got.message
		return got == want && strings.Contains(got.message, part)
	})
	if !same || len(expected) == 0 {
		t.Errorf("told:\n%s\nwant:\n%s", lines(got), lines(expected))
	}
	if route := result.Table.Lookup("good.example.com", "/"); route == nil || !strings.Contains(route.Source, "good") {
		t.Errorf("the good Ingress is not served: %v", route)
	}
}

func lines(list []expectation) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}
