package cluster

import (
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// chosen are the namespaces whose labels match a selector, and all Ingresses there are: those of a namespace come into
// the snapshot when it is chosen and leave it when it no longer is, without an event of their own.
type chosen struct {
	selector  labels.Selector
	matching  map[string]bool
	ingresses map[string]map[controller.Ref]client.Object // by namespace
}

func newChosen(selector labels.Selector) *chosen {
	return &chosen{selector, make(map[string]bool), make(map[string]map[controller.Ref]client.Object)}
}

// filter turns changes of the cluster into changes of what is chosen.
func (c *chosen) filter(dirty map[controller.Ref]client.Object) {
	for ref, object := range dirty {
		if ref.Kind == "Ingress" {
			c.note(ref, object)
			if !c.matching[ref.Namespace] {
				dirty[ref] = nil
			}
		}
	}
	for ref, object := range dirty {
		if ref.Kind != "Namespace" {
			continue
		}
		now := object != nil && c.selector.Matches(labels.Set(object.GetLabels()))
		if now == c.matching[ref.Name] {
			continue
		}
		if c.matching[ref.Name] = now; !now {
			delete(c.matching, ref.Name)
		}
		for ingress, version := range c.ingresses[ref.Name] {
			if !now {
				version = nil
			}
			dirty[ingress] = version
		}
	}
}

func (c *chosen) note(ref controller.Ref, object client.Object) {
	in := c.ingresses[ref.Namespace]
	if object == nil {
		if delete(in, ref); len(in) == 0 {
			delete(c.ingresses, ref.Namespace)
		}
		return
	}
	if in == nil {
		in = make(map[controller.Ref]client.Object)
		c.ingresses[ref.Namespace] = in
	}
	in[ref] = object
}
