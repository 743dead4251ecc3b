package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sallyport/controller"
)

const (
	// lookAgain is how often addresses are asked for that nobody tells of: those of nodes.
	lookAgain = 30 * time.Second
	// lookSoon is the same while they are not known.
	lookSoon = 2 * time.Second
	// writers are how many Ingresses are written at once.
	writers = 8
	// patienceWithOthers is how often the status of an Ingress is restored before that slows down.
	patienceWithOthers = 3
	// slowestRestore is how slow it becomes when another controller goes on writing it.
	slowestRestore = 5 * time.Minute
	// peace is how long a status is left alone until it is forgotten that somebody else wrote it.
	peace = 2 * slowestRestore
	// slowestRetry is how slow it becomes to try again what the API server refuses.
	slowestRetry = time.Minute
)

// statuses is what a leader remembers of the Ingresses it wrote.
type statuses struct {
	known   bool // there is something desired, if only the empty list
	desired []networkingv1.IngressLoadBalancerIngress
	written map[controller.Key]*written
	round   int
}

// written is what was last written to one Ingress.
type written struct {
	uid      types.UID
	version  string    // resourceVersion of what was seen when it was written; empty: it could not be
	at       time.Time // of the last write
	restored int       // how often the same has been written
	failures int       // since it was written
	next     time.Time // not before
	round    int       // the last one in which the Ingress was there
}

// writeStatus keeps the status of every served Ingress as it should be, until ctx ends.
func (w *Writer) writeStatus(ctx context.Context) {
	s := &statuses{written: make(map[controller.Key]*written)}
	again := time.NewTimer(0)
	defer again.Stop()
	var last answer
	for {
		// What can happen: there is another state; addresses are to be looked for, or something is to be tried, again; the end.
		select {
		case <-w.statusy:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		now := w.latest.Load()
		if now == nil {
			continue // Update will wake us
		}
		last = w.ask(ctx, now.service, last)
		if last.err != nil {
			w.adopt(now.served, last.err)
			again.Reset(lookSoon)
			continue
		}
		again.Reset(w.writeAll(ctx, s, now, last.list))
	}
}

// writeAll writes the status of those Ingresses that differ, and says when to look again.
func (w *Writer) writeAll(ctx context.Context, s *statuses, now *state, desired []networkingv1.IngressLoadBalancerIngress) time.Duration {
	if !s.known || !slices.EqualFunc(desired, s.desired, sameEntry) {
		s.known, s.desired = true, desired
		clear(s.written)
		w.show(desired)
	}
	due, wait := s.due(now.served, time.Now())
	for i, err := range w.patchAll(ctx, due, desired) {
		if again := s.result(due[i], err, time.Now()); again > 0 {
			wait = min(wait, again)
		}
		if err == nil && s.written[keyOf(due[i])].restored == patienceWithOthers+1 {
			w.contest(due[i])
		}
	}
	return wait
}

// due are the Ingresses to be written now, and how long until one may be that has to wait. Those that are there no more are
// forgotten.
func (s *statuses) due(ingresses []*networkingv1.Ingress, now time.Time) (due []*networkingv1.Ingress, wait time.Duration) {
	wait = lookAgain
	s.round++
	for _, ingress := range ingresses {
		key := keyOf(ingress)
		w := s.written[key]
		if w != nil {
			w.round = s.round
		}
		if slices.EqualFunc(ingress.Status.LoadBalancer.Ingress, s.desired, sameEntry) || ingress.DeletionTimestamp != nil {
			if w != nil && now.Sub(w.at) >= peace {
				delete(s.written, key)
			}
			continue
		}
		switch {
		case w == nil || w.uid != ingress.UID:
			w = &written{uid: ingress.UID, round: s.round}
			s.written[key] = w
		case w.version == ingress.ResourceVersion:
			continue // the cluster has not told us yet that it is written
		case now.Before(w.next):
			wait = min(wait, w.next.Sub(now))
			continue
		}
		due = append(due, ingress)
	}
	maps.DeleteFunc(s.written, func(_ controller.Key, w *written) bool { return w.round != s.round })
	return due, wait
}

// result notes what became of an Ingress that was due. It returns when that is to be tried again, 0 for not before there is
// another version of it.
func (s *statuses) result(ingress *networkingv1.Ingress, err error, now time.Time) time.Duration {
	w := s.written[keyOf(ingress)]
	switch {
	case err == nil:
		w.version, w.at, w.failures = ingress.ResourceVersion, now, 0
		if w.restored++; w.restored > patienceWithOthers {
			w.next = now.Add(min(time.Second<<min(w.restored-patienceWithOthers, 16), slowestRestore))
		}
		return 0
	case gone(err):
		// There is another version, or none, of which we will hear. It may be one that is not ours any more.
		w.version = ingress.ResourceVersion
		return 0
	}
	wait := min(time.Second<<min(w.failures, 16), slowestRetry)
	w.version, w.next = "", now.Add(wait)
	w.failures++
	return wait
}

// patchAll writes the same list to several Ingresses and returns what came of each.
func (w *Writer) patchAll(ctx context.Context, due []*networkingv1.Ingress, list []networkingv1.IngressLoadBalancerIngress) []error {
	results := make([]error, len(due))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(writers, len(due)) {
		workers.Go(func() {
			for i := range next {
				results[i] = w.patch(ctx, due[i], list)
			}
		})
	}
	for i := range due {
		next <- i
	}
	close(next)
	workers.Wait()
	for i, err := range results {
		if err != nil && !gone(err) && ctx.Err() == nil {
			w.failed(fmt.Sprintf("write the status of Ingress %s/%s", due[i].Namespace, due[i].Name), err)
			break // the others will have the same reason
		}
	}
	return results
}

// patch writes a list of addresses, empty to take them away, to that very version of an Ingress: of the next we do not know
// whether it is ours, and another controller may have written it already.
func (w *Writer) patch(ctx context.Context, ingress *networkingv1.Ingress, list []networkingv1.IngressLoadBalancerIngress) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": ingress.UID, "resourceVersion": ingress.ResourceVersion},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": list}}, // nil is null, which removes it
	})
	if err != nil {
		return err
	}
	_, err = w.ingresses.Ingresses(ingress.Namespace).Patch(ctx, ingress.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// show notes what is published.
func (w *Writer) show(list []networkingv1.IngressLoadBalancerIngress) {
	w.mu.Lock()
	w.shown = &list
	w.mu.Unlock()
}

func (w *Writer) isShown() *[]networkingv1.IngressLoadBalancerIngress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown
}

// adopt takes what stands in the status of all Ingresses for published, by the leader before, while this one does not know
// the addresses: it may be the last, and has to take them away then. It needs a list that all agree on. Where nothing
// says what to publish they have it from somebody else.
func (w *Writer) adopt(ingresses []*networkingv1.Ingress, why error) {
	if w.isShown() != nil || errors.Is(why, errMisconfigured) {
		return
	}
	var list []networkingv1.IngressLoadBalancerIngress
	for _, ingress := range ingresses {
		switch stands := ingress.Status.LoadBalancer.Ingress; {
		case len(stands) == 0:
		case list == nil:
			list = stands
		case !slices.EqualFunc(list, stands, sameEntry):
			return
		}
	}
	if list != nil {
		w.show(list)
	}
}

// clearStatus takes the addresses out of every Ingress that shows just those that are published, until none does or ctx ends.
func (w *Writer) clearStatus(ctx context.Context) {
	if now := w.latest.Load(); now != nil && w.isShown() == nil { // it led for a moment only
		if a := w.ask(ctx, now.service, answer{}); a.err == nil {
			w.show(a.list)
		} else {
			w.adopt(now.served, a.err)
		}
	}
	cleared, out, left := make(map[types.UID]struct{}), 0, 0
	for wait := retryLast; ; wait = min(2*wait, slowestLast) {
		ours := w.showing(cleared)
		left = len(ours)
		for i, err := range w.patchAll(ctx, ours, nil) {
			if err == nil {
				out++
			}
			if err == nil || apierrors.IsNotFound(err) {
				cleared[ours[i].UID] = struct{}{}
				left--
			}
		}
		if left == 0 || !sleep(ctx, wait) {
			break
		}
	}
	if left > 0 {
		w.log.Warn("the last replica leaves, and addresses stay in the status of Ingresses that could not be written", "ingresses", left, "taken out", out)
		return
	}
	w.log.Info("the last replica leaves: addresses are taken out of the status of Ingresses", "ingresses", out)
}

// showing are the Ingresses that show what is published, as far as is known, without those that were cleared: not what would
// be published now, for the nodes of a Service's Pods are none any more.
func (w *Writer) showing(cleared map[types.UID]struct{}) (ours []*networkingv1.Ingress) {
	now, shown := w.latest.Load(), w.isShown()
	if now == nil || shown == nil {
		return nil
	}
	for _, ingress := range now.served {
		_, done := cleared[ingress.UID]
		if list := ingress.Status.LoadBalancer.Ingress; !done && len(list) > 0 && slices.EqualFunc(list, *shown, sameEntry) {
			ours = append(ours, ingress)
		}
	}
	return ours
}

func keyOf(ingress *networkingv1.Ingress) controller.Key {
	return controller.Key{Namespace: ingress.Namespace, Name: ingress.Name}
}

func sameEntry(a, b networkingv1.IngressLoadBalancerIngress) bool {
	return a.IP == b.IP && a.Hostname == b.Hostname && len(a.Ports) == len(b.Ports)
}
