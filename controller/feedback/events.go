package feedback

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// keptFor is how long an API server keeps an Event (its flag --event-ttl).
	keptFor = time.Hour
	// tellAgain is how long before that a problem that still holds is told anew.
	tellAgain = 45 * time.Minute
	// retryEvents is how long after a failure what could not be told is tried again.
	retryEvents = 2 * time.Second
	// A thousand mistakes at once are told one after the other: so many at once, so many a second.
	eventBurst, eventRate = 100, 50
)

// told is what a leader remembers of what it has told.
type told struct {
	notices map[notice]sighting
	served  map[types.UID]struct{} // Ingresses that were served in the last state; nil before the first
	owed    map[notice]types.UID   // of Ingresses that are served since, and to be told
	limit   *rate.Limiter
}

// A sighting is the last time that a notice was told.
type sighting struct {
	at    time.Time
	count int
}

// writeEvents tells what is new in every state, until ctx ends.
func (w *Writer) writeEvents(ctx context.Context) {
	t := &told{notices: make(map[notice]sighting), owed: make(map[notice]types.UID), limit: rate.NewLimiter(eventRate, eventBurst)}
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-w.eventy:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		now := w.latest.Load()
		if now == nil {
			continue // Update will wake us
		}
		again.Reset(time.Minute)
		if !w.tell(ctx, t, now) {
			again.Reset(retryEvents)
		}
	}
}

// tell tells what has not been told of a state, and reports whether all of it could be. A long queue does not outlive its
// reason: what is solved by the next state need not be told any more.
func (w *Writer) tell(ctx context.Context, t *told, now *state) bool {
	if !w.options.NoServed {
		t.noteServed(now.served, time.Now())
	}
	for i, n := range t.pending(now.notices, time.Now()) {
		if i%eventBurst == eventBurst-1 && w.latest.Load() != now {
			wake(w.eventy)
			return true
		}
		if t.limit.Wait(ctx) != nil {
			return true // the end
		}
		count := t.notices[n].count + 1
		if err := w.write(ctx, &n, count); err != nil {
			if ctx.Err() == nil {
				w.failed("write an Event on "+n.object.String(), err)
			}
			return false
		}
		if _, owed := t.owed[n]; owed {
			delete(t.owed, n)
		} else {
			t.notices[n] = sighting{time.Now(), count}
		}
	}
	return true
}

// noteServed owes an Event to every Ingress that was not served before. Of those that were there when this replica began
// to lead, the older ones have been told of by another.
func (t *told) noteServed(served []*networkingv1.Ingress, now time.Time) {
	serving := make(map[types.UID]struct{}, len(served))
	for _, ingress := range served {
		serving[ingress.UID] = struct{}{}
		_, before := t.served[ingress.UID]
		if !before && (t.served != nil || now.Sub(ingress.CreationTimestamp.Time) < keptFor) {
			t.owed[servedNotice(ingress)] = ingress.UID
		}
	}
	maps.DeleteFunc(t.owed, func(_ notice, uid types.UID) bool {
		_, still := serving[uid]
		return !still
	})
	t.served = serving
}

// pending is what is to be told now. What no longer holds is forgotten: if it comes back, it is told again.
func (t *told) pending(notices map[notice]struct{}, now time.Time) []notice {
	maps.DeleteFunc(t.notices, func(n notice, _ sighting) bool {
		_, still := notices[n]
		return !still
	})
	pending := slices.Collect(maps.Keys(t.owed))
	for n := range notices {
		if last, known := t.notices[n]; !known || now.Sub(last.at) >= tellAgain {
			pending = append(pending, n)
		}
	}
	return pending
}

// write makes an Event of a notice, or counts another sighting if there is one already: this is the one of that number, as
// far as this replica knows.
func (w *Writer) write(ctx context.Context, n *notice, number int) error {
	events := w.events.Events(n.namespace())
	_, err := events.Create(ctx, n.event(w.options.Identity), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		if gone(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // there is nobody to read it
		}
		return err
	}
	if n.reason == ReasonServed {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"series": map[string]any{"count": max(number, 2), "lastObservedTime": metav1.NowMicro()},
	})
	if err != nil {
		return err
	}
	_, err = events.Patch(ctx, n.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it ended just now, and is written anew when its time comes
	}
	return err
}
