package e2e_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport/e2e"
)

// mayImport is the house: which packages of ours a package may import. Nothing imports upward. A package that is not
// listed is a room nobody has drawn: add it here and to docs/architecture.md.
var mayImport = map[string][]string{
	"cmd/sallyport":       {"config", "router", "proxy", "proxy/admin", "proxy/feature", "proxy/stream", "proxy/upstream", "certs", "controller", "controller/cluster", "controller/manifests", "controller/feedback", "controller/keeper", "controller/names", "certs/acme", "spelling"},
	"spelling":            {},
	"config":              {"spelling"},
	"router":              {},
	"certs":               {},
	"certs/acme":          {"certs"},
	"proxy/http1":         {},
	"proxy/proxyprotocol": {},
	"proxy/clienthello":   {},
	"proxy":               {"router", "proxy/clienthello", "proxy/http1", "proxy/proxyprotocol"},
	"proxy/upstream":      {"proxy", "router", "proxy/http1"},
	"proxy/feature":       {"router", "proxy", "proxy/http1", "proxy/upstream", "proxy/feature/htpasswd", "proxy/feature/limiter", "proxy/feature/pattern", "proxy/feature/trust", "proxy/feature/value", "spelling"},
	"proxy/feature/value": {"proxy", "spelling"},

	"proxy/feature/htpasswd": {},
	"proxy/feature/limiter":  {},
	"proxy/feature/pattern":  {},
	"proxy/feature/trust":    {},

	"proxy/stream":         {"proxy", "proxy/proxyprotocol", "proxy/upstream"},
	"proxy/admin":          {"router", "proxy"},
	"controller":           {"router", "proxy", "proxy/feature", "proxy/feature/pattern", "proxy/stream", "proxy/upstream", "certs", "certs/acme"},
	"controller/manifests": {"controller", "config", "spelling"},
	"controller/cluster":   {"controller", "certs/acme"},
	"controller/keeper":    {"controller", "certs/acme"},
	"controller/feedback":  {"controller"},
	"controller/names":     {"controller"},
	"e2e":                  {},
	"e2e/acme":             {"e2e"},
	"e2e/bench":            {},
}

// mayKnowKubernetes are the packages that may name a Kubernetes type.
var mayKnowKubernetes = []string{"cmd/sallyport", "controller", "controller/manifests", "controller/cluster", "controller/feedback", "controller/keeper"}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, "sallyport/")
		allowed, drawn := mayImport[name]
		if !drawn {
			t.Errorf("package %s is not in the picture of the house: say in mayImport, and in docs/architecture.md, what it may import", name)
			continue
		}
		for _, imported := range p.Imports { // not those of tests: a test may look at anything
			ours, isOurs := strings.CutPrefix(imported, "sallyport/")
			if isOurs && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s: arrows point from cmd to controller to proxy/feature to proxy/upstream to proxy to router, never back; move what is shared down, or hand it over as a function value", name, ours)
			}
			if isKubernetes(imported) && !slices.Contains(mayKnowKubernetes, name) {
				t.Errorf("%s imports %s: Kubernetes types stay in controller, so that the proxy can be read and tested without them", name, imported)
			}
			if name == "router" && strings.Contains(imported, ".") {
				t.Errorf("router imports %s: it uses the standard library only", imported)
			}
		}
	}
}

func isKubernetes(path string) bool {
	return strings.HasPrefix(path, "k8s.io/") && !strings.HasPrefix(path, "k8s.io/klog/") || strings.HasPrefix(path, "sigs.k8s.io/")
}

// TestNobodyUsesTemplates guards the size of the binary: a template that is executed anywhere turns off the linker's
// pruning of methods, and every Kubernetes type comes back whole (10 to 12 MB). cobra imports the package and executes
// one only where a program sets a template of its own.
func TestNobodyUsesTemplates(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/sallyport") {
		for _, imported := range p.Imports {
			switch imported {
			case "text/template", "html/template", "google.golang.org/grpc":
				if p.ImportPath != "github.com/spf13/cobra" && p.ImportPath != "html/template" {
					t.Errorf("%s imports %s: find another way", p.ImportPath, imported)
				}
			}
		}
	}
}

// TestBinaryIsSmall holds the stripped binary under 45 MB.
func TestBinaryIsSmall(t *testing.T) {
	info, err := os.Stat(e2e.Tool("sallyport"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the stripped binary has %.1f MB", float64(info.Size())/1e6)
	if info.Size() > 45e6 {
		t.Errorf("the stripped binary has %d bytes, want at most 45 MB: find what came in with `go list -deps ./cmd/sallyport`", info.Size())
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range list(t, "./...") {
		if p.Doc == "" {
			t.Errorf("package %s has no package comment: say what it is, how it is used, and what it does not do", p.ImportPath)
		}
	}
}

type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
}

// list is `go list -json` run at the root of the module.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	command := exec.Command("go", append([]string{"list", "-pgo=off", "-json=ImportPath,Doc,Imports"}, args...)...)
	command.Dir, _ = filepath.Abs("..")
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
