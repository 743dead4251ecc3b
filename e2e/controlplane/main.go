// Controlplane builds the programs of a real Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager)
// and kubectl, for the tests, and prints the folder they are in:
//
//	go run .
//
// The sources come from the Go module proxy, at the versions in go.mod; this module exists so that what they need stays
// out of the product's own. The folder lies in the user's cache directory and is named by the version of Kubernetes.
// What is there is not built again: minutes the first time, no time after. It can be deleted at will.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the packages to build. The tool directives of go.mod keep them, with all they import, in go.sum.
var programs = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
}

func main() {
	folder, err := ensure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(folder)
}

// ensure returns the folder that holds every program, and builds those that are missing.
func ensure() (string, error) {
	version, err := kubernetesVersion()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "sallyport", "controlplane-"+version)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for name, source := range programs {
		_, err := os.Stat(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			err = build(folder, name, source, version)
		}
		if err != nil {
			return "", err
		}
	}
	return folder, nil
}

// build compiles one program beside its place and moves it there: a program that is there is whole, whoever else builds
// at the same time or was interrupted.
func build(folder, name, source, version string) error {
	beside, err := os.MkdirTemp(folder, ".building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(beside)
	fmt.Fprintf(os.Stderr, "controlplane: building %s, once for this machine; all of them take some minutes\n", name)
	// Kubernetes learns its version from the linker; without one, every client would think the server ancient.
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	command := exec.Command("go", "build", "-trimpath", "-ldflags="+flags, "-o", filepath.Join(beside, name), source)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, out)
	}
	return os.Rename(filepath.Join(beside, name), filepath.Join(folder, name))
}

// kubernetesVersion is the version of Kubernetes that go.mod requires, as in "v1.37.2".
func kubernetesVersion() (string, error) {
	const module = "k8s.io/kubernetes"
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	version := string(bytes.TrimSpace(out))
	if !strings.HasPrefix(version, "v1.") {
		return "", fmt.Errorf("go list -m %s says %q, want a version such as v1.37.2", module, version)
	}
	return version, nil
}
