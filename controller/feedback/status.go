package feedback

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sallyport/controller"
)

const (
	// lookAgain is how often addresses are asked for that nobody tells of: those of nodes.
	lookAgain = 30 * time.Second
	// writers are how many Ingresses are written at once.
	writers = 8
	// patienceWithOthers is how often the status of an Ingress is restored before that slows down.
	patienceWithOthers = 3
	// slowestRestore is how slow it becomes when another controller goes on writing it.
	slowestRestore = 5 * time.Minute
)

// statuses is what a leader remembers of the Ingresses it wrote.
type statuses struct {
	desired []networkingv1.IngressLoadBalancerIngress
	written map[controller.Key]*written
}

// written is what was last written to one Ingress.
type written struct {
	uid      types.UID
	version  string // resourceVersion of what was seen when it was written
	restored int    // how often the same has been written
	next     time.Time
}

// writeStatus keeps the status of every served Ingress as it should be, until ctx ends.
func (w *Writer) writeStatus(ctx context.Context) {
	s := &statuses{written: make(map[controller.Key]*written)}
	again := time.NewTimer(0)
	defer again.Stop()
	var last answer
	for {
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
		wait := lookAgain
		if last.err == nil {
			wait = w.writeAll(ctx, s, now, last.list)
		}
		again.Reset(wait)
	}
}

// writeAll writes the status of those Ingresses that differ, and says when to look again.
func (w *Writer) writeAll(ctx context.Context, s *statuses, now *state, desired []networkingv1.IngressLoadBalancerIngress) time.Duration {
	if !slices.EqualFunc(desired, s.desired, sameEntry) {
		s.desired = desired
		clear(s.written)
		w.mu.Lock()
		w.published = desired
		w.mu.Unlock()
	}
	due, wait := s.due(now.served, time.Now())
	failed := w.patchAll(ctx, due, desired)
	for _, ingress := range due {
		if s.written[keyOf(ingress)].restored == patienceWithOthers+1 {
			w.tellContested(ctx, ingress)
		}
	}
	for _, ingress := range failed {
		delete(s.written, keyOf(ingress)) // try again
		wait = min(wait, time.Second)
	}
	return wait
}

// due are the Ingresses to be written now, and how long until one may be that has to wait.
func (s *statuses) due(served []*networkingv1.Ingress, now time.Time) (due []*networkingv1.Ingress, wait time.Duration) {
	wait = lookAgain
	for _, ingress := range served {
		key := keyOf(ingress)
		if slices.EqualFunc(ingress.Status.LoadBalancer.Ingress, s.desired, sameEntry) || ingress.DeletionTimestamp != nil {
			continue
		}
		w := s.written[key]
		switch {
		case w == nil || w.uid != ingress.UID:
			w = &written{uid: ingress.UID}
			s.written[key] = w
		case w.version == ingress.ResourceVersion:
			continue // the cluster has not told us yet that it is written
		case now.Before(w.next):
			wait = min(wait, w.next.Sub(now))
			continue
		}
		w.version = ingress.ResourceVersion
		if w.restored++; w.restored > patienceWithOthers {
			w.next = now.Add(min(time.Second<<min(w.restored-patienceWithOthers, 16), slowestRestore))
		}
		due = append(due, ingress)
	}
	return due, wait
}

// patchAll writes the same list to several Ingresses and returns those to which it could not be written.
func (w *Writer) patchAll(ctx context.Context, due []*networkingv1.Ingress, list []networkingv1.IngressLoadBalancerIngress) (failed []*networkingv1.Ingress) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan *networkingv1.Ingress)
	for range min(writers, len(due)) {
		workers.Go(func() {
			for ingress := range next {
				err := w.patch(ctx, ingress, list)
				if err == nil || gone(err) {
					continue
				}
				mu.Lock()
				failed = append(failed, ingress)
				if len(failed) == 1 && ctx.Err() == nil {
					w.failed(fmt.Sprintf("write the status of Ingress %s/%s", ingress.Namespace, ingress.Name), err)
				}
				mu.Unlock()
			}
		})
	}
	for _, ingress := range due {
		next <- ingress
	}
	close(next)
	workers.Wait()
	return failed
}

// patch writes a list of addresses, empty to take them away, to that very Ingress: not to another that has its name by now.
func (w *Writer) patch(ctx context.Context, ingress *networkingv1.Ingress, list []networkingv1.IngressLoadBalancerIngress) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": ingress.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": list}}, // nil is null, which removes it
	})
	if err != nil {
		return err
	}
	_, err = w.ingresses.Ingresses(ingress.Namespace).Patch(ctx, ingress.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// clearStatus takes the addresses out of every Ingress that shows just those that are published.
func (w *Writer) clearStatus(ctx context.Context) {
	// Not what would be published now: the nodes of a Service's Pods are none any more.
	w.mu.Lock()
	published := w.published
	w.mu.Unlock()
	now := w.latest.Load()
	if now == nil {
		return
	}
	var ours []*networkingv1.Ingress
	for _, ingress := range now.served {
		if list := ingress.Status.LoadBalancer.Ingress; len(list) > 0 && slices.EqualFunc(list, published, sameEntry) {
			ours = append(ours, ingress)
		}
	}
	w.patchAll(ctx, ours, nil)
	w.log.Info("the last replica leaves: addresses are taken out of the status of Ingresses", "ingresses", len(ours))
}

// tellContested says on an Ingress that another controller keeps writing its status, which only people can settle.
func (w *Writer) tellContested(ctx context.Context, ingress *networkingv1.Ingress) {
	ref := controller.Ref{Kind: "Ingress", Namespace: ingress.Namespace, Name: ingress.Name}
	n := noticeOf(ref, ingress, corev1.EventTypeWarning, ReasonStatusContested,
		"status.loadBalancer: another controller keeps writing it; let only one of them write the status of this class, with --update-status=false here or its like there")
	if err := w.write(ctx, &n, 1); err != nil && ctx.Err() == nil {
		w.failed("write an Event on "+ref.String(), err)
	}
}

func keyOf(ingress *networkingv1.Ingress) controller.Key {
	return controller.Key{Namespace: ingress.Namespace, Name: ingress.Name}
}

func sameEntry(a, b networkingv1.IngressLoadBalancerIngress) bool {
	return a.IP == b.IP && a.Hostname == b.Hostname && len(a.Ports) == len(b.Ports)
}
