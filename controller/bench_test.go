package controller

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sallyport/proxy/upstream"
)

// large is a snapshot of n Ingresses, each with a host and five paths of its own to a Service of its own.
func large(n int) *Snapshot {
	s := new(Snapshot)
	for i := range n {
		name := fmt.Sprintf("app-%05d", i)
		s.Set(largeIngress(name))
		s.Set(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		}})
		s.Set(largeSlice(name, i, 3))
	}
	return s
}

func largeIngress(name string) *networkingv1.Ingress {
	prefix := networkingv1.PathTypePrefix
	http := new(networkingv1.HTTPIngressRuleValue)
	for _, path := range []string{"/", "/api", "/api/v2", "/static", "/health"} {
		http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: path, PathType: &prefix, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}},
		}})
	}
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{Host: name + ".example.org", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}}},
	}}
}

func largeSlice(name string, i, endpoints int) *discoveryv1.EndpointSlice {
	port, number := "http", int32(8080)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	for e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i>>8, i&255, e+1)}})
	}
	return slice
}

func BenchmarkBuild10kx5(b *testing.B) {
	s := large(10_000)
	b.ReportAllocs()
	for b.Loop() {
		o := everyIngress()
		o.Pools = new(upstream.Pools)
		if r := NewBuilder(o).Build(s); r.Routes != 50_000 {
			b.Fatalf("%d routes, %d problems", r.Routes, len(r.Problems))
		}
	}
}

// BenchmarkChangeOne changes one Ingress of ten thousand. It must cost at least 20 times less than the build.
func BenchmarkChangeOne(b *testing.B) {
	s := large(10_000)
	builder := NewBuilder(everyIngress())
	builder.Build(s)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ingress := largeIngress("app-05000")
		ingress.Spec.Rules[0].HTTP.Paths[1].Path = fmt.Sprintf("/changed/%d", i)
		s.Set(ingress)
		if r := builder.Build(s); !r.TableChanged || r.Routes != 50_000 {
			b.Fatalf("changed: %v, %d routes", r.TableChanged, r.Routes)
		}
	}
}

// BenchmarkMoveOne changes the endpoints of one Service of ten thousand, which builds no table.
func BenchmarkMoveOne(b *testing.B) {
	s := large(10_000)
	builder := NewBuilder(everyIngress())
	builder.Build(s)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Set(largeSlice("app-05000", 5000, 1+i%5))
		if r := builder.Build(s); r.TableChanged {
			b.Fatal("another table")
		}
	}
}
