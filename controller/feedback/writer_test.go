package feedback

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sallyport/controller"
)

const (
	ingressPath = "/apis/networking.k8s.io/v1/namespaces/"
	eventPath   = "/apis/events.k8s.io/v1/namespaces/"
	leasePath   = "/apis/coordination.k8s.io/v1/namespaces/sallyport/leases/sallyport-leader"
)

// A scene is what a build would hand to a Writer.
type scene struct {
	snapshot controller.Snapshot
	served   []*networkingv1.Ingress
	problems []controller.Problem
}

// ingress adds an Ingress that is served.
func (s *scene) ingress(i *networkingv1.Ingress) *scene {
	s.snapshot.Set(i)
	s.served = append(s.served, i)
	return s
}

// mistake adds an Ingress with a mistake, which is not served.
func (s *scene) mistake(namespace, name string) *scene {
	i := named(namespace, name)
	s.snapshot.Set(i)
	s.problems = append(s.problems, controller.Problem{
		Object: controller.Ref{Kind: "Ingress", Namespace: namespace, Name: name}, Reason: "Mistake", Field: "spec", Message: "is wrong",
	})
	return s
}

func (s *scene) update(w *Writer) { w.Update(&s.snapshot, slices.Values(s.served), s.problems) }

func named(namespace, name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Generation: 1, CreationTimestamp: metav1.Now(),
	}}
}

// showing is an Ingress with a status, as the API server stores it.
func (a *apiServer) showing(name string, addresses ...string) *networkingv1.Ingress {
	i := named("a", name)
	i.Status.LoadBalancer.Ingress = entries(addresses)
	i.ResourceVersion = a.put(ingressPath+"a/ingresses/"+name, i)
	return i
}

// status is what stands in the status of an Ingress of namespace a.
func (a *apiServer) status(name string) (all []string) {
	status, _ := a.get(ingressPath + "a/ingresses/" + name)["status"].(map[string]any)
	balancer, _ := status["loadBalancer"].(map[string]any)
	list, _ := balancer["ingress"].([]any)
	for _, entry := range list {
		all = append(all, entry.(map[string]any)["ip"].(string))
	}
	return all
}

// eventsOn are the Events on an object, by the object's name.
func (a *apiServer) eventsOn(name string) (all []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, object := range a.objects {
		if regarding, ok := object["regarding"].(map[string]any); ok && regarding["name"] == name {
			all = append(all, object)
		}
	}
	return all
}

// run has a Writer take part until the test ends, or the function that is returned has been called.
func run(t *testing.T, w *Writer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { w.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func ruleOf(host string) networkingv1.IngressRule { return networkingv1.IngressRule{Host: host} }

// A notebook is a log that can be read while it is written.
type notebook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notebook) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(line)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}
