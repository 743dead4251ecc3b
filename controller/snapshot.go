package controller

import (
	"iter"
	"maps"
	"slices"
	"strings"

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
// It also lists what changed since it was last built. Two Builders may build one Snapshot; they then find out for
// themselves what changed, which costs a look at every object.
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

	revision uint64           // counts the changes of all kinds
	since    uint64           // the revision at which the changes below begin: that of the last build
	moved    map[Key]struct{} // Services whose slices changed since then

	names        map[string]Resolution // of Services of type ExternalName, as far as anybody found out
	changedNames map[string]struct{}   // since the last build
	zone         string                // that this process runs in; empty: not known
}

// Set puts an object in, in place of the one of its kind, namespace and name, and says whether that changed anything:
// false means that this very pointer was there already, or that the kind is none that tables are made from.
func (s *Snapshot) Set(object metav1.Object) bool {
	changed := false
	switch o := object.(type) {
	case *networkingv1.Ingress:
		changed = s.ingresses.set(o)
	case *networkingv1.IngressClass:
		changed = s.classes.set(o)
	case *corev1.Service:
		changed = s.services.set(o)
	case *discoveryv1.EndpointSlice:
		changed = s.setSlice(o)
	case *corev1.Secret:
		changed = s.secrets.set(o)
	case *corev1.ConfigMap:
		changed = s.configMaps.set(o)
	case *corev1.Namespace:
		changed = s.namespaces.set(o)
	}
	if changed {
		s.revision++
	}
	return changed
}

// Delete takes an object out and says whether it was there.
func (s *Snapshot) Delete(ref Ref) bool {
	key, changed := Key{ref.Namespace, ref.Name}, false
	if ref.Kind == "EndpointSlice" {
		changed = s.deleteSlice(key)
	} else if objects := s.of(ref.Kind); objects != nil {
		changed = objects.delete(key)
	}
	if changed {
		s.revision++
	}
	return changed
}

// of is the objects of a kind, nil for one that tables are not made from.
func (s *Snapshot) of(kind string) interface {
	object(Key) metav1.Object
	delete(Key) bool
} {
	switch kind {
	case "Ingress":
		return &s.ingresses
	case "IngressClass":
		return &s.classes
	case "Service":
		return &s.services
	case "EndpointSlice":
		return &s.slices
	case "Secret":
		return &s.secrets
	case "ConfigMap":
		return &s.configMaps
	case "Namespace":
		return &s.namespaces
	}
	return nil
}

// Ingress returns the Ingress of that namespace and name, nil when there is none. So do the methods below.
func (s *Snapshot) Ingress(key Key) *networkingv1.Ingress { return s.ingresses.objects[key] }

// IngressClass returns the class of that name.
func (s *Snapshot) IngressClass(name string) *networkingv1.IngressClass {
	return s.classes.objects[Key{Name: name}]
}

// Service returns the Service of that namespace and name.
func (s *Snapshot) Service(key Key) *corev1.Service { return s.services.objects[key] }

// Secret returns the Secret of that namespace and name.
func (s *Snapshot) Secret(key Key) *corev1.Secret { return s.secrets.objects[key] }

// ConfigMap returns the ConfigMap of that namespace and name.
func (s *Snapshot) ConfigMap(key Key) *corev1.ConfigMap { return s.configMaps.objects[key] }

// Namespace returns the Namespace of that name.
func (s *Snapshot) Namespace(name string) *corev1.Namespace {
	return s.namespaces.objects[Key{Name: name}]
}

// Ingresses yields all Ingresses, in no order.
func (s *Snapshot) Ingresses() iter.Seq[*networkingv1.Ingress] {
	return maps.Values(s.ingresses.objects)
}

// IngressClasses yields all IngressClasses, in no order.
func (s *Snapshot) IngressClasses() iter.Seq[*networkingv1.IngressClass] {
	return maps.Values(s.classes.objects)
}

// SetZone notes the zone that this process runs in, for endpoints that are near. Call it before the first build.
func (s *Snapshot) SetZone(zone string) { s.zone = zone }

// Zone is the zone that SetZone noted.
func (s *Snapshot) Zone() string { return s.zone }

// Object returns the object that a Ref names, nil when there is none.
func (s *Snapshot) Object(ref Ref) metav1.Object {
	if objects := s.of(ref.Kind); objects != nil {
		return objects.object(Key{ref.Namespace, ref.Name})
	}
	return nil
}

// Slices returns the EndpointSlices whose label kubernetes.io/service-name names the Service, by their names.
func (s *Snapshot) Slices(service Key) []*discoveryv1.EndpointSlice {
	return slices.SortedFunc(maps.Values(s.byService[service]), func(a, b *discoveryv1.EndpointSlice) int {
		return strings.Compare(a.Name, b.Name)
	})
}

func (s *Snapshot) setSlice(slice *discoveryv1.EndpointSlice) bool {
	key := keyOf(slice)
	old := s.slices.objects[key]
	if !s.slices.set(slice) {
		return false
	}
	if old != nil {
		s.unlink(old)
	}
	service := serviceOf(slice)
	if s.byService == nil {
		s.byService = make(map[Key]map[Key]*discoveryv1.EndpointSlice)
	}
	if s.byService[service] == nil {
		s.byService[service] = make(map[Key]*discoveryv1.EndpointSlice)
	}
	s.byService[service][key] = slice
	s.move(service)
	return true
}

func (s *Snapshot) deleteSlice(key Key) bool {
	old := s.slices.objects[key]
	if old == nil {
		return false
	}
	s.unlink(old)
	return s.slices.delete(key)
}

// unlink takes a slice from the Service it belonged to.
func (s *Snapshot) unlink(slice *discoveryv1.EndpointSlice) {
	service := serviceOf(slice)
	delete(s.byService[service], keyOf(slice))
	if len(s.byService[service]) == 0 {
		delete(s.byService, service)
	}
	s.move(service)
}

func (s *Snapshot) move(service Key) {
	if s.moved == nil {
		s.moved = make(map[Key]struct{})
	}
	s.moved[service] = struct{}{}
}

// built begins a new list of changes: a build has seen those so far. The old lists are dropped, and not cleared: the first
// ones name every object there is, and clearing a map costs by what it once held.
func (s *Snapshot) built() {
	s.since = s.revision
	s.moved = nil
	s.changedNames = nil
	s.ingresses.changed = nil
	s.classes.changed = nil
	s.services.changed = nil
	s.secrets.changed = nil
	s.configMaps.changed = nil
	s.namespaces.changed = nil
	s.slices.changed = nil
}

// onlySlices says that no object but EndpointSlices changed since the last build; names may have.
func (s *Snapshot) onlySlices() bool {
	return len(s.ingresses.changed)+len(s.classes.changed)+len(s.services.changed)+len(s.secrets.changed)+
		len(s.configMaps.changed)+len(s.namespaces.changed) == 0
}

// serviceOf is the Service a slice belongs to. A slice without the label belongs to the Service without a name, which
// nothing refers to.
func serviceOf(slice *discoveryv1.EndpointSlice) Key {
	return Key{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}
}

// kind is the objects of one kind, and which of them changed since the last build.
type kind[T any, P interface {
	*T
	metav1.Object
}] struct {
	objects map[Key]P
	changed map[Key]struct{}
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
	k.change(key)
	return true
}

func (k *kind[T, P]) delete(key Key) bool {
	if _, ok := k.objects[key]; !ok {
		return false
	}
	delete(k.objects, key)
	k.change(key)
	return true
}

// object is the object of that key as a metav1.Object, nil when there is none.
func (k *kind[T, P]) object(key Key) metav1.Object {
	if object, ok := k.objects[key]; ok {
		return object
	}
	return nil
}

func (k *kind[T, P]) change(key Key) {
	if k.changed == nil {
		k.changed = make(map[Key]struct{})
	}
	k.changed[key] = struct{}{}
}

func keyOf(object metav1.Object) Key { return Key{object.GetNamespace(), object.GetName()} }
