package controller

import (
	"sallyport/proxy/upstream"
)

// A work is what one build has to do: the objects that changed since the last one, and what they touch.
type work struct {
	ingresses map[Key]struct{} // to be looked at again
	secrets   map[Key]struct{} // that are others
	pools     map[upstream.ID]struct{}
	tls       map[string]struct{} // hosts whose certificate is chosen again
	dirty     map[string]struct{} // hosts whose routes are chosen again
	names     map[string]struct{} // further names of hosts that are decided again
	canaries  map[string]struct{} // hosts whose canaries are others

	configMaps bool // some ConfigMap may be another

	// endpoints says that addresses of pools may be others, and nothing else is: no object but EndpointSlices changed, and
	// there is and was nothing to tell about those pools.
	endpoints bool
}

// touch notes that the Ingresses of a host are others.
func (w *work) touch(host string) {
	w.tls[host] = struct{}{}
	w.dirty[host] = struct{}{}
}

// workOf reads from the snapshot what changed since this Builder saw it last. For another snapshot, or one that another
// Builder has built meanwhile, that is anything.
func (b *Builder) workOf(s *Snapshot) *work {
	w := &work{
		ingresses: make(map[Key]struct{}),
		secrets:   make(map[Key]struct{}),
		pools:     make(map[upstream.ID]struct{}),
		tls:       make(map[string]struct{}),
		dirty:     make(map[string]struct{}),
		names:     make(map[string]struct{}),
		canaries:  make(map[string]struct{}),
	}
	if b.snapshot != s || b.revision != s.since {
		b.everything(s, w)
		return w
	}
	w.endpoints = s.onlySlices()
	addKeys(w.ingresses, s.ingresses.changed)
	addKeys(w.secrets, s.secrets.changed)
	for secret := range s.secrets.changed {
		addKeys(w.ingresses, b.objects[Ref{"Secret", secret.Namespace, secret.Name}])
	}
	for configMap := range s.configMaps.changed {
		addKeys(w.ingresses, b.objects[Ref{"ConfigMap", configMap.Namespace, configMap.Name}])
		w.configMaps = true
	}
	if len(s.classes.changed) > 0 {
		addKeys(w.ingresses, b.ingresses)
	}
	for service := range s.services.changed {
		addKeys(w.ingresses, b.services[service])
		addKeys(w.pools, b.poolsOf[service])
	}
	for service := range s.moved {
		addKeys(w.pools, b.poolsOf[service])
	}
	for name := range s.changedNames {
		addKeys(w.pools, b.named[name])
	}
	return w
}

func (b *Builder) everything(s *Snapshot, w *work) {
	addKeys(w.ingresses, s.ingresses.objects)
	addKeys(w.ingresses, b.ingresses)
	addKeys(w.secrets, b.secrets)
	addKeys(w.pools, b.pools)
	w.configMaps = true
}

func addKeys[K comparable, V any](set map[K]struct{}, from map[K]V) {
	for key := range from {
		set[key] = struct{}{}
	}
}

// An index finds the Ingresses that name an object.
type index[K comparable] map[K]map[Key]struct{}

func (x index[K]) add(object K, ingress Key) {
	if object == *new(K) {
		return
	}
	if x[object] == nil {
		x[object] = make(map[Key]struct{})
	}
	x[object][ingress] = struct{}{}
}

func (x index[K]) remove(object K, ingress Key) {
	delete(x[object], ingress)
	if len(x[object]) == 0 {
		delete(x, object)
	}
}
