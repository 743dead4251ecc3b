package cluster

import (
	"context"
	"reflect"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// handler calls note with every object that is another version now, nil when it was deleted.
func handler(note func(controller.Ref, client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(event any) {
			if object, ok := event.(client.Object); ok {
				note(refOf(object), object)
			}
		},
		UpdateFunc: func(before, event any) {
			if object, ok := event.(client.Object); ok && !sameVersion(before, object) {
				note(refOf(object), object)
			}
		},
		DeleteFunc: func(event any) {
			if unknown, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
				event = unknown.Obj // the deletion itself was missed; this is how it was before
			}
			if object, ok := event.(client.Object); ok {
				note(refOf(object), nil)
			}
		},
	}
}

// sameVersion says that nothing happened to an object: a list that is read anew, because a watch could not be resumed,
// makes an event of each object in it, and would have everything built again.
func sameVersion(before any, now client.Object) bool {
	old, ok := before.(client.Object)
	return ok && old.GetUID() == now.GetUID() && old.GetResourceVersion() == now.GetResourceVersion()
}

func (s *Source) note(ref controller.Ref, object client.Object) {
	s.mu.Lock()
	s.dirty[ref] = object
	s.mu.Unlock()
	s.awake()
}

// awake lets feed know that something changed.
func (s *Source) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Nudge has Run call its function once more although no object changed: what the objects are put together with did. It may
// be called from any goroutine.
func (s *Source) Nudge() {
	s.nudged.Store(true)
	s.awake()
}

// refOf names an object. Objects of informers have no kind of their own; their Go type is called like it.
func refOf(object client.Object) controller.Ref {
	return controller.Ref{Kind: reflect.TypeOf(object).Elem().Name(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// feed hands the snapshot over: once when everything has been read, then after every burst.
func (s *Source) feed(ctx context.Context, changed func(*controller.Snapshot)) {
	defer s.following.Wait()
	if !s.classes.synced() {
		s.log.Warn("serving without IngressClasses, which may not be read: Ingresses are ours by their annotation kubernetes.io/ingress.class alone")
		s.following.Go(func() { s.awaitClasses(ctx) })
	}
	s.apply(ctx)
	for range 2 { // what the controller's ConfigMap names is known when that was read
		if !s.awaitFollowers(ctx) {
			return
		}
		s.apply(ctx)
	}
	s.readZone(ctx)
	s.synced.Store(true)
	changed(&s.snapshot)
	for s.awaitBurst(ctx) {
		nudged := s.nudged.Swap(false)
		if s.apply(ctx) || nudged {
			changed(&s.snapshot)
		}
	}
}

// awaitClasses has a snapshot made when the IngressClasses have been read at last, if only to learn that there is none.
func (s *Source) awaitClasses(ctx context.Context) {
	if toolscache.WaitForCacheSync(ctx.Done(), s.classes.synced) {
		s.log.Info("IngressClasses can be read now")
		s.awake()
	}
}

// awaitBurst returns true when something is dirty and nothing more has come for a while, false when ctx has ended.
func (s *Source) awaitBurst(ctx context.Context) bool {
	select {
	case <-s.wake:
	case <-ctx.Done():
		return false
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	still := time.NewTimer(quiet)
	defer still.Stop()
	// What can happen: another event, which starts the quiet anew; the quiet has lasted; the first event has waited long
	// enough; the end.
	for {
		select {
		case <-s.wake:
			still.Reset(quiet)
		case <-still.C:
			return true
		case <-late.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// apply brings the snapshot up to date and reports whether that changed anything.
func (s *Source) apply(ctx context.Context) bool {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = make(map[controller.Ref]client.Object)
	s.mu.Unlock()
	if s.chosen != nil {
		s.chosen.filter(dirty)
	}
	s.classes.filter(dirty)
	s.secrets.filter(dirty)
	s.followSecrets(ctx)
	changed := false
	for ref, object := range dirty {
		if object == nil {
			changed = s.snapshot.Delete(ref) || changed
		} else {
			changed = s.snapshot.Set(object) || changed
		}
	}
	return changed
}
