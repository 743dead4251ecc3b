package manifests

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/spelling"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind is one that is read.
type kind struct {
	name     string
	cluster  bool // objects have no namespace
	label    bool // names are single DNS labels, without dots
	versions []version
}

// A version makes an empty object to decode into, and what the snapshot holds from the decoded one.
type version struct {
	apiVersion string
	empty      func() metav1.Object
	finish     func(metav1.Object) []metav1.Object
}

// kinds are all kinds read, newest version first. extensions/v1beta1 and networking.k8s.io/v1beta1 write Ingresses
// alike to the letter, so one type serves for both, and IngressClass never changed; tests hold that.
var kinds = []kind{
	{name: "Ingress", versions: []version{
		reads("networking.k8s.io/v1", same[networkingv1.Ingress]),
		reads("networking.k8s.io/v1beta1", one(fromBetaIngress)),
		reads("extensions/v1beta1", one(fromBetaIngress)),
	}},
	{name: "IngressClass", cluster: true, versions: []version{
		reads("networking.k8s.io/v1", one(defaultIngressClass)),
		reads("networking.k8s.io/v1beta1", one(defaultIngressClass)),
	}},
	{name: "Service", label: true, versions: []version{reads("v1", one(defaultService))}},
	{name: "EndpointSlice", versions: []version{
		reads("discovery.k8s.io/v1", one(defaultSlice)),
		reads("discovery.k8s.io/v1beta1", one(fromBetaSlice)),
	}},
	{name: "Endpoints", versions: []version{reads("v1", mirrored)}},
	{name: "Secret", versions: []version{reads("v1", one(defaultSecret))}},
	{name: "ConfigMap", versions: []version{reads("v1", same[corev1.ConfigMap])}},
	{name: "Namespace", cluster: true, label: true, versions: []version{reads("v1", same[corev1.Namespace])}},
}

func reads[T any, P interface {
	*T
	metav1.Object
}](apiVersion string, finish func(P) []metav1.Object) version {
	return version{
		apiVersion: apiVersion,
		empty:      func() metav1.Object { return P(new(T)) },
		finish:     func(o metav1.Object) []metav1.Object { return finish(o.(P)) },
	}
}

func same[T any, P interface {
	*T
	metav1.Object
}](o P) []metav1.Object {
	return []metav1.Object{o}
}

func one[P, Q metav1.Object](f func(P) Q) func(P) []metav1.Object {
	return func(o P) []metav1.Object { return []metav1.Object{f(o)} }
}

func kindNamed(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// A verdict on an apiVersion and kind.
type verdict uint8

const (
	ours    verdict = iota // read it
	other                  // somebody else's; count it
	mistook                // meant to be one of ours, and is not
)

// judge finds the version to read an object by. A kind of another API group that shares a name with one of ours
// (Knative's Service) is somebody else's; a group that only a slip of the pen can have made (networking/v1,
// extensions/v1) is a mistake, and the message says what to write.
func judge(apiVersion, name string) (verdict, *kind, *version, string) {
	k := kindNamed(name)
	if k == nil {
		if k = likeKind(apiVersion, name); k != nil {
			return mistook, k, nil, fmt.Sprintf("there is no kind %q in %s: write kind: %s", clip(name), apiVersion, k.name)
		}
		return other, nil, nil, ""
	}
	i := slices.IndexFunc(k.versions, func(v version) bool { return v.apiVersion == apiVersion })
	if i >= 0 {
		return ours, k, &k.versions[i], ""
	}
	group, _, hasGroup := strings.Cut(apiVersion, "/")
	if hasGroup && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
		return other, nil, nil, ""
	}
	return mistook, k, nil, fmt.Sprintf("%q is no apiVersion of %s: write %s", clip(apiVersion), name, either(k.versions))
}

func either(versions []version) string {
	if len(versions) == 1 {
		return versions[0].apiVersion
	}
	var names []string
	for _, v := range versions[1:] {
		names = append(names, v.apiVersion)
	}
	return versions[0].apiVersion + " (or " + strings.Join(names, ", ") + ")"
}

// likeKind is the kind of ours that a misspelt one in one of its own versions must mean; nil when there is none.
// "Endpoint" and "Ingres" are misspelt; "Event" and "Node" are other kinds of v1.
func likeKind(apiVersion, name string) *kind {
	for i := range kinds {
		k := &kinds[i]
		own := slices.ContainsFunc(k.versions, func(v version) bool { return v.apiVersion == apiVersion })
		if own && spelling.Slips(k.name, name) <= 1 {
			return k
		}
	}
	return nil
}
