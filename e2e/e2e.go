// Package e2e tests the built binary: processes on real sockets, told of their world by manifests, asked over HTTP.
//
// Its tests run in a network namespace of their own, which [Main] enters before the first one: pods have the addresses
// they would have (192.0.2.0/24, 10.244.0.0/16), ports are never taken, and nothing reaches the machine's network. It
// works as root and, through a user namespace, as an ordinary user.
//
//	func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }
//
//	func TestFanOut(t *testing.T) {
//		web := e2e.Echo(t, "192.0.2.1:80", "web")
//		s := e2e.Start(t, e2e.Folder(t, manifests), "--map=web="+web.Addr)
//		answer := s.Get(t, "http://a.test/web")
//	}
//
// Most cases need no Go at all: a conversation in testdata (see [Conversation]) is manifests, then requests and the
// answers expected.
//
// The rules of the house (which package may import which, what the binary may link) are tests here too.
package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	toolsVariable     = "E2E_TOOLS"   // the folder of the built programs
	productVariable   = "E2E_PRODUCT" // what they were built from, see [seeProduct]
	namespaceVariable = "E2E_NAMESPACE"
)

// Main runs the tests of a package: it builds the binary and the tools, enters the namespace, runs m there and returns its exit code.
func Main(m *testing.M) int {
	if os.Getenv(namespaceVariable) != "" {
		if err := prepareNamespace(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: prepare the network namespace:", err)
			return 2
		}
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "sallyport-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 2
	}
	defer os.RemoveAll(folder)
	root, err := moduleRoot()
	if err == nil {
		err = errors.Join(build(root, folder), install(folder, kustomize))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 2
	}
	return rerun(root, folder)
}

// kustomize is what `kubectl apply -k` renders with.
const kustomize = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"

// build compiles the command as a release does, into folder.
func build(root, folder string) error {
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", folder, "./cmd/sallyport")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return run(build)
}

// install builds a tool of somebody else's into folder.
func install(folder, module string) error {
	install := exec.Command("go", "install", module)
	install.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=")
	return run(install)
}

func run(command *exec.Cmd) error {
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, out)
	}
	return nil
}

// Tool is the path of a program that was built for the tests: "sallyport", "kustomize".
func Tool(name string) string {
	seeProduct()
	return filepath.Join(os.Getenv(toolsVariable), name)
}

// seeProduct opens every folder of the module. `go test` prints an old result again unless a file has changed that the test
// itself has opened, or that is in a folder that it has; but it is the compiler, the binary and kustomize that read the product.
var seeProduct = sync.OnceFunc(func() {
	for _, path := range filepath.SplitList(os.Getenv(productVariable)) {
		err := filepath.WalkDir(path, func(string, fs.DirEntry, error) error { return nil })
		if err != nil {
			panic("e2e: look at " + path + ": " + err.Error())
		}
	}
})

// product is what lies at the root of the module, but for what is hidden, such as .git, and bin, which is made from the rest.
func product(root string) (paths []string) {
	entries, _ := os.ReadDir(root) // it was built a moment ago
	for _, entry := range entries {
		if name := entry.Name(); name[0] != '.' && name != "bin" {
			paths = append(paths, filepath.Join(root, name))
		}
	}
	return paths
}

// moduleRoot is where the product's module lies, also for tests in a module of their own that replaces it with ours.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sallyport").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m sallyport: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// rerun runs this test program again, inside the namespace.
func rerun(root, tools string) int {
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Args[0] = os.Args[0]
	self.Env = append(os.Environ(), namespaceVariable+"=1", toolsVariable+"="+tools,
		productVariable+"="+strings.Join(product(root), string(filepath.ListSeparator)))
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.SysProcAttr = ownNamespace()
	err := self.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	case errors.Is(err, syscall.EPERM):
		fmt.Fprintln(os.Stderr, "e2e: this machine allows neither root nor user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces):", err)
	default:
		fmt.Fprintln(os.Stderr, "e2e: enter the network namespace:", err)
	}
	return 2
}
