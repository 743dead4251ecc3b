package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long the harness waits for anything that should happen soon.
const patience = 20 * time.Second

// A Process is one running sallyport.
type Process struct {
	HTTP, HTTPS, Admin string // addresses it listens on
	cmd                *exec.Cmd
	exited             chan struct{}
	err                error // of Wait, once exited is closed
	log                *output
	client             *http.Client
}

// Start runs `sallyport run --manifests folder` with args on free ports and returns when it is ready. It is stopped
// when the test ends; a failing test prints what the process said.
func Start(t testing.TB, folder string, args ...string) *Process {
	t.Helper()
	p := Launch(t, append([]string{"--manifests=" + folder}, args...)...)
	p.WaitReady(t)
	return p
}

// Launch is Start without the folder and the wait.
func Launch(t testing.TB, args ...string) *Process {
	t.Helper()
	return LaunchIn(t, nil, args...)
}

// LaunchIn is Launch with more variables, as NAME=VALUE, in the environment.
func LaunchIn(t testing.TB, environment []string, args ...string) *Process {
	t.Helper()
	p, args := newProcess(t, args)
	p.cmd = exec.Command(Tool("sallyport"), args...)
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start sallyport: %v", err)
	}
	go p.wait()
	p.endWith(t, args, func() { p.cmd.Process.Kill() })
	return p
}

// StartInside is Start with a function in place of the built binary: it does what the command line says, in this process,
// until its context ends. Of the Process's methods those that deal with a process of its own are not to be used.
func StartInside(t testing.TB, run Command, folder string, args ...string) *Process {
	t.Helper()
	p, args := newProcess(t, append([]string{"--manifests=" + folder}, args...))
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(p.exited)
		p.err = run(ctx, p.log, args)
	}()
	p.endWith(t, args, stop)
	p.WaitReady(t)
	return p
}

// A Command runs a command line and says what it has to say to out.
type Command func(ctx context.Context, out io.Writer, args []string) error

// newProcess prepares to run a command line with ports of its own.
func newProcess(t testing.TB, args []string) (*Process, []string) {
	plain, secure, admin := FreePort(t), FreePort(t), FreePort(t)
	p := &Process{
		HTTP: "127.0.0.1:" + plain, HTTPS: "127.0.0.1:" + secure, Admin: "127.0.0.1:" + admin,
		exited: make(chan struct{}), log: new(output),
	}
	p.client = p.Client(nil)
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--manifests") }) {
		args = append([]string{"--state-dir=" + filepath.Join(t.TempDir(), "state")}, args...)
	}
	return p, append([]string{"run", "--http-port=" + plain, "--https-port=" + secure, "--admin-port=" + admin}, args...)
}

// endWith ends the process with the test.
func (p *Process) endWith(t testing.TB, args []string, end func()) {
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		end()
		<-p.exited
		if t.Failed() {
			t.Logf("sallyport %s said:\n%s", strings.Join(args, " "), p.Log())
		}
	})
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.exited)
}

// WaitReady returns when the readiness probe succeeds.
func (p *Process) WaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, "sallyport is ready", func() error {
		select {
		case <-p.exited:
			t.Fatalf("sallyport ended before it was ready: %v\n%s", p.err, p.Log())
		default:
		}
		return p.Ready()
	})
}

// Ready asks the readiness probe once.
func (p *Process) Ready() error {
	answer, err := http.Get("http://" + p.Admin + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz answers %s", answer.Status)
	}
	return nil
}

// Terminate sends SIGTERM.
func (p *Process) Terminate() { p.cmd.Process.Signal(syscall.SIGTERM) }

// Kill ends the process as a crash would, and waits until it has ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// Exited is closed when the process has ended; then ExitCode is its exit code.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode is the process's exit code; -1 when a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Log is what the process wrote so far, to stdout and stderr.
func (p *Process) Log() string { return p.log.String() }

// AdminGet returns the body of a page of the admin port.
func (p *Process) AdminGet(t testing.TB, path string) string {
	t.Helper()
	answer, err := http.Get("http://" + p.Admin + path)
	if err != nil {
		t.Fatalf("GET %s of the admin port: %v", path, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s of the admin port: %s, %v", path, answer.Status, err)
	}
	return string(body)
}

// Metric is the sum of all series of a metric on /metrics; 0 when there is none.
func (p *Process) Metric(t testing.TB, name string) float64 {
	t.Helper()
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(p.AdminGet(t, "/metrics")))
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name+" ") && !strings.HasPrefix(line, name+"{") {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metric line %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

// Resident is the memory that the process holds, in bytes.
func (p *Process) Resident(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(status))
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatalf("statm says %q: %v", status, err)
	}
	return pages * os.Getpagesize()
}

// WatchResident starts to watch the memory that the process holds, and returns what says the most it has held since, in
// bytes.
func (p *Process) WatchResident(t testing.TB) (most func() int) {
	t.Helper()
	folder := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	const forgetTheMost = "5" // proc(5)
	if err := os.WriteFile(folder+"/clear_refs", []byte(forgetTheMost), 0); err != nil {
		t.Fatal(err)
	}
	return func() int {
		t.Helper()
		status, err := os.ReadFile(folder + "/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
		var kib int
		if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
			t.Fatalf("the status of the process has no VmHWM: %v", err)
		}
		return kib << 10
	}
}

// Client is an HTTP client for which every host is this process: port 80 of a URL is its HTTP port, 443 its HTTPS
// port. It follows no redirect, keeps no cookie and takes any certificate. Configure may change its transport; nil
// leaves it.
func (p *Process) Client(configure func(*http.Transport)) *http.Client {
	dialer := new(net.Dialer)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasSuffix(addr, ":443") {
				return dialer.DialContext(ctx, network, p.HTTPS)
			}
			return dialer.DialContext(ctx, network, p.HTTP)
		},
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}
	if configure != nil {
		configure(transport)
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Folder writes files, by path relative to a new folder, and returns the folder.
func Folder(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		WriteFile(t, filepath.Join(folder, name), content)
	}
	return folder
}

// WriteFile writes a file the way careful editors do: beside it, then renamed over it.
func WriteFile(t testing.TB, path, content string) {
	t.Helper()
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(beside, []byte(content), 0o644),
		os.Rename(beside, path),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually calls check until it returns nil, for as long as the harness has patience.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain until %s: %v", patience, what, err)
		}
	}
}

// lastPort is the last one that was given away; the first is above it.
var lastPort atomic.Int32

func init() { lastPort.Store(20000) }

// FreePort is a port of the namespace that nobody has. It lies below those that outgoing connections take for themselves
// (32768 and above), so that nobody can have it by the time it is used.
func FreePort(t testing.TB) string {
	t.Helper()
	for {
		port := strconv.Itoa(int(lastPort.Add(1)))
		listener, err := net.Listen("tcp", ":"+port)
		if err == nil {
			listener.Close()
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
