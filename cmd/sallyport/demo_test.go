package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sallyport/e2e"
)

// A running is a demo that runs: what it printed, and how to end it.
type running struct {
	cmd *exec.Cmd
	out transcript
	err transcript
}

// transcript collects what a process writes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var _ io.Writer = (*transcript)(nil)

// startDemo starts the demo and waits until it has said what to try.
func startDemo(t *testing.T, args ...string) *running {
	t.Helper()
	d := new(running)
	d.cmd = exec.Command(e2e.Tool("sallyport"), append([]string{"demo"}, args...)...)
	d.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.err
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			d.cmd.Process.Kill()
			d.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the demo said:\n%s\n%s", d.out.String(), d.err.String())
		}
	})
	e2e.Eventually(t, "the demo says what to try", func() error {
		if !strings.Contains(d.out.String(), "Ctrl-C ends the demo.\n") {
			return fmt.Errorf("it printed\n%s\nand said\n%s", d.out.String(), d.err.String())
		}
		return nil
	})
	return d
}

// folder is the folder that the demo names.
func (d *running) folder(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(`serves the manifests in (\S+)\n`).FindStringSubmatch(d.out.String())
	if match == nil {
		t.Fatalf("the demo names no folder:\n%s", d.out.String())
	}
	return match[1]
}

// commands are the command lines that the demo prints.
func (d *running) commands() (all []string) {
	for _, match := range regexp.MustCompile(`(?m)^  (curl .*)$`).FindAllStringSubmatch(d.out.String(), -1) {
		all = append(all, match[1])
	}
	return all
}

// shell runs a command line as a person would.
func shell(t *testing.T, command string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, stderr.String())
	}
	return out.String()
}

func TestEveryCommandOfTheDemoShowsWhatItPromises(t *testing.T) {
	d := startDemo(t)
	promises := []struct {
		command string
		want    []string // patterns of the answer
	}{
		{`myapp\.localhost:30080/$`, []string{`(?m)^service    myapp$`, `(?m)^endpoint   myapp-[123] at 127\.0\.0\.1:\d+$`, `(?m)^method     GET$`, `(?m)^host       myapp\.localhost:30080$`, `(?m)^path       /$`, `(?m)^header     X-Forwarded-For: 127\.0\.0\.1$`}},
		{`shop\.localhost:30080/cart/items$`, []string{`(?m)^service    cart$`, `(?m)^path       /cart/items$`}},
		{`shop\.localhost:30080/$`, []string{`(?m)^service    web$`}},
		{`blue\.apps\.localhost:30080/$`, []string{`(?m)^service    web$`, `(?m)^host       blue\.apps\.localhost:30080$`}},
		{`-i http://secure\.localhost:30080/$`, []string{`^HTTP/1\.1 308 `, `(?mi)^location: https://secure\.localhost:30443/?\r$`}},
		{`--cacert \S+ https://secure\.localhost:30443/$`, []string{`(?m)^service    myapp$`, `(?m)^header     X-Forwarded-Proto: https$`}},
		{`-k https://shop\.localhost:30443/$`, []string{`(?m)^service    web$`}},
		{`-i http://nobody\.localhost:30080/$`, []string{`^HTTP/1\.1 404 `, `(?m)^reason: no_route$`}},
		{`localhost:10254/routes$`, []string{`myapp\.localhost`, `\*\.apps\.localhost`}},
		{`localhost:10254/metrics$`, []string{`(?m)^nginx_ingress_controller_requests\{.*ingress="myapp".*\} [1-9]`}},
	}
	commands := d.commands()
	if len(commands) != len(promises) {
		t.Fatalf("the demo prints %d commands, want %d:\n%s", len(commands), len(promises), strings.Join(commands, "\n"))
	}
	for i, promise := range promises {
		if !regexp.MustCompile(promise.command).MatchString(commands[i]) {
			t.Errorf("command %d is %q, want one that matches %s", i+1, commands[i], promise.command)
			continue
		}
		answer := shell(t, commands[i])
		for _, want := range promise.want {
			if !regexp.MustCompile(want).MatchString(answer) {
				t.Errorf("%s\nanswers\n%s\nwant a match of %s", commands[i], answer, want)
			}
		}
	}
}

func TestTheDemosEndpointsTakeTurns(t *testing.T) {
	startDemo(t)
	answered := make(map[string]int)
	for range 9 {
		answered[strings.Split(shell(t, "curl -s http://myapp.localhost:30080/"), "\n")[1]]++
	}
	if len(answered) != 3 {
		t.Fatalf("9 requests were answered by %v, want three endpoints", answered)
	}
	for endpoint, n := range answered {
		if n != 3 {
			t.Errorf("%s answered %d of 9 requests, want 3", endpoint, n)
		}
	}
}

func TestEditingTheDemosManifestsChangesWhatIsServed(t *testing.T) {
	d := startDemo(t)
	path := filepath.Join(d.folder(t), "2-shop.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "            name: cart\n            port: {number: 8081}", "            name: myapp\n            port: {number: 80}", 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, "the cart is served by myapp", func() error {
		if answer := shell(t, "curl -s http://shop.localhost:30080/cart"); !strings.HasPrefix(answer, "service    myapp\n") {
			return fmt.Errorf("the answer is\n%s", answer)
		}
		return nil
	})
	e2e.Eventually(t, "the demo says so", func() error {
		if !strings.Contains(d.err.String(), "shop.localhost/cart: cart:8081 -> myapp:80") {
			return fmt.Errorf("it says\n%s", d.err.String())
		}
		return nil
	})
}

func TestTheDemoLeavesWithoutATrace(t *testing.T) {
	d := startDemo(t)
	folder := d.folder(t)
	if _, err := os.Stat(filepath.Join(folder, "1-myapp.yaml")); err != nil {
		t.Fatal(err)
	}
	d.cmd.Process.Signal(syscall.SIGINT)
	d.cmd.Wait()
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the demo exits with %d, want 0", code)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the temporary folder %s is still there: %v", folder, err)
	}
}

func TestTheDemoKeepsAFolderThatWasNamed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "it's new")
	d := startDemo(t, "--dir="+folder)
	for _, command := range d.commands() {
		if strings.Contains(command, "--cacert") {
			if answer := shell(t, command); !strings.HasPrefix(answer, "service    myapp\n") {
				t.Errorf("%s answers\n%s", command, answer)
			}
		}
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
	if _, err := os.Stat(filepath.Join(folder, "endpoints.yaml")); err != nil {
		t.Error(err)
	}
}

func TestTheDemosManifestsHaveNoProblem(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "demo")
	startDemo(t, "--dir="+folder)
	got := sallyport(t, nil, "check", folder)
	if got.code != 0 || got.out != "" {
		t.Errorf("check exits with %d and prints\n%s%s", got.code, got.out, got.err)
	}
}

func TestTheDemoListensOnLoopbackOnly(t *testing.T) {
	d := startDemo(t)
	sockets := shell(t, fmt.Sprintf("cat /proc/%d/net/tcp", d.cmd.Process.Pid))
	const listening, loopback = " 0A ", "0100007F:"
	for line := range strings.Lines(sockets) {
		if strings.Contains(line, listening) && !strings.Contains(line, ": "+loopback) {
			t.Errorf("a socket listens beside the loopback interface: %s", line)
		}
	}
	if !strings.Contains(sockets, loopback+"7580") {
		t.Errorf("no socket listens on port 30080 of the loopback interface:\n%s", sockets)
	}
}
