package cluster

import (
	"maps"
	"strings"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// IngressClasses belong to no namespace, and some clusters let a controller read what is in its own namespaces alone. Without
// them the class of an Ingress cannot be known by its field: one that has nothing else is nobody's, and one that has the
// annotation too goes by that (reference A2). The snapshot shows it so, until the classes can be read.
//
//	ingressClassName: nginx                               not in the snapshot
//	ingressClassName: nginx, annotation: sallyport        in it, without the field
//	annotation: sallyport                                 in it, as it is
//	neither                                               in it, as it is
//
// They are asked for again all the while, less and less often, but twice a minute at least.
type classes struct {
	refused atomic.Bool                 // the API server said that they are not for us
	synced  toolscache.InformerSynced   // they have been read
	others  []toolscache.InformerSynced // of the other kinds
	hidden  map[controller.Ref]client.Object
}

// classAnnotation names the class of an Ingress in place of the field.
const classAnnotation = "kubernetes.io/ingress.class"

// answered says whether it is known what the classes are, if only that we may not read them.
func (c *classes) answered() bool { return c.synced() || c.refused.Load() }

// failed notes that the classes may not be read, if that is what an error says. An API server that has just started forbids
// everything until it has read who may do what: its word counts once something else could be read.
func (c *classes) failed(r *toolscache.Reflector, err error) {
	if !apierrors.IsForbidden(err) || !strings.HasSuffix(r.TypeDescription(), ".IngressClass") {
		return
	}
	for _, synced := range c.others {
		if !synced() {
			return
		}
	}
	c.refused.Store(true)
}

// filter hides what the snapshot is not to show of Ingresses, and shows it once the classes are there.
func (c *classes) filter(dirty map[controller.Ref]client.Object) {
	for ref := range dirty {
		delete(c.hidden, ref)
	}
	if c.synced() {
		for ref, ingress := range c.hidden {
			dirty[ref] = ingress
		}
		c.hidden = nil
		return
	}
	for ref, object := range maps.Clone(dirty) {
		ingress, ok := object.(*networkingv1.Ingress)
		if !ok || ingress.Spec.IngressClassName == nil {
			continue
		}
		if c.hidden == nil {
			c.hidden = make(map[controller.Ref]client.Object)
		}
		c.hidden[ref] = ingress
		dirty[ref] = withoutField(ingress)
	}
}

// withoutField is an Ingress as it would be had its class never had a field; nil if that leaves nothing.
func withoutField(ingress *networkingv1.Ingress) client.Object {
	if _, annotated := ingress.Annotations[classAnnotation]; !annotated {
		return nil
	}
	bare := *ingress // nobody changes what it shares with the original
	bare.Spec.IngressClassName = nil
	return &bare
}
