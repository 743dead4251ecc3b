package controller

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Key is a namespace and a name. Objects without a namespace leave it empty.
type Key struct{ Namespace, Name string }

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// A Snapshot is every object the table is made from. A source (a folder, a cluster) keeps one and brings it up to date
// between two builds with Set and Delete; it is not safe for concurrent use, and nobody changes an object that is in
// it: another version is another pointer, the same pointer is the same version. That is how a build knows what it need
// not do again.
//
// The zero Snapshot is empty and ready to use.
type Snapshot struct {
	ingresses  kind[networkingv1.Ingress, *networkingv1.Ingress]
	classes    kind[networkingv1.IngressClass, *networkingv1.IngressClass]
	services   kind[corev1.Service, *corev1.Service]
	slices     kind[discoveryv1.EndpointSlice, *discoveryv1.EndpointSlice]
	secrets    kind[corev1.Secret, *corev1.Secret]
	configMaps kind[corev1.ConfigMap, *corev1.ConfigMap]
	namespaces kind[corev1.Namespace, *corev1.Namespace]

	byService map[Key]map[Key]*discoveryv1.EndpointSlice // slices by the Service their label names
	moved     map[Key]struct{}                           // Services whose slices changed since the last build
}

// kind is the objects of one kind and a count of their changes.
type kind[T any, P interface {
	*T
	metav1.Object
}] struct {
	objects  map[Key]P
	revision uint64
}

func (k *kind[T, P]) set(object P) bool {
	key := keyOf(object)
	if k.objects[key] == object {
		return false
	}
	if k.objects == nil {
		k.objects = make(map[Key]P)
	}
	k.objects[key] = object
	k.revision++
	return true
}

func (k *kind[T, P]) delete(key Key) bool {
	if _, ok := k.objects[key]; !ok {
		return false
	}
	delete(k.objects, key)
	k.revision++
	return true
}

func keyOf(object metav1.Object) Key { return Key{object.GetNamespace(), object.GetName()} }
