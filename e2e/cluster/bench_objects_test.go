//go:build controlplane

package cluster_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The objects of a large cluster. Teams have a namespace each; one Service in ten is large, and has more endpoints than
// one slice of the real controller takes; one Ingress in a hundred names a Service that does not exist.
const (
	teams           = 20
	manyServices    = 2_000
	manyIngresses   = 10_000
	manyEndpoints   = manyServices/10*largeService + manyServices*9/10*smallService
	largeService    = 160
	smallService    = 10
	endpointsASlice = 100
	makers          = 16 // requests to the API server at once
)

// A crowd makes those objects, and knows the EndpointSlices.
type crowd struct {
	client kubernetes.Interface
	slices []*discoveryv1.EndpointSlice
}

// newCrowd fills a cluster. Services have no selector, so that no controller touches their slices; nothing answers at
// the addresses.
func newCrowd(b *testing.B, client kubernetes.Interface) *crowd {
	b.Helper()
	w := &crowd{client: client}
	for i := range manyServices {
		w.addSlices(i)
	}
	ctx, create := b.Context(), metav1.CreateOptions{}
	atOnce(b, teams, func(i int) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team(i)}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, create)
		return err
	})
	atOnce(b, manyServices, func(i int) error {
		_, err := client.CoreV1().Services(team(i)).Create(ctx, serviceNumber(i), create)
		return err
	})
	atOnce(b, len(w.slices), func(i int) error {
		_, err := client.DiscoveryV1().EndpointSlices(w.slices[i].Namespace).Create(ctx, w.slices[i], create)
		return err
	})
	atOnce(b, manyIngresses, func(i int) error {
		_, err := client.NetworkingV1().Ingresses(team(i)).Create(ctx, ingressNumber(i), create)
		return err
	})
	return w
}

// atOnce does n things, several at once.
func atOnce(b *testing.B, n int, do func(int) error) {
	b.Helper()
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(makers, n) {
		workers.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					b.Errorf("fill the cluster: %v", err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func team(i int) string { return fmt.Sprintf("team-%02d", i%teams) }

func serviceName(i int) string { return fmt.Sprintf("service-%04d", i) }

func serviceNumber(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i), Labels: map[string]string{"app.kubernetes.io/name": serviceName(i), "app.kubernetes.io/part-of": team(i)}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// addSlices adds the slices of a Service, as full as the real controller makes them.
func (w *crowd) addSlices(service int) {
	left := smallService
	if service%10 == 0 {
		left = largeService
	}
	for part := 0; left > 0; part++ {
		size := min(left, endpointsASlice)
		left -= size
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: team(service), Name: fmt.Sprintf("%s-%d", serviceName(service), part),
				Labels: map[string]string{discoveryv1.LabelServiceName: serviceName(service), discoveryv1.LabelManagedBy: "bench"},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		}
		for i := range size {
			slice.Endpoints = append(slice.Endpoints, w.endpoint(len(w.slices), i, slice))
		}
		w.slices = append(w.slices, slice)
	}
}

// endpoint has what the real controller writes: conditions, a node, a zone and a Pod.
func (w *crowd) endpoint(slice, i int, of *discoveryv1.EndpointSlice) discoveryv1.Endpoint {
	pod := fmt.Sprintf("%s-5d8f7c6b9-%05d", of.Labels[discoveryv1.LabelServiceName], i)
	return discoveryv1.Endpoint{
		Addresses:  []string{address(slice*endpointsASlice + i)},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		NodeName:   new(fmt.Sprintf("node-%03d", i%100)),
		Zone:       new(fmt.Sprintf("zone-%d", i%3)),
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: of.Namespace, Name: pod, UID: "0b5fd1a6-7d0c-4bd4-9a63-6f4d4b2a9e10"},
	}
}

// address is one from 10.1.0.0 on, far below those of Services and Pods.
func address(number int) string {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], 10<<24|1<<16+uint32(number))
	return netip.AddrFrom4(bytes).String()
}

// ingressNumber has a host of its own and two paths.
func ingressNumber(i int) *networkingv1.Ingress {
	first, second := serviceName(i%manyServices), serviceName((i+teams)%manyServices)
	if i%100 == 99 {
		second = "missing"
	}
	path := func(path, service string) networkingv1.HTTPIngressPath {
		return networkingv1.HTTPIngressPath{Path: path, PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Name: "http"}},
		}}
	}
	rule := networkingv1.IngressRule{Host: fmt.Sprintf("host-%05d.test", i)}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path("/", first), path("/api", second)}}
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("ingress-%05d", i), Labels: map[string]string{"app.kubernetes.io/part-of": team(i)},
			Annotations: map[string]string{"nginx.ingress.kubernetes.io/ssl-redirect": "false"},
		},
		Spec: networkingv1.IngressSpec{IngressClassName: new(ours), Rules: []networkingv1.IngressRule{rule}},
	}
}

// flip makes the first endpoint of a slice ready or unready, as a Pod's probe does.
func (w *crowd) flip(ctx context.Context, number int, ready bool) error {
	slice := w.slices[number%len(w.slices)]
	patch := fmt.Sprintf(`[{"op":"replace","path":"/endpoints/0/conditions/ready","value":%t}]`, ready)
	_, err := w.client.DiscoveryV1().EndpointSlices(slice.Namespace).Patch(ctx, slice.Name, jsonPatch, []byte(patch), metav1.PatchOptions{})
	return err
}
