package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// manyIngresses is n Ingresses of one path each, in files of ten.
func manyIngresses(n int) map[string]string {
	files := map[string]string{"web.yaml": fanOut}
	for i := range n {
		files[fmt.Sprintf("%d.yaml", i/10)] += fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web-%d}
spec:
  rules:
  - host: h%d.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
`, i, i)
	}
	return files
}

func TestAHundredIngressesAreServedWithinHalfASecond(t *testing.T) {
	endpoint := e2e.Echo(t, "127.0.0.1:0", "web")
	folder := e2e.Folder(t, manyIngresses(100))
	best := time.Hour
	for range 3 {
		best = min(best, timeToFirstAnswer(t, folder, "--map=web="+endpoint.Addr))
	}
	t.Logf("from start to the first answer: %v", best.Round(time.Millisecond))
	if best > 500*time.Millisecond {
		t.Errorf("the first request was answered after %v, want half a second at most", best)
	}
}

// timeToFirstAnswer starts the binary and returns how long it took until an endpoint had answered through it.
func timeToFirstAnswer(t *testing.T, folder string, args ...string) time.Duration {
	t.Helper()
	const address = "127.0.0.1:30081"
	cmd := exec.Command(e2e.Tool("sallyport"), append([]string{"run", "--manifests=" + folder, "--bind-address=127.0.0.1", "--http-port=30081", "--https-port=0", "--admin-port=0", "--access-log=off"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	var said transcript
	cmd.Stdout, cmd.Stderr = &said, &said
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	var took time.Duration
	e2e.Eventually(t, "a request is answered", func() error {
		request, err := http.NewRequest("GET", "http://"+address+"/", nil)
		if err != nil {
			return err
		}
		request.Host = "h99.test"
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return fmt.Errorf("%w; the process said %s", err, said.String())
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"endpoint":"web"`) {
			return fmt.Errorf("%s %s %v", response.Status, body, err)
		}
		took = time.Since(start)
		return nil
	})
	return took
}
