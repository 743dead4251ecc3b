package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// ingress is an Ingress of the default namespace that gives each path of a host to a Service on port 80.
func ingress(name, host string, pathAndService ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s}\nspec:\n  rules:\n  - host: %s\n    http:\n      paths:\n", name, host)
	for i := 0; i < len(pathAndService); i += 2 {
		fmt.Fprintf(&b, "      - {path: %s, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}\n", pathAndService[i], pathAndService[i+1])
	}
	return b.String()
}

// streaming are annotations without which an upload is kept whole before an endpoint gets it.
const streaming = `name: streams, annotations: {nginx.ingress.kubernetes.io/proxy-request-buffering: "off", nginx.ingress.kubernetes.io/proxy-body-size: "0"}}`

// swaps is how often TestSwapsLeaveTrafficAlone rewrites manifests: a thousand times in `make test`, which takes more than a
// minute, and fewer times by itself.
func swaps(t *testing.T) int {
	text := os.Getenv("E2E_SWAPS")
	if text == "" {
		return 200
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("E2E_SWAPS is %q, want a whole number from 1", text)
	}
	return n
}

// TestSwapsLeaveTrafficAlone rewrites manifests again and again under load. Each version has a path of its own, and the
// next is written when that path answers: as many tables, one after the other.
func TestSwapsLeaveTrafficAlone(t *testing.T) {
	swaps := swaps(t)
	a, b := e2e.Echo(t, "127.0.0.1:0", "a"), e2e.Echo(t, "127.0.0.1:0", "b")
	s := &streams{tick: make(chan string)}
	t.Cleanup(func() { close(s.tick) })
	long := e2e.Serve(t, "127.0.0.1:0", "streams", s)
	folder := e2e.Folder(t, map[string]string{
		"fixed.yaml": ingress("a", "a.test", "/", "a") + ingress("b", "b.test", "/", "b") + strings.Replace(ingress("streams", "streams.test", "/", "streams"), "name: streams}", streaming, 1),
		"churn.yaml": version(0),
	})
	p := e2e.Start(t, folder, "--map=default/a="+a.Addr, "--map=default/b="+b.Addr, "--map=default/streams="+long.Addr)

	o := openStreams(t, p, s, "streams.test")
	load := e2e.StartLoad(t, p, 8, 10*time.Millisecond,
		e2e.Target{URL: "http://a.test/x", Endpoints: []string{"a"}},
		e2e.Target{URL: "https://a.test/x", Endpoints: []string{"a"}},
		e2e.Target{URL: "http://b.test/", Endpoints: []string{"b"}},
		e2e.Target{URL: "https://b.test/deep", Endpoints: []string{"b"}},
		e2e.Target{URL: "http://churn.test/", Endpoints: []string{"a", "b"}},
		e2e.Target{URL: "https://fixed.churn.test/", Endpoints: []string{"b"}},
	)
	before := p.Metric(t, "sallyport_table_generation")
	client := p.Client(nil)
	for i := 1; i <= swaps; i++ {
		e2e.WriteFile(t, filepath.Join(folder, "churn.yaml"), version(i))
		e2e.Eventually(t, fmt.Sprintf("version %d is served", i), func() error { return serves(client, i) })
		if i%20 == 0 {
			o.exchange(fmt.Sprintf("word-%d", i))
		}
	}
	load.Stop(t, int64(5*swaps))
	o.finish()
	if swapped := p.Metric(t, "sallyport_table_generation") - before; swapped < float64(swaps) {
		t.Errorf("the table was swapped %v times, want at least %d", swapped, swaps)
	}
}

// version is manifests that differ from those of any other number: a path that only this version has, a host whose
// Service alternates, and Ingresses that come and go.
func version(i int) string {
	text := ingress("version", "version.test", fmt.Sprintf("/%d", i), "a") +
		ingress("churn", "churn.test", "/", []string{"a", "b"}[i%2]) +
		ingress("fixed", "fixed.churn.test", "/", "b")
	for n := i % 7; n > 0; n-- {
		text += ingress(fmt.Sprintf("passing-%d", i+n), fmt.Sprintf("h%d.churn.test", i+n), "/", "a", "/b", "b")
	}
	return text
}

func serves(client *http.Client, version int) error {
	answer, err := client.Get(fmt.Sprintf("http://version.test/%d", version))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", answer.Status)
	}
	return nil
}

// TestTerminationLosesNoRequest sends SIGTERM under load. The clients behave as a load balancer does that asks the
// readiness probe: they go on until it has failed, and for a while longer.
func TestTerminationLosesNoRequest(t *testing.T) {
	a := e2e.Echo(t, "127.0.0.1:0", "a")
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	slow := e2e.Serve(t, "127.0.0.1:0", "slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		io.WriteString(w, "after all")
	}))
	folder := e2e.Folder(t, map[string]string{"a.yaml": ingress("a", "a.test", "/", "a", "/slow", "slow")})
	p := e2e.Start(t, folder, "--map=default/a="+a.Addr, "--map=default/slow="+slow.Addr, "--drain-delay=5s", "--shutdown-grace-period=20s")

	load := e2e.StartLoad(t, p, 8, time.Millisecond,
		e2e.Target{URL: "http://a.test/", Endpoints: []string{"a"}},
		e2e.Target{URL: "https://a.test/", Endpoints: []string{"a"}},
	)
	inFlight := make(chan string, 1)
	go func() {
		answer, err := p.Client(nil).Get("http://a.test/slow")
		if err != nil {
			inFlight <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		inFlight <- fmt.Sprint(string(text), err)
	}()
	<-arrived

	load.More(t, 300)
	p.Terminate()
	e2e.Eventually(t, "readiness fails", func() error {
		if p.Ready() == nil {
			return fmt.Errorf("it still succeeds")
		}
		return nil
	})
	connection, err := net.Dial("tcp", p.HTTP)
	if err != nil {
		t.Errorf("readiness failed, and the listener was closed already: %v", err)
	} else {
		connection.Close()
	}
	load.More(t, 300)
	load.Stop(t, 600)
	e2e.Eventually(t, "the listener is closed", func() error {
		c, err := net.Dial("tcp", p.HTTP)
		if err != nil {
			return nil
		}
		c.Close()
		return fmt.Errorf("it still accepts")
	})
	select {
	case <-p.Exited():
		t.Error("the process left while a request was in flight")
	default:
	}
	close(release)
	if got := <-inFlight; got != "after all<nil>" {
		t.Errorf("the request in flight ended with %q, want %q", got, "after all<nil>")
	}
	<-p.Exited()
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
