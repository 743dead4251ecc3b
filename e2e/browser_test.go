//go:build browser

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// A browser is Chromium with a home of its own, without a window.
type browser struct {
	t    *testing.T
	home string
}

func newBrowser(t *testing.T) *browser { return &browser{t, t.TempDir()} }

// trust puts a certificate authority among those that the browser believes.
func (b *browser) trust(file string) {
	b.t.Helper()
	database := filepath.Join(b.home, ".pki", "nssdb")
	if err := os.MkdirAll(database, 0o700); err != nil {
		b.t.Fatal(err)
	}
	for _, args := range [][]string{{"-N", "--empty-password"}, {"-A", "-t", "C,,", "-n", "sallyport", "-i", file}} {
		if output, err := exec.Command("certutil", append([]string{"-d", "sql:" + database}, args...)...).CombinedOutput(); err != nil {
			b.t.Fatalf("certutil %q: %v\n%s", args, err, output)
		}
	}
}

// open opens a page and returns what it shows: its document, and with picture a picture of it.
func (b *browser) open(url string, what ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute)
	defer cancel()
	// Root has no sandbox, and a container little of /dev/shm.
	args := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--user-data-dir=" + filepath.Join(b.home, "profile"), "--window-size=1000,700"}
	cmd := exec.CommandContext(ctx, "chromium", append(append(args, what...), url)...)
	cmd.Env = append(os.Environ(), "HOME="+b.home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=")
	var said strings.Builder
	cmd.Stderr = &said
	document, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("chromium %s: %v\n%s", url, err, said.String())
	}
	return string(document)
}

// TestABrowserThatTrustsTheLocalCAHasNothingToWarnOf opens a host of a folder in Chromium. BROWSER_PICTURE names a file for a
// picture of it.
func TestABrowserThatTrustsTheLocalCAHasNothingToWarnOf(t *testing.T) {
	endpoint := e2e.Echo(t, "127.0.0.1:0", "shop")
	folder := e2e.Folder(t, map[string]string{"shop.yaml": `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  tls: [{hosts: [shop.localhost, "*.apps.localhost"]}]
  rules:
  - host: shop.localhost
    http: &web {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
  - {host: "*.apps.localhost", http: *web}
`})
	state := filepath.Join(t.TempDir(), "state")
	p := e2e.Start(t, folder, "--state-dir="+state, "--map=web="+endpoint.Addr, "--access-log=text")
	port := p.HTTPS[strings.LastIndex(p.HTTPS, ":"):]

	stranger := newBrowser(t)
	if page := stranger.open("https://shop.localhost"+port+"/stranger", "--dump-dom"); strings.Contains(page, "endpoint") {
		t.Errorf("a browser that does not trust the CA shows\n%s\nwant nothing of the endpoint", page)
	}
	friend := newBrowser(t)
	friend.trust(filepath.Join(state, "ca.crt"))
	for _, url := range []string{"https://shop.localhost" + port + "/friend", "https://blue.apps.localhost" + port + "/friend"} {
		if page := friend.open(url, "--dump-dom"); !strings.Contains(page, `"endpoint":"shop"`) {
			t.Errorf("%s: a browser that trusts the CA shows\n%s\nwant the endpoint's answer", url, page)
		}
	}
	if picture := os.Getenv("BROWSER_PICTURE"); picture != "" {
		friend.open("https://shop.localhost"+port+"/friend", "--screenshot="+picture)
	}
	log := p.Log()
	if strings.Count(log, `"GET /friend HTTP/2.0" 200`) < 2 || strings.Contains(log, "/stranger") {
		t.Errorf("want two requests for /friend over HTTP/2 and none of the stranger; the process said\n%s", log)
	}
}
