package oauth2proxy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for anything that should happen soon.
const patience = 20 * time.Second

// A process is a program that runs beside the test.
type process struct {
	command *exec.Cmd
	exited  chan struct{} // closed when it has ended
	log     output
}

// start runs a program and returns once ready, a URL, answers 200. It is stopped when the test ends; a failing test
// prints what it said.
func start(t *testing.T, ready, program string, args ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(program, args...), exited: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.wait()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), p.log.String())
		}
	})
	again, deadline := time.NewTicker(5*time.Millisecond), time.NewTimer(patience)
	defer again.Stop()
	defer deadline.Stop()
	for {
		err := probe(ready)
		if err == nil {
			return p
		}
		select {
		case <-again.C:
		case <-p.exited:
			t.Fatalf("%s ended before it was ready: %v", filepath.Base(program), p.command.ProcessState)
		case <-deadline.C:
			t.Fatalf("waited %v in vain until %s was ready: %v", patience, filepath.Base(program), err)
		}
	}
}

func (p *process) wait() {
	p.command.Wait() // how it ended is in ProcessState
	close(p.exited)
}

// stop ends the process and waits until it has ended.
func (p *process) stop() {
	p.command.Process.Kill()
	<-p.exited
}

func probe(url string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return nil
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// writeFile writes a file into a folder of the test's own.
func writeFile(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
