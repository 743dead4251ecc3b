package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/config"
	"sallyport/e2e"
)

// hanging serves one Service, web, whose endpoint answers when it is told to.
func hanging(t *testing.T, args ...string) (p *e2e.Process, arrived chan struct{}, answer chan struct{}) {
	t.Helper()
	arrived, answer = make(chan struct{}, 1), make(chan struct{})
	endpoint := e2e.Serve(t, "127.0.0.1:0", "web", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			arrived <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		fmt.Fprintln(w, "answered")
	}))
	folder := e2e.Folder(t, map[string]string{"all.yaml": fanOut})
	return e2e.Start(t, folder, append(args, "--map=web="+endpoint.Addr)...), arrived, answer
}

// wait waits for a channel, with patience.
func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
}

func TestTerminationFailsReadinessFirstAndFinishesWhatIsInFlight(t *testing.T) {
	p, arrived, answer := hanging(t, "--drain-delay=1s")
	client := p.Client(nil)
	defer client.CloseIdleConnections()
	finished := make(chan error, 1)
	go func() {
		response, err := client.Get("http://a.test/hang")
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %s", response.Status)
			}
		}
		finished <- err
	}()
	wait(t, "the request at its endpoint", arrived)
	p.Terminate()
	e2e.Eventually(t, "readiness fails", func() error {
		if p.Ready() == nil {
			return fmt.Errorf("it is still ready")
		}
		return nil
	})
	fresh := p.Client(nil)
	defer fresh.CloseIdleConnections()
	response, err := fresh.Get("http://a.test/")
	if err != nil {
		t.Fatalf("a new connection within the drain delay: %v", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("within the drain delay the answer is %s and closes its connection: %v; want 200 and true", response.Status, response.Close)
	}
	e2e.Eventually(t, "the listener is closed", func() error {
		late := p.Client(nil)
		defer late.CloseIdleConnections()
		response, err := late.Get("http://a.test/")
		if err == nil {
			response.Body.Close()
			return fmt.Errorf("a new connection is answered %s", response.Status)
		}
		return nil
	})
	close(answer)
	if err := <-finished; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	wait(t, "the end of the process", p.Exited())
	if p.ExitCode() != 0 {
		t.Errorf("it exits with %d, want 0", p.ExitCode())
	}
}

func TestGracePeriodEndsWhatDoesNotFinish(t *testing.T) {
	p, arrived, _ := hanging(t, "--drain-delay=0", "--shutdown-grace-period=100ms")
	client := p.Client(nil)
	defer client.CloseIdleConnections()
	finished := make(chan error, 1)
	go func() {
		response, err := client.Get("http://a.test/hang")
		if err == nil {
			response.Body.Close()
		}
		finished <- err
	}()
	wait(t, "the request at its endpoint", arrived)
	p.Terminate()
	wait(t, "the end of the process", p.Exited())
	if p.ExitCode() != 0 {
		t.Errorf("it exits with %d, want 0", p.ExitCode())
	}
	if err := <-finished; err == nil {
		t.Error("a request that never ends was answered")
	}
	if !strings.Contains(p.Log(), "--shutdown-grace-period") {
		t.Error("the log does not say that connections were cut")
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	p, arrived, _ := hanging(t, "--drain-delay=10m", "--shutdown-grace-period=10m")
	client := p.Client(nil)
	defer client.CloseIdleConnections()
	finished := make(chan error, 1)
	go func() {
		response, err := client.Get("http://a.test/hang")
		if err == nil {
			response.Body.Close()
		}
		finished <- err
	}()
	wait(t, "the request at its endpoint", arrived)
	p.Terminate()
	e2e.Eventually(t, "it drains", func() error {
		if !strings.Contains(p.Log(), "draining") {
			return fmt.Errorf("no word of draining")
		}
		return nil
	})
	p.Terminate()
	wait(t, "the end of the process", p.Exited())
	if p.ExitCode() != 2 {
		t.Errorf("it exits with %d, want 2", p.ExitCode())
	}
	<-finished
}

func TestAReloadSaysInOneLineWhatItChangesForTraffic(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"all.yaml": fanOut})
	p := e2e.Start(t, folder, "--log-format=text")
	said := func(want string) {
		t.Helper()
		e2e.Eventually(t, "the log has "+want, func() error {
			if !strings.Contains(strings.ReplaceAll(p.Log(), folder+"/", ""), want) {
				return fmt.Errorf("the log is\n%s", p.Log())
			}
			return nil
		})
	}
	path := filepath.Join(folder, "all.yaml")

	e2e.WriteFile(t, path, strings.Replace(fanOut, "path: /exact", "path: /other", 1))
	said(`msg="traffic changed" objects="all.yaml:23: changed Ingress default/web" routes="a.test/other (Exact): new, web:80 (all.yaml:32); a.test/exact (Exact): gone, was web:80 (all.yaml:32)"`)

	e2e.WriteFile(t, path, strings.Replace(fanOut, "192.0.2.2", "192.0.2.3", 1))
	e2e.WriteFile(t, path, strings.Replace(fanOut, ", {addresses: [192.0.2.2]}", "", 1))
	said("web:http has 1 endpoint, had 2")

	e2e.WriteFile(t, path, strings.Replace(fanOut, "name: web, port: {number: 80}", "name: web, port: {number: 81}", 1))
	said(`level=ERROR msg=problem problem="all.yaml:32: error: Ingress default/web: spec.rules[0].http.paths[1].backend.service.port`)
	e2e.WriteFile(t, path, fanOut)
	said(`level=INFO msg=solved problem="all.yaml:32: error: Ingress default/web: spec.rules[0].http.paths[1].backend.service.port`)
}

// TestARenamedFileKeepsTheLogTrue renames a file and takes it away: no line names a place that is no longer there, and a
// problem of it is neither new nor solved.
func TestARenamedFileKeepsTheLogTrue(t *testing.T) {
	const late = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: late}
spec:
  rules:
  - host: late.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /x, pathType: Prefix, backend: {service: {name: web, port: {number: 81}}}}
`
	folder := e2e.Folder(t, map[string]string{"all.yaml": fanOut, "one.yaml": late})
	p := e2e.Start(t, folder, "--log-format=text")
	log := func() string { return strings.ReplaceAll(p.Log(), folder+"/", "") }
	said := func(want string) {
		t.Helper()
		e2e.Eventually(t, "the log has "+want, func() error {
			if !strings.Contains(log(), want) {
				return errors.New("it has not")
			}
			return nil
		})
	}
	said("problem=\"one.yaml:11: error: ")
	if err := os.Rename(filepath.Join(folder, "one.yaml"), filepath.Join(folder, "two.yaml")); err != nil {
		t.Fatal(err)
	}
	said(`msg="changed, traffic goes where it went" objects="two.yaml:2: moved Ingress default/late from one.yaml"`)
	before := len(log())
	if err := os.Remove(filepath.Join(folder, "two.yaml")); err != nil {
		t.Fatal(err)
	}
	said(`msg="traffic changed" objects="two.yaml:2: removed Ingress default/late" routes="late.test/x: gone, was web:81 (two.yaml:11); late.test/: gone, was web:80 (two.yaml:10)"`)
	said(`msg=solved problem="two.yaml:11: error: `)
	if strings.Contains(log()[before:], "one.yaml") || strings.Count(log(), "msg=problem problem=\"") != 2 || strings.Count(log(), "msg=solved") != 1 {
		t.Errorf("the log is\n%s\nwant no word of one.yaml in the end, and of each problem one", log())
	}
}

func TestEveryFlagOfRunIsTaken(t *testing.T) {
	folder := e2e.Folder(t, map[string]string{"all.yaml": fanOut})
	p := e2e.Start(t, folder, "--bind-address=127.0.0.1", "--admin-address=127.0.0.1", "--trusted-proxies=127.0.0.1",
		"--proxy-connect-timeout=1s", "--proxy-send-timeout=1s", "--proxy-read-timeout=1s", "--access-log=json",
		"--log-level=debug", "--log-format=json", "--profiling", "--controller-class=a.example/b", "--ingress-class=x",
		"--ingress-class-by-name", "--watch-ingress-without-class", "--default-backend-service=default/web", "--disable-catch-all")
	if profiles := p.AdminGet(t, "/debug/pprof/"); !strings.Contains(profiles, "goroutine") {
		t.Errorf("profiles: %s", profiles)
	}
	response, err := p.Client(nil).Get("http://a.test/exact")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	e2e.Eventually(t, "the access log has the request", func() error {
		if !strings.Contains(p.Log(), `"/exact"`) && !strings.Contains(p.Log(), `/exact`) {
			return fmt.Errorf("it is not there")
		}
		return nil
	})
}

func TestProfilesNeedTheFlag(t *testing.T) {
	p := e2e.Start(t, e2e.Folder(t, map[string]string{"all.yaml": fanOut}))
	response, err := http.Get("http://" + p.Admin + "/debug/pprof/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("profiles without --profiling are answered %s, want 404", response.Status)
	}
}

// failing is a source that cannot be read.
type failing struct{ err error }

func (f failing) Run(context.Context, func(state)) error { return f.err }
func (f failing) Nudge()                                 {}

func TestServeReturnsWhyItsSourceFailedBeforeTheFirstTable(t *testing.T) {
	c := config.Default()
	c.HTTPPort, c.HTTPSPort, c.AdminPort, c.AccessLog = 0, 0, 0, "off"
	listeners, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	defer listeners.close()
	s, err := newServer(world{out: io.Discard, err: io.Discard, lookup: os.LookupEnv}, c, listeners, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cannot, ended := errors.New("cannot read"), make(chan error, 1)
	go func() { ended <- s.serve(t.Context(), failing{cannot}) }()
	select {
	case err := <-ended:
		if !errors.Is(err, cannot) {
			t.Errorf("serve returns %v, want %v", err, cannot)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("serve goes on although its source has failed")
	}
}
