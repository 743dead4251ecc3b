package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// Most Secrets of a cluster are none of our business: passwords, tokens, the history of Helm releases. Those of type
// kubernetes.io/tls come from one informer. A Secret of another type may hold a certificate too, when somebody made it
// with `kubectl create secret generic`; one that is named, but is not among those of that type, is followed alone: by a
// watch for its name, as a kubelet does for the Secrets of its Pods. It ends when nobody names the Secret any more, or when
// it turns up with the usual type. ConfigMaps, which can hold anything, are followed in this way only: that of the
// controller, and those that it or an Ingress names.
//
//	Ingress a/shop names Secret a/shop-tls    not there                  → a watch for the name
//	a/shop-tls is made, type Opaque           the watch says so          → it is in the snapshot
//	it is replaced by one of type tls         the informer says so too   → the watch ends
type secrets struct {
	typed     map[controller.Ref]client.Object               // those of type kubernetes.io/tls
	followed  map[controller.Ref]client.Object               // what the followers found
	names     map[controller.Ref][]controller.Ref            // the Secrets that an Ingress names
	named     map[controller.Ref]map[controller.Ref]struct{} // the Ingresses that name a Secret; the zero Ref is Options
	waiting   map[controller.Ref]struct{}                    // to be followed as soon as there is room
	followers map[controller.Ref]*follower
	config    controller.Ref // the controller's ConfigMap, which may name others; zero: there is none
	limit     int            // of followers
	full      bool           // there was no room for all that wait, and this has been told

	mu    sync.Mutex // guards found, and ended of every follower
	found map[controller.Ref]client.Object
}

// maxFollowers, because each costs a stream of a connection to the API server, and whoever may make Ingresses may name any
// number of Secrets that do not exist.
const maxFollowers = 1000

// followerPatience is how long the first snapshot waits for the Secrets that are followed when the API server gives no
// answer about some. A host with the default certificate for a while is better than a process that never serves.
const followerPatience = 10 * time.Second

// A follower is the watch of one Secret.
type follower struct {
	stop    context.CancelFunc
	synced  toolscache.InformerSynced
	refused atomic.Bool // the API server said that the Secret is not for us, and nothing was seen of it since
	ended   bool        // what it still has to say does not count
}

// answered says whether it is known what the Secret is, if only that we may not read it.
func (f *follower) answered() bool { return f.synced() || f.refused.Load() }

func newSecrets(always []controller.Ref, config controller.Ref) *secrets {
	c := &secrets{
		typed:     make(map[controller.Ref]client.Object),
		followed:  make(map[controller.Ref]client.Object),
		names:     make(map[controller.Ref][]controller.Ref),
		named:     make(map[controller.Ref]map[controller.Ref]struct{}),
		waiting:   make(map[controller.Ref]struct{}),
		followers: make(map[controller.Ref]*follower),
		limit:     maxFollowers,
		found:     make(map[controller.Ref]client.Object),
		config:    config,
	}
	for _, ref := range always {
		c.named[ref] = map[controller.Ref]struct{}{{}: {}}
		c.waiting[ref] = struct{}{}
	}
	return c
}

func secretRef(namespace, name string) controller.Ref {
	return controller.Ref{Kind: "Secret", Namespace: namespace, Name: name}
}

// namedBy are the Secrets and ConfigMaps that an Ingress names, whatever their type. A nil Ingress names none.
func namedBy(object client.Object) []controller.Ref {
	ingress, ok := object.(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	var refs []controller.Ref
	for _, entry := range ingress.Spec.TLS {
		if entry.SecretName != "" {
			refs = append(refs, secretRef(ingress.Namespace, entry.SecretName))
		}
	}
	return append(refs, controller.References(ingress)...)
}

// filter completes changes by what the followers found, and notes who names which Secret.
func (c *secrets) filter(dirty map[controller.Ref]client.Object) {
	touched := make(map[controller.Ref]struct{})
	for ref, object := range dirty {
		switch ref.Kind {
		case "Ingress":
			c.link(ref, namedBy(object), touched)
		case "Secret":
			put(c.typed, ref, object)
			touched[ref] = struct{}{}
		}
	}
	c.mu.Lock()
	for ref, object := range c.found {
		put(c.followed, ref, object)
		touched[ref] = struct{}{}
	}
	clear(c.found)
	c.mu.Unlock()
	if _, ok := touched[c.config]; ok && c.config != (controller.Ref{}) {
		var data map[string]string
		if config, ok := c.followed[c.config].(*corev1.ConfigMap); ok {
			data = config.Data
		}
		c.link(c.config, controller.ConfigReferences(c.config.Namespace, data), touched)
	}
	for ref := range touched {
		c.reconsider(ref)
		if dirty[ref] = c.typed[ref]; dirty[ref] == nil {
			dirty[ref] = c.followed[ref]
		}
	}
}

func put(objects map[controller.Ref]client.Object, ref controller.Ref, object client.Object) {
	if object == nil {
		delete(objects, ref)
	} else {
		objects[ref] = object
	}
}

// link notes that an Ingress, or the controller's ConfigMap, names these objects and no others.
func (c *secrets) link(ingress controller.Ref, now []controller.Ref, touched map[controller.Ref]struct{}) {
	for _, secret := range c.names[ingress] {
		touched[secret] = struct{}{}
		delete(c.named[secret], ingress)
		if len(c.named[secret]) == 0 {
			delete(c.named, secret)
		}
	}
	for _, secret := range now {
		touched[secret] = struct{}{}
		if c.named[secret] == nil {
			c.named[secret] = make(map[controller.Ref]struct{})
		}
		c.named[secret][ingress] = struct{}{}
	}
	if c.names[ingress] = now; len(now) == 0 {
		delete(c.names, ingress)
	}
}

// reconsider decides whether a Secret is to be followed.
func (c *secrets) reconsider(ref controller.Ref) {
	f := c.followers[ref]
	switch wanted := c.named[ref] != nil && c.typed[ref] == nil; {
	case wanted && f == nil:
		c.waiting[ref] = struct{}{}
	case !wanted:
		delete(c.waiting, ref)
		if f != nil {
			c.end(ref, f)
		}
	}
}

// end stops a follower without waiting for it.
func (c *secrets) end(ref controller.Ref, f *follower) {
	c.mu.Lock()
	f.ended = true
	delete(c.found, ref)
	c.mu.Unlock()
	f.stop()
	delete(c.followers, ref)
	delete(c.followed, ref)
}

// followSecrets starts to follow those that wait for it, as far as there is room.
func (s *Source) followSecrets(ctx context.Context) {
	c := s.secrets
	for ref := range c.waiting {
		if len(c.followers) >= c.limit {
			if !c.full {
				s.log.Warn("more Secrets and ConfigMaps are named than are watched by name",
					"limit", c.limit, "unread", len(c.waiting), "object", ref.String())
			}
			c.full = true
			return
		}
		delete(c.waiting, ref)
		f, err := s.follow(ctx, ref)
		if err != nil {
			s.log.Error("an object that is named cannot be watched", "object", ref.String(), "err", err)
			continue
		}
		c.followers[ref] = f
	}
	c.full = false
}

// follow watches one object.
func (s *Source) follow(ctx context.Context, ref controller.Ref) (*follower, error) {
	options := s.cacheOptions
	options.DefaultNamespaces = map[string]cache.Config{ref.Namespace: {}}
	options.ByObject = nil
	options.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.name", ref.Name)
	f := new(follower)
	options.DefaultWatchErrorHandler = func(ctx context.Context, r *toolscache.Reflector, err error) { s.followFailed(ctx, r, f, ref, err) }
	one, err := cache.New(s.config, options)
	if err != nil {
		return nil, err
	}
	var kind client.Object = new(corev1.Secret)
	if ref.Kind == "ConfigMap" {
		kind = new(corev1.ConfigMap)
	}
	informer, err := one.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	registration, err := informer.AddEventHandler(handler(func(ref controller.Ref, object client.Object) {
		s.secrets.mu.Lock()
		if !f.ended {
			s.secrets.found[ref] = object
		}
		f.refused.Store(false)
		s.secrets.mu.Unlock()
		s.awake()
	}))
	if err != nil {
		return nil, err
	}
	f.synced = registration.HasSynced
	ctx, f.stop = context.WithCancel(ctx)
	s.following.Go(func() {
		if err := one.Start(ctx); err != nil {
			s.log.Error("an object that is named is no longer watched", "object", ref.String(), "err", err)
		}
	})
	return f, nil
}

// followFailed logs why a Secret could not be read, a refusal once. It is asked for again in any case, less and less often.
func (s *Source) followFailed(ctx context.Context, r *toolscache.Reflector, f *follower, ref controller.Ref, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		s.watchFailed(ctx, r, err)
		return
	}
	if ctx.Err() != nil || f.refused.Swap(true) {
		return
	}
	verb := "list"
	if f.synced() {
		verb = "watch"
	}
	s.log.Error("an object that is named cannot be read, so it counts as missing; a permission or its namespace is missing",
		"verb", verb, "resource", strings.ToLower(ref.Kind)+"s", "namespace", ref.Namespace, "name", ref.Name, "err", err)
}

// awaitFollowers waits until every Secret that is followed has been looked for once, or long enough. It returns false when
// ctx ends first.
func (s *Source) awaitFollowers(ctx context.Context) bool {
	var complete []toolscache.InformerSynced
	for _, f := range s.secrets.followers {
		complete = append(complete, f.answered)
	}
	bounded, cancel := context.WithTimeout(ctx, followerPatience)
	defer cancel()
	if toolscache.WaitForCacheSync(bounded.Done(), complete...) {
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	for ref, f := range s.secrets.followers {
		if !f.answered() {
			s.log.Warn("serving without an object that is named: the API server gives no answer about it yet",
				"verb", "list", "resource", strings.ToLower(ref.Kind)+"s", "namespace", ref.Namespace, "name", ref.Name)
		}
	}
	return true
}
