package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A thousand mistakes at once are told one after the other: so many at once, so many a second.
const eventBurst, eventRate = 100, 50

// writeEvents tells what there is to tell, until ctx ends.
func (w *Writer) writeEvents(ctx context.Context) {
	b, limit := newBook(), rate.NewLimiter(eventRate, eventBurst)
	again := time.NewTimer(0)
	defer again.Stop()
	var seen *state
	for {
		// What can happen: there is another state or something has happened; it is time for the next notice; the end.
		select {
		case <-w.eventy:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if now := w.latest.Load(); now != nil && now != seen {
			seen = now
			if !w.options.NoServed {
				b.seeServed(now.served, time.Now())
			}
			b.see(now.notices, time.Now())
		}
		for _, ingress := range w.takeContested() {
			b.happened(contestedNotice(ingress), fresh, time.Now())
		}
		again.Reset(w.tellNext(ctx, b, limit))
	}
}

// tellNext tells one notice, if there is one to tell, and says when to look again.
func (w *Writer) tellNext(ctx context.Context, b *book, limit *rate.Limiter) time.Duration {
	if limit.Tokens() < 1 {
		return time.Second / eventRate
	}
	n, e, wait := b.next(time.Now())
	if e == nil {
		return wait
	}
	limit.Allow()
	exists, err := w.create(ctx, &n)
	shut := apierrors.IsForbidden(err)
	if err == nil && exists && n.reason != ReasonServed {
		err = w.countAgain(ctx, &n, e.count+1)
	}
	now := time.Now()
	switch {
	case err == nil:
		b.wasTold(n, e, now)
		w.eventFailure = ""
		return 0
	case ctx.Err() != nil:
		return longestSleep // the end
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err):
		b.giveUp(e)
	case shut:
		b.close(n.namespace(), now)
	default:
		b.postpone(e, now)
		if !answered(err) {
			b.paused = now.Add(pause)
		}
	}
	if text := err.Error(); text != w.eventFailure { // an API server that is away is told of once
		w.eventFailure = text
		w.failed("write an Event on "+n.object.String(), err)
	}
	return 0
}

// answered says that an error is the API server's own answer to what was asked, and not that it has no time or is away.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// create makes an Event of a notice. It exists already when it was told before, by whichever replica.
func (w *Writer) create(ctx context.Context, n *notice) (exists bool, err error) {
	_, err = w.events.Events(n.namespace()).Create(ctx, n.event(w.options.Identity), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return true, nil
	case gone(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, nil // there is nobody to read it
	}
	return false, err
}

// countAgain counts another sighting in the series of an Event: this is the one of that number, as far as this replica knows.
func (w *Writer) countAgain(ctx context.Context, n *notice, number int) error {
	patch, err := json.Marshal(map[string]any{
		"series": map[string]any{"count": max(number, 2), "lastObservedTime": metav1.NowMicro()},
	})
	if err != nil {
		return err
	}
	_, err = w.events.Events(n.namespace()).Patch(ctx, n.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it ended just now, and is written anew when its time comes
	}
	return err
}

// contest has the owner of an Ingress told that another controller writes its status.
func (w *Writer) contest(ingress *networkingv1.Ingress) {
	w.mu.Lock()
	w.contested = append(w.contested, ingress)
	w.mu.Unlock()
	wake(w.eventy)
}

func (w *Writer) takeContested() []*networkingv1.Ingress {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.contested
	w.contested = nil
	return all
}
