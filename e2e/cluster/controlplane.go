//go:build controlplane

package cluster

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sallyport/e2e"
)

const (
	services   = "10.96.0.0/16" // addresses of Services; the API server's own has the first one
	apiAddress = "10.244.0.1"   // the API server refuses to advertise a loopback address
)

// startControlPlane starts the three programs and waits until the API server is ready.
func (c *Cluster) startControlPlane(t testing.TB) {
	t.Helper()
	client, peer, secure := e2e.FreePort(t), e2e.FreePort(t), e2e.FreePort(t)
	c.server, c.etcdURL = "https://127.0.0.1:"+secure, "http://127.0.0.1:"+client
	file := func(name string) string { return filepath.Join(c.folder, name) }
	c.keys.issueServer(t, "apiserver", "kubernetes.default.svc", net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1), net.ParseIP(apiAddress))
	c.keys.issueClient(t, "admin", "admin", "system:masters")
	c.keys.issueClient(t, "manager", "system:kube-controller-manager")
	c.keys.newKey(t, "serviceaccounts")
	for _, user := range []string{"admin", "manager"} {
		writeKubeconfig(t, c.kubeconfig(user), kubeconfig{
			server: c.server, authority: file("ca.crt"),
			certificate: file(user + ".crt"), key: file(user + ".key"),
		})
	}
	c.etcd = newProcess(c.folder, "etcd",
		"--data-dir="+file("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+c.etcdURL, "--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls=http://127.0.0.1:"+peer, "--initial-advertise-peer-urls=http://127.0.0.1:"+peer,
		"--initial-cluster=default=http://127.0.0.1:"+peer,
	)
	c.apiServer = newProcess(c.folder, "kube-apiserver",
		"--etcd-servers="+c.etcdURL,
		"--bind-address=0.0.0.0", "--secure-port="+secure, "--advertise-address="+apiAddress,
		"--authorization-mode=RBAC", "--service-cluster-ip-range="+services,
		"--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"), "--client-ca-file="+file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+file("serviceaccounts.key"), "--service-account-signing-key-file="+file("serviceaccounts.key"),
		"--shutdown-delay-duration=0s",
	)
	// The node has no lease that a controller could find expired, and needs no address range.
	c.manager = newProcess(c.folder, "kube-controller-manager",
		"--kubeconfig="+c.kubeconfig("manager"), "--authentication-kubeconfig="+c.kubeconfig("manager"), "--authorization-kubeconfig="+c.kubeconfig("manager"),
		"--secure-port="+e2e.FreePort(t), "--leader-elect=false", "--use-service-account-credentials",
		"--endpointslice-updates-batch-period="+c.lag.String(),
		"--controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller",
		"--service-account-private-key-file="+file("serviceaccounts.key"), "--root-ca-file="+file("ca.crt"),
	)
	for _, p := range []*process{c.etcd, c.apiServer, c.manager} {
		p.start(t)
		t.Cleanup(p.stop)
		if p == c.apiServer {
			c.WaitAPIServer(t)
		}
	}
}

// StopAPIServer ends the API server; etcd keeps what it knows.
func (c *Cluster) StopAPIServer(testing.TB) { c.apiServer.stop() }

// StartAPIServer starts it again and waits until it is ready.
func (c *Cluster) StartAPIServer(t testing.TB) {
	t.Helper()
	c.apiServer.start(t)
	c.WaitAPIServer(t)
}

// WaitAPIServer returns when the API server says that it is ready.
func (c *Cluster) WaitAPIServer(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // a first start on a busy machine takes longer than the patience of e2e
	for {
		out, err := c.kubectl("", "get", "--raw=/readyz")
		if err == nil {
			return
		}
		if c.apiServer.ended() || time.Now().After(deadline) {
			t.Fatalf("the API server is not ready: %v\n%s\n%s", err, out, c.apiServer.tail())
		}
	}
}

// A process is a program of the control plane, which can be stopped and started again. Its output is NAME.log.
type process struct {
	name    string
	args    []string
	log     string // path
	command *exec.Cmd
	done    chan struct{}
}

func newProcess(folder, name string, args ...string) *process {
	return &process{name: name, args: args, log: filepath.Join(folder, name+".log")}
}

func (p *process) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.command = exec.Command(program(p.name), p.args...)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	command, done := p.command, make(chan struct{})
	p.done = done
	go func() {
		defer close(done)
		command.Wait()
	}()
}

// stop kills the program: what it had to say is in etcd, which is killed too and never asked again.
func (p *process) stop() {
	p.command.Process.Kill()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of the log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return p.log + " ends with\n" + string(text[max(0, len(text)-4000):])
}
