package cluster

import (
	"context"
	"reflect"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// handler notes every event by its object; a nil object is one that was deleted.
func (s *Source) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.note(object, false) },
		UpdateFunc: func(_, object any) { s.note(object, false) },
		DeleteFunc: func(object any) { s.note(object, true) },
	}
}

func (s *Source) note(event any, deleted bool) {
	if unknown, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
		event = unknown.Obj // the deletion itself was missed; this is how it was before
	}
	object, ok := event.(client.Object)
	if !ok {
		return
	}
	ref := refOf(object)
	if deleted {
		object = nil
	}
	s.mu.Lock()
	s.dirty[ref] = object
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refOf names an object. Objects of informers have no kind of their own; their Go type is called like it.
func refOf(object client.Object) controller.Ref {
	return controller.Ref{Kind: reflect.TypeOf(object).Elem().Name(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// feed hands the snapshot over: once when everything has been read, then after every burst.
func (s *Source) feed(ctx context.Context, changed func(*controller.Snapshot)) {
	s.apply()
	s.synced.Store(true)
	changed(&s.snapshot)
	for s.awaitBurst(ctx) {
		if s.apply() {
			changed(&s.snapshot)
		}
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
func (s *Source) apply() bool {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = make(map[controller.Ref]client.Object)
	s.mu.Unlock()
	if s.chosen != nil {
		s.chosen.filter(dirty)
	}
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
