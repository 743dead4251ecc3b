//go:build controlplane

// Package cluster tests the built binary against a real Kubernetes control plane: etcd, kube-apiserver with RBAC and
// kube-controller-manager, all inside the network namespace of [e2e.Main]. The harness plays scheduler and kubelet:
// every Pod is bound, has an address of 10.244.0.0/16 and answers on its ports.
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
//
//	func TestIngressIsServed(t *testing.T) {
//		c := cluster.Start(t)
//		c.Apply(t, manifests)
//		c.Sallyport(t).Expect(t, "http://a.test/x", cluster.Served("web"))
//	}
//
// Sallyport runs as in production: a process with the token of its ServiceAccount, allowed what deploy/ allows it and
// nothing more. A failing test keeps the logs of the control plane, and says where they are.
//
// What a real kubelet does and this one does not: pull images, run programs, probe them, keep to resources. A Pod has
// as many listeners as container ports, and is ready once initialDelaySeconds of its readinessProbe have passed.
//
// The tests are behind the build tag controlplane, because the control plane takes minutes to build on a new machine:
//
//	go test -tags controlplane -timeout 30m ./e2e/cluster
package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

const programsVariable = "E2E_CONTROLPLANE" // the folder with the programs of the control plane

// Main is [e2e.Main] for tests that need a control plane: it builds one first, while there is a network to fetch it from.
func Main(m *testing.M) int {
	if os.Getenv(programsVariable) == "" {
		build := exec.Command("go", "run", ".")
		build.Dir = filepath.Join("..", "controlplane")
		build.Stderr = os.Stderr
		folder, err := build.Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e/cluster: build the control plane: go run ./e2e/controlplane:", err)
			return 2
		}
		os.Setenv(programsVariable, strings.TrimSpace(string(folder)))
	}
	return e2e.Main(m)
}

func program(name string) string { return filepath.Join(os.Getenv(programsVariable), name) }

// A Cluster is one control plane with one node. Its methods report failure to the test they are given.
type Cluster struct {
	folder    string // certificates, kubeconfigs, data and logs
	keys      *authority
	server    string // URL of the API server
	etcdURL   string
	etcd      *process
	apiServer *process
	manager   *process
	kubelet   *kubelet
	replicas  int    // of Sallyport, started so far
	token     string // of its ServiceAccount, once there was a replica
	lag       time.Duration
}

// An Option makes a cluster different from others.
type Option func(*Cluster)

// SlicesLag has EndpointSlices follow their Pods after so long.
func SlicesLag(by time.Duration) Option { return func(c *Cluster) { c.lag = by } }

// Start starts a cluster and installs what deploy/ gives the controller: Namespace, ServiceAccount, RBAC and
// IngressClass. It ends with the test.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	folder, err := os.MkdirTemp("", "sallyport-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of the control plane are in %s", folder)
			return
		}
		os.RemoveAll(folder)
	})
	c := &Cluster{folder: folder, keys: newAuthority(t, folder)}
	for _, option := range options {
		option(c)
	}
	c.startControlPlane(t)
	c.kubelet = startKubelet(t, c.kubeconfig("admin"))
	c.Apply(t, installation(t))
	return c
}

// installation is deploy/ without what needs an image to run.
func installation(t testing.TB) string {
	t.Helper()
	command := exec.Command(e2e.Tool("kustomize"), "build", filepath.Join("..", "..", "deploy"))
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kustomize build deploy: %v", err)
	}
	var kept []string
	for object := range strings.SplitSeq(string(out), "\n---\n") {
		if !strings.Contains("\n"+object, "\nkind: Deployment\n") {
			kept = append(kept, object)
		}
	}
	return strings.Join(kept, "\n---\n")
}

// Apply is `kubectl apply --server-side` of manifests.
func (c *Cluster) Apply(t testing.TB, manifests string) {
	t.Helper()
	if out, err := c.kubectl(manifests, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// Kubectl runs kubectl as the administrator and returns what it prints.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.kubectl("", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Pods are the names of the Pods with this label app.
func (c *Cluster) Pods(t testing.TB, app string) []string {
	t.Helper()
	return strings.Fields(c.Kubectl(t, "get", "pods", "--selector=app="+app, "--output=jsonpath={.items[*].metadata.name}"))
}

func (c *Cluster) kubectl(stdin string, args ...string) (string, error) {
	command := exec.Command(program("kubectl"), append([]string{
		"--kubeconfig=" + c.kubeconfig("admin"), "--cache-dir=" + filepath.Join(c.folder, "kubectl"),
	}, args...)...)
	command.Stdin = strings.NewReader(stdin)
	var out, complaint bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return complaint.String(), err
	}
	return out.String(), nil
}

func (c *Cluster) kubeconfig(user string) string {
	return filepath.Join(c.folder, user+".kubeconfig")
}
