package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// The documentation is run. Every block
//
//	```console
//	$ curl http://myapp.localhost:30080/
//	service    myapp
//	...
//	```
//
// is a conversation with a shell: a line that begins with "$ " is typed, the lines below it are what must come back, on
// standard output and standard error together. A line of three dots stands for any number of lines, three dots inside
// a line for any text; blanks at the ends of lines do not count. A command that serves (run, demo) stays until the
// page ends or another one is started; the commands after it are typed once it is ready. Of its own output, what goes to
// standard output is looked at. Blocks of a page are one session, in one folder of its own, in which the page's files are made by blocks
//
//	```yaml file=manifests/shop.yaml
//
// "go run ./cmd/sallyport" stands for the binary under test.

// A dialogue is a command and what must come back.
type dialogue struct {
	line    int // of the page
	command string
	want    []string
}

// A page is what a Markdown file asks to be run, in order: files to write and dialogues.
type page struct {
	steps []any // pageFile or dialogue
}

type pageFile struct{ name, content string }

var fence = regexp.MustCompile("^```(\\w*)(?: file=(\\S+))?$")

func readPage(text string) page {
	var p page
	var language, file string
	var content strings.Builder
	inside := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if match := fence.FindStringSubmatch(line); match != nil {
			if inside && file != "" {
				p.steps = append(p.steps, pageFile{file, content.String()})
			}
			inside, language, file = !inside, match[1], match[2]
			content.Reset()
			continue
		}
		if !inside {
			continue
		}
		content.WriteString(line + "\n")
		if language == "console" {
			p.addConsole(number, line)
		}
	}
	return p
}

func (p *page) addConsole(number int, line string) {
	if command, ok := strings.CutPrefix(line, "$ "); ok {
		p.steps = append(p.steps, dialogue{line: number, command: command})
		return
	}
	last, ok := p.steps[len(p.steps)-1].(dialogue)
	if !ok {
		return
	}
	last.want = append(last.want, line)
	p.steps[len(p.steps)-1] = last
}

// matches holds output against the lines wanted.
func matches(want []string, output string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range want {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " "), "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, `[^\n]*?`) + `\n`)
	}
	pattern.WriteString(`$`)
	var got strings.Builder
	for line := range strings.Lines(output) {
		got.WriteString(strings.TrimRight(line, " \r\n") + "\n")
	}
	return regexp.MustCompile(pattern.String()).MatchString(got.String())
}

func TestDocumentationSaysWhatHappens(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, path := range append(pages, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if p := readPage(string(text)); len(p.steps) > 0 {
			ran++
			t.Run(filepath.Base(path), func(t *testing.T) { p.run(t) })
		}
	}
	if ran < 3 {
		t.Errorf("%d pages have something to run; are the blocks still found?", ran)
	}
}

// A session is the shell of one page.
type session struct {
	folder  string
	home    string // of the user who types
	bin     string // folder with the binary and the settings of curl
	path    string // PATH, with bin first
	serving *exec.Cmd
	log     string // file with the output of serving
}

func (p page) run(t *testing.T) {
	s := &session{folder: t.TempDir(), home: t.TempDir()}
	bin := t.TempDir()
	if err := os.Symlink(e2e.Tool("sallyport"), filepath.Join(bin, "sallyport")); err != nil {
		t.Fatal(err)
	}
	// At a terminal curl shows no progress when its answer is printed; here it would.
	e2e.WriteFile(t, filepath.Join(bin, ".curlrc"), "silent\nshow-error\n")
	s.bin = bin
	s.path = bin + string(os.PathListSeparator) + os.Getenv("PATH")
	t.Cleanup(func() { s.stop() })
	for _, step := range p.steps {
		switch step := step.(type) {
		case pageFile:
			e2e.WriteFile(t, filepath.Join(s.folder, step.name), step.content)
		case dialogue:
			step.command = strings.ReplaceAll(step.command, "go run ./cmd/sallyport", "sallyport")
			s.hold(t, step)
		}
	}
}

var serves = regexp.MustCompile(`^(\w+=\S+ )*sallyport (run|demo)\b`)

// hold runs one dialogue. What comes back may need a moment when files have just changed, so it is asked again until
// it fits, for as long as the harness has patience.
func (s *session) hold(t *testing.T, d dialogue) {
	t.Helper()
	if serves.MatchString(d.command) {
		s.serve(t, d)
		return
	}
	e2e.Eventually(t, fmt.Sprintf("line %d says what happens: $ %s", d.line, d.command), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		output, _ := s.shell(ctx, d.command).CombinedOutput()
		if !matches(d.want, string(output)) {
			return fmt.Errorf("want\n%s\ngot\n%s", strings.Join(d.want, "\n"), output)
		}
		return nil
	})
}

// serve starts a command that serves, waits until it is ready and holds its output against what the page shows.
func (s *session) serve(t *testing.T, d dialogue) {
	t.Helper()
	s.stop()
	s.log = filepath.Join(t.TempDir(), "log")
	file, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s.serving = s.shell(context.Background(), "exec "+strings.TrimSuffix(d.command, " &"))
	s.serving.Stdout = file
	if err := s.serving.Start(); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, fmt.Sprintf("line %d says what happens: $ %s", d.line, d.command), func() error {
		output, err := os.ReadFile(s.log)
		if err != nil {
			return err
		}
		if !matches(d.want, string(output)) {
			return fmt.Errorf("want\n%s\ngot\n%s", strings.Join(d.want, "\n"), output)
		}
		return nil
	})
	e2e.Eventually(t, "it is ready", func() error {
		return s.shell(t.Context(), "curl -sf http://localhost:10254/readyz").Run()
	})
}

func (s *session) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "PATH="+s.path, "CURL_HOME="+s.bin, "HOME="+s.home, "XDG_STATE_HOME=")
	return cmd
}

func (s *session) stop() {
	if s.serving != nil {
		s.serving.Process.Kill()
		s.serving.Wait()
		s.serving = nil
	}
}

func TestThreeDotsStandForAnything(t *testing.T) {
	for _, test := range []struct {
		want, output string
		matches      bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a  \nb\n", true},
		{"a", "a\nb\n", false},
		{"a\n...", "a\nb\nc\n", true},
		{"a\n...\nc", "a\nc\n", true},
		{"...\nc", "a\nb\n", false},
		{"at 127.0.0.1:...", "at 127.0.0.1:4711\n", true},
		{"a.c", "abc\n", false},
	} {
		if got := matches(strings.Split(test.want, "\n"), test.output); got != test.matches {
			t.Errorf("matches(%q, %q) = %v, want %v", test.want, test.output, got, test.matches)
		}
	}
}

func TestPagesAreReadInOrder(t *testing.T) {
	p := readPage("# Page\n```yaml file=m/a.yaml\nkind: Ingress\n```\ntext\n```console\n$ one\nout 1\n$ two\n```\n```sh\n$ not this\n```\n")
	want := "[{m/a.yaml kind: Ingress\n} {7 one [out 1]} {9 two []}]"
	var got bytes.Buffer
	fmt.Fprint(&got, p.steps)
	if got.String() != want {
		t.Errorf("read %s\nwant %s", got.String(), want)
	}
}
