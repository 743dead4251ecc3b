//go:build controlplane

package cluster_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"sallyport/e2e/cluster"
)

const (
	soon   = 100 * time.Millisecond // within which 99 of 100 changes are served
	rounds = 20                     // of five changes each
)

// TestChangesAreServedWithinMilliseconds measures in a cluster of real controllers how late an answer is.
func TestChangesAreServedWithinMilliseconds(t *testing.T) {
	c := cluster.Start(t)
	t.Run("OneByOne", func(t *testing.T) { testSingleChanges(t, c) })
	t.Run("ANamespaceAtOnce", func(t *testing.T) { testNamespaceLeaves(t, c) })
}

// testSingleChanges makes a hundred changes, one after another, and measures each from the API
// server's acknowledgement of the write to the first answer that shows it: a Secret is rotated, deleted and restored, a
// Service changes the name of its port, an Ingress changes its Service.
func testSingleChanges(t *testing.T, c *cluster.Cluster) {
	c.Apply(t, app("web", 1)+app("other", 1)+numbered("named")+c.Secret(t, "secure", "secure.test")+
		ingress("changing", ours, "rules:", rule("changing.test", "/", "Prefix", "web"))+
		ingress("ports", ours, "rules:", rule("http.ports.test", "/", "Prefix", "named"),
			`- {host: web.ports.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: named, port: {name: web}}}}]}}`)+
		ingress("secure", ours, "tls: [{hosts: [secure.test], secretName: secure}]", "rules:", rule("secure.test", "/", "Prefix", "web")))
	for _, name := range []string{"web", "other", "named"} {
		c.Kubectl(t, "rollout", "status", "deployment/"+name, "--timeout=60s")
	}
	s := c.Sallyport(t)
	s.Expect(t, "http://changing.test/", cluster.Served("web"))
	s.Expect(t, "http://http.ports.test/", cluster.Served("named"))
	w := &stopwatch{t: t, c: c, s: s}
	secret := newRotation(t, c)
	s.Expect(t, "https://secure.test/", shown("secure.test"))
	for round := range rounds {
		secret.rotate(w)
		secret.delete(w)
		secret.restore(w)
		w.renamePort(round)
		w.changeService(round)
	}
	w.judge()
}

// numbered is app with a port that leads to a number: a target port's name, which is asked for by mistake at times, is
// served too.
func numbered(name string) string {
	return strings.Replace(app(name, 1), "targetPort: http", "targetPort: 8080", 1)
}

// A stopwatch measures changes.
type stopwatch struct {
	t    *testing.T
	c    *cluster.Cluster
	s    *cluster.Sallyport
	took []time.Duration
}

// measure waits for the effect of a write that has just been acknowledged.
func (w *stopwatch) measure(what string, write func() error, effect func() error) {
	w.t.Helper()
	if err := write(); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	w.since(time.Now(), what, effect)
}

func (w *stopwatch) since(acknowledged time.Time, what string, effect func() error) {
	w.t.Helper()
	for deadline := acknowledged.Add(20 * time.Second); ; {
		err := effect()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s is not seen: %v", what, err)
		}
	}
	took := time.Since(acknowledged)
	w.took = append(w.took, took)
	if took > soon {
		w.t.Logf("%s was seen after %v", what, took)
	}
}

// judge fails the test if more than one in a hundred took too long.
func (w *stopwatch) judge() {
	w.t.Helper()
	slices.Sort(w.took)
	at := func(percent int) time.Duration {
		return w.took[(len(w.took)*percent+99)/100-1].Round(100 * time.Microsecond)
	}
	w.t.Logf("%d changes: p50 %v, p99 %v, all within %v", len(w.took), at(50), at(99), at(100))
	if at(99) > soon {
		w.t.Errorf("99 of 100 changes were served within %v, want %v", at(99), soon)
	}
}

// renamePort changes the name of a Service's port between http and web; an Ingress has a host for each. The old name is
// refused at once; the new one is served when the EndpointSlice has it too, which is another controller's work.
func (w *stopwatch) renamePort(round int) {
	w.t.Helper()
	before, after := "http", "web"
	if round%2 == 1 {
		before, after = after, before
	}
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/0/name","value":%q}]`, after)
	w.measure("the port's new name "+after, func() error {
		_, err := w.c.Client().CoreV1().Services("default").Patch(w.t.Context(), "named", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}, w.answers("http://"+before+".ports.test/", func(a cluster.Answer) error {
		if a.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("%s, want 503", a.Status)
		}
		return nil
	}))
	w.s.Expect(w.t, "http://"+after+".ports.test/", cluster.Served("named"))
}

// changeService leads an Ingress to another Service and back.
func (w *stopwatch) changeService(round int) {
	w.t.Helper()
	to := []string{"other", "web"}[round%2]
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/http/paths/0/backend/service/name","value":%q}]`, to)
	w.measure("the Ingress's new Service "+to, func() error {
		_, err := w.c.Client().NetworkingV1().Ingresses("default").Patch(w.t.Context(), "changing", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}, w.answers("http://changing.test/", cluster.Served(to)))
}

// answers asks once.
func (w *stopwatch) answers(url string, want cluster.Want) func() error {
	return func() error {
		answer, err := w.s.Get(url)
		if err != nil {
			return err
		}
		return want(answer)
	}
}

// A rotation is a Secret with two certificates, in turn.
type rotation struct {
	contents []*corev1.Secret
	now      int // index of what it has
}

func newRotation(t testing.TB, c *cluster.Cluster) *rotation {
	t.Helper()
	r := new(rotation)
	for range 2 {
		c.Apply(t, c.Secret(t, "secure", "secure.test"))
		secret, err := c.Client().CoreV1().Secrets("default").Get(t.Context(), "secure", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		secret.ObjectMeta = metav1.ObjectMeta{Name: secret.Name}
		r.contents = append(r.contents, secret)
	}
	r.now = 1
	return r
}

func (r *rotation) rotate(w *stopwatch) {
	w.t.Helper()
	r.now = 1 - r.now
	w.measure("the new certificate", func() error {
		_, err := w.c.Client().CoreV1().Secrets("default").Update(w.t.Context(), r.contents[r.now], metav1.UpdateOptions{})
		return err
	}, w.shows(r.contents[r.now]))
}

func (r *rotation) delete(w *stopwatch) {
	w.t.Helper()
	w.measure("that the Secret is gone", func() error {
		return w.c.Client().CoreV1().Secrets("default").Delete(w.t.Context(), "secure", metav1.DeleteOptions{})
	}, w.shows(nil))
}

func (r *rotation) restore(w *stopwatch) {
	w.t.Helper()
	w.measure("the restored certificate", func() error {
		_, err := w.c.Client().CoreV1().Secrets("default").Create(w.t.Context(), r.contents[r.now], metav1.CreateOptions{})
		return err
	}, w.shows(r.contents[r.now]))
}

// shows shakes hands once; without a Secret a certificate for no host is wanted.
func (w *stopwatch) shows(secret *corev1.Secret) func() error {
	return func() error {
		connection, err := tls.Dial("tcp", w.s.HTTPS, &tls.Config{ServerName: "secure.test", InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer connection.Close()
		leaf := connection.ConnectionState().PeerCertificates[0]
		if secret == nil {
			if leaf.VerifyHostname("secure.test") == nil {
				return fmt.Errorf("the certificate with serial number %v is shown still", leaf.SerialNumber)
			}
			return nil
		}
		want, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return err
		}
		if want.Leaf.SerialNumber.Cmp(leaf.SerialNumber) != 0 {
			return fmt.Errorf("serial number %v, want %v", leaf.SerialNumber, want.Leaf.SerialNumber)
		}
		return nil
	}
}

// testNamespaceLeaves deletes a Namespace with fifty Ingresses. The Namespace controller deletes them
// one by one; from the time that the API server tells of each until its host is not served any more it is measured.
func testNamespaceLeaves(t *testing.T, c *cluster.Cluster) {
	const ingresses = 50
	c.Kubectl(t, "create", "namespace", "leaving")
	c.Apply(t, app("web", 1)+ingress("marker", ours, "rules:", rule("marker.test", "/", "Prefix", "web")))
	client := c.Client().NetworkingV1().Ingresses("leaving")
	for i := range ingresses {
		if _, err := client.Create(t.Context(), leavingIngress(i), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := c.Sallyport(t)
	s.Expect(t, "http://marker.test/", cluster.Served("web"))
	s.Check(t, "http://leaving-49.test/", cluster.Refused(http.StatusServiceUnavailable, "no_service"))

	left := departures(t, c, "leaving", ingresses)
	c.Kubectl(t, "delete", "namespace", "leaving", "--wait=false")
	w := &stopwatch{t: t, c: c, s: s}
	for range ingresses {
		ingress, watched := <-left
		if !watched {
			t.Fatal("the watch of Ingresses has ended")
		}
		url := "http://" + ingress.name + ".test/"
		w.since(ingress.told, "that "+ingress.name+" has left", w.answers(url, noRoute))
	}
	w.judge()
	s.Check(t, "http://marker.test/", cluster.Served("web"))
}

// leavingIngress has a host of its own, and a Service that does not exist: it is there or not, nothing else matters.
func leavingIngress(number int) *networkingv1.Ingress {
	name := fmt.Sprintf("leaving-%d", number)
	backend := &networkingv1.IngressServiceBackend{Name: "missing", Port: networkingv1.ServiceBackendPort{Number: 80}}
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: backend}}
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.IngressClassName = new(ours)
	i.Spec.Rules = []networkingv1.IngressRule{{Host: name + ".test"}}
	i.Spec.Rules[0].HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}
	return i
}

// A departure is an object that was deleted, and when that was told.
type departure struct {
	name string
	told time.Time
}

// departures are the Ingresses of a Namespace that are deleted from now on. The channel has room for that many; it is
// closed when the watch ends.
func departures(t testing.TB, c *cluster.Cluster, namespace string, room int) <-chan departure {
	t.Helper()
	client := c.Client().NetworkingV1().Ingresses(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan departure, room)
	done := make(chan struct{})
	t.Cleanup(func() { changes.Stop(); <-done })
	go func() {
		defer close(done)
		defer close(left)
		for change := range changes.ResultChan() {
			if ingress, ok := change.Object.(*networkingv1.Ingress); ok && change.Type == watch.Deleted {
				left <- departure{ingress.Name, time.Now()}
			}
		}
	}()
	return left
}
