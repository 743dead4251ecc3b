package cluster

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// read are the verbs of an informer. It lists where an API server does not stream what there is at the beginning of a watch.
var read = []string{"list", "watch"}

// Permissions are all that reading asks of the API server, one a kind that is watched.
func Permissions() []controller.Permission {
	return []controller.Permission{
		{Group: "networking.k8s.io", Resource: "ingresses", Verbs: read, Why: "what is to be served"},
		{Group: "networking.k8s.io", Resource: "ingressclasses", Verbs: read, Why: "which Ingresses are ours"},
		{Group: "", Resource: "services", Verbs: read, Why: "the ports that Ingresses name"},
		{Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: read, Why: "the Pods behind a Service"},
		{Group: "", Resource: "secrets", Verbs: read, Why: "certificates; those of type kubernetes.io/tls, and others by name"},
		{Group: "", Resource: "configmaps", Verbs: read, Why: "the controller's own, and those that it or an annotation names"},
		{Group: "", Resource: "namespaces", Verbs: read, Why: "their labels, for --watch-namespace-selector"},
	}
}

// kinds are the kinds to watch.
func kinds(o Options) []client.Object {
	kinds := []client.Object{
		new(networkingv1.Ingress), new(networkingv1.IngressClass),
		new(corev1.Service), new(discoveryv1.EndpointSlice), new(corev1.Secret),
	}
	if o.NamespaceSelector != nil && !o.NamespaceSelector.Empty() {
		kinds = append(kinds, new(corev1.Namespace))
	}
	return kinds
}

// newCacheOptions make a cache that holds what is served, and no more.
func (s *Source) newCacheOptions(o Options) cache.Options {
	shared := true // nobody changes an object of the cache
	options := cache.Options{
		Scheme:                       scheme.Scheme,
		Mapper:                       newMapper(),
		DefaultTransform:             stripping(o.Hints),
		DefaultUnsafeDisableDeepCopy: &shared,
		DefaultWatchErrorHandler:     s.watchFailed,
		ByObject: map[client.Object]cache.ByObject{
			new(corev1.Secret): {Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS))},
		},
	}
	if len(o.Namespaces) > 0 {
		options.DefaultNamespaces = make(map[string]cache.Config)
		for _, namespace := range o.Namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
		addService(&options, o.Service)
		addOrdered(&options, o.Ordered)
	}
	return options
}

// addService adds a Service and its EndpointSlices to what is held, unless all of its namespace is.
func addService(options *cache.Options, service controller.Key) {
	_, all := options.DefaultNamespaces[service.Namespace]
	if all || service == (controller.Key{}) {
		return
	}
	services, slices := maps.Clone(options.DefaultNamespaces), maps.Clone(options.DefaultNamespaces)
	services[service.Namespace] = cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", service.Name)}
	slices[service.Namespace] = cache.Config{LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})}
	options.ByObject[new(corev1.Service)] = cache.ByObject{Namespaces: services}
	options.ByObject[new(discoveryv1.EndpointSlice)] = cache.ByObject{Namespaces: slices}
}

// addOrdered adds the certificates that were ordered to what is held, unless all of their namespace is.
func addOrdered(options *cache.Options, namespace string) {
	if _, all := options.DefaultNamespaces[namespace]; all || namespace == "" {
		return
	}
	for kind, how := range options.ByObject {
		if _, are := kind.(*corev1.Secret); are {
			how.Namespaces = maps.Clone(options.DefaultNamespaces)
			how.Namespaces[namespace] = cache.Config{LabelSelector: labels.SelectorFromSet(controller.OrderedLabels)}
			options.ByObject[kind] = how
		}
	}
}

// newMapper knows the kinds that are watched. The usual one asks the API server, and would make a process that starts while
// that is away give up instead of waiting for it.
func newMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Service", "Secret", "ConfigMap"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(networkingv1.SchemeGroupVersion.WithKind("Ingress"), meta.RESTScopeNamespace)
	m.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	m.Add(networkingv1.SchemeGroupVersion.WithKind("IngressClass"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return m
}

// stripping drops what is only history, which is often most of an object, and of EndpointSlices, of which there is the most,
// what nobody asks for.
func stripping(hints bool) toolscache.TransformFunc {
	return func(event any) (any, error) { return strip(event, hints), nil }
}

func strip(event any, hints bool) any {
	if object, ok := event.(metav1.Object); ok {
		object.SetManagedFields(nil)
		if annotations := object.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
		}
	}
	if slice, ok := event.(*discoveryv1.EndpointSlice); ok {
		stripSlice(slice, hints)
	}
	return event
}

// stripSlice leaves addresses, conditions and nodes, which are published for a Service of type NodePort, and drops which
// Pod an endpoint is, where that is, whom it is for unless that is asked for, and who made the slice: half of it.
func stripSlice(slice *discoveryv1.EndpointSlice, hints bool) {
	slice.OwnerReferences, slice.Annotations, slice.GenerateName = nil, nil, ""
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		e.TargetRef, e.Hostname, e.Zone, e.DeprecatedTopology = nil, nil, nil, nil
		if !hints {
			e.Hints = nil
		}
	}
}

// watchFailed logs why something could not be read. It is asked again in any case.
func (s *Source) watchFailed(ctx context.Context, r *toolscache.Reflector, err error) {
	if ctx.Err() != nil {
		return // the process is leaving
	}
	s.classes.failed(r, err)
	if apierrors.IsForbidden(err) {
		// The API server's own words name user, verb, resource and group.
		s.log.Error("a permission is missing; see the ClusterRole in deploy/base/rbac.yaml", "err", err)
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}
