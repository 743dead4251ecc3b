//go:build controlplane

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	nodeName    = "node-1"
	nodeAddress = "198.51.100.10"
)

// A kubelet plays the scheduler and the one node of a cluster: it gives every Pod a life, see [kubelet.live].
type kubelet struct {
	client kubernetes.Interface
	lives  sync.WaitGroup

	mu      sync.Mutex
	pods    map[types.UID]*pod
	address netip.Addr // the last one given away
}

// startKubelet registers the node and follows the Pods of the cluster until the test ends.
func startKubelet(t testing.TB, kubeconfig string) *kubelet {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // no limit of the client's own
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{client: client, pods: make(map[types.UID]*pod), address: netip.MustParseAddr("10.244.1.0")}
	ctx, cancel := context.WithCancel(context.Background())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		cancel()
		t.Fatalf("register the node: %v", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { k.see(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { k.see(ctx, object.(*corev1.Pod)) },
		DeleteFunc: k.forget,
	})
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		k.lives.Wait()
	})
	return k
}

// see is told of every version of every Pod.
func (k *kubelet) see(ctx context.Context, object *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known := k.pods[object.UID]
	if !known {
		k.address = k.address.Next()
		p = newPod(object, k.address)
		k.pods[object.UID] = p
		k.lives.Go(func() { k.live(ctx, p) })
	}
	if object.DeletionTimestamp != nil {
		p.delete()
	}
}

// forget is told of every Pod that is gone from the API server.
func (k *kubelet) forget(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	uid := object.(*corev1.Pod).UID
	if p, known := k.pods[uid]; known {
		p.delete()
		delete(k.pods, uid)
	}
}

// live is the life of a Pod: it is bound, listens, is ready once its readinessProbe's initialDelaySeconds have passed,
// and when it is deleted goes on serving for as long as its preStop hook sleeps, refuses from then on, and is gone.
func (k *kubelet) live(ctx context.Context, p *pod) {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	if p.Spec.NodeName == "" {
		persist(ctx, func() error {
			return k.client.CoreV1().Pods(p.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
		})
	}
	problem := p.listen()
	defer p.close()
	k.report(ctx, p, false, problem)
	select {
	case <-time.After(p.readyAfter()):
		k.report(ctx, p, problem == nil, problem)
		select {
		case <-p.deleted:
		case <-ctx.Done():
			return
		}
	case <-p.deleted:
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(p.lingers()):
	case <-ctx.Done():
	}
	p.close()
	persist(ctx, func() error {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
		return k.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, now)
	})
}

// report writes the status of a Pod; a problem, such as a port that is taken, is its message.
func (k *kubelet) report(ctx context.Context, p *pod, ready bool, problem error) {
	condition := func(kind corev1.PodConditionType, holds bool) corev1.PodCondition {
		status := corev1.ConditionFalse
		if holds {
			status = corev1.ConditionTrue
		}
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()}
	}
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: nodeAddress, PodIP: p.address.String(), PodIPs: []corev1.PodIP{{IP: p.address.String()}},
		Conditions: []corev1.PodCondition{
			condition(corev1.PodInitialized, true), condition(corev1.ContainersReady, ready), condition(corev1.PodReady, ready),
		},
	}
	if problem != nil {
		status.Message = problem.Error()
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		panic(fmt.Sprintf("a Pod's status is no JSON: %v", err))
	}
	persist(ctx, func() error {
		_, err := k.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// persist repeats a call until the API server answers it: with success, or with a refusal because the Pod has gone or
// changed. The API server may be away meanwhile.
func persist(ctx context.Context, call func() error) {
	for ctx.Err() == nil {
		err := call()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
