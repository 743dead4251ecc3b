package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/e2e"
)

// broken are manifests with one mistake each, by file name. What is wrong with them, and how it is told, is in
// expected.txt: place, severity, object, field, reason and a part of the message, between tabs.
func broken(t *testing.T) (files map[string]string, expected map[string][][]string) {
	t.Helper()
	const folder = "../testdata/broken"
	text, err := os.ReadFile(filepath.Join(folder, "expected.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files, expected = make(map[string]string), make(map[string][][]string)
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(columns) < 6 {
			continue
		}
		name, _, _ := strings.Cut(columns[0], ":")
		content, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // made by the tests of controller/manifests: too large, or no text
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
		expected[name] = append(expected[name], columns)
	}
	return files, expected
}

func good(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/broken/beside/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCheckTellsEveryMistake runs check on each broken manifest with a good one beside it.
func TestCheckTellsEveryMistake(t *testing.T) {
	files, expected := broken(t)
	failing := 0
	for name, content := range files {
		folder := e2e.Folder(t, map[string]string{name: content, "good.yaml": good(t)})
		out, err := exec.Command(e2e.Tool("sallyport"), "check", folder).CombinedOutput()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, e := range expected[name] {
			place, severity, object, field, reason, message := e[0], e[1], e[2], e[3], e[4], e[5]
			if severity == "error" {
				want = 1
			}
			if !hasLine(strings.ReplaceAll(string(out), folder+"/", ""), place, severity, object, field, reason, message) {
				t.Errorf("check %s does not say %q:\n%s", name, e, out)
			}
		}
		if code != want {
			t.Errorf("check %s: exit code %d, want %d\n%s", name, code, want, out)
		}
		failing += want
	}
	if failing < 40 {
		t.Errorf("only %d of %d broken manifests make check fail, want 40 at least", failing, len(files))
	}
}

// hasLine reports whether a line of text has all the words.
func hasLine(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}

// TestGoodIngressIsServedAmongBrokenOnes serves all broken manifests at once, and more and more of them while it runs.
func TestGoodIngressIsServedAmongBrokenOnes(t *testing.T) {
	files, _ := broken(t)
	e2e.Echo(t, "192.0.2.1:8080", "good")
	folder := e2e.Folder(t, map[string]string{"good.yaml": good(t)})
	p := e2e.Start(t, folder)
	load := e2e.StartLoad(t, p, 2, 0, e2e.Target{URL: "http://good.example.com/", Endpoints: []string{"good"}})
	for name, content := range files {
		e2e.WriteFile(t, filepath.Join(folder, name), content)
	}
	e2e.Eventually(t, "the problems are counted", func() error {
		if n := p.Metric(t, "sallyport_problems"); n < 60 {
			return errors.New("there are few yet")
		}
		return nil
	})
	load.More(t, 100)
	load.Stop(t, 100)
}
