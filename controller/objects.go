package controller

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/proxy/feature"
	"sallyport/proxy/upstream"
)

// A reading is an object that the features of an Ingress asked for, and the version they saw; nil: there was none.
type reading struct {
	ref     Ref
	version metav1.Object
}

// lookup is what the features of one Ingress see of a snapshot. What they ask for is noted, so that the Ingress is
// translated again when that changes.
type lookup struct{ *translation }

func (o lookup) read(ref Ref) {
	o.reads = append(o.reads, reading{ref, o.snapshot.Object(ref)})
}

func (o lookup) Secret(namespace, name string) (map[string][]byte, bool) {
	o.read(Ref{"Secret", namespace, name})
	secret := o.snapshot.Secret(Key{namespace, name})
	if secret == nil {
		return nil, false
	}
	return secret.Data, true
}

func (o lookup) ConfigMap(namespace, name string) (map[string]string, bool) {
	o.read(Ref{"ConfigMap", namespace, name})
	configMap := o.snapshot.ConfigMap(Key{namespace, name})
	if configMap == nil {
		return nil, false
	}
	return configMap.Data, true
}

// Backend leads to the first TCP port of a Service of the Ingress's namespace: nobody names another one.
func (o lookup) Backend(namespace, service string) *feature.Backend {
	named := &networkingv1.IngressServiceBackend{Name: service} // without a port: the first one
	target := o.builder.options.resolve(o.snapshot, namespace, named)
	o.targets = append(o.targets, wanted{named, target})
	if target.id == (upstream.ID{}) {
		return nil
	}
	pool := o.builder.options.Pools.Get(target.id)
	options := o.builder.options.Settings.Upstream
	options.Protocol = target.protocol
	return &feature.Backend{Handler: upstream.New(pool, options), Pool: pool}
}

// References are the objects that the annotations of an Ingress name, for a source that does not read all there are. It
// is a superset: whether an object of another namespace may be used is decided when the Ingress is translated.
func References(ingress *networkingv1.Ingress) []Ref {
	c := new(collector)
	feature.Parse(feature.Input{
		Namespace: ingress.Namespace, Name: ingress.Name, Annotations: ingress.Annotations,
		Objects: c, AnyNamespace: true,
	})
	return c.refs
}

// ConfigReferences are those that the controller's ConfigMap, of a namespace, names.
func ConfigReferences(namespace string, data map[string]string) []Ref {
	c := new(collector)
	feature.NewConfig(data, feature.Input{Namespace: namespace, Objects: c, AnyNamespace: true})
	return c.refs
}

// A collector notes what is asked for and has nothing.
type collector struct{ refs []Ref }

func (c *collector) Secret(namespace, name string) (map[string][]byte, bool) {
	c.refs = append(c.refs, Ref{"Secret", namespace, name})
	return nil, false
}

func (c *collector) ConfigMap(namespace, name string) (map[string]string, bool) {
	c.refs = append(c.refs, Ref{"ConfigMap", namespace, name})
	return nil, false
}

func (c *collector) Backend(string, string) *feature.Backend { return nil }
