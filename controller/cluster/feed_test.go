package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

// noting is a source that is told of a change every so often until the test ends, and for the first time now.
func noting(t *testing.T, every time.Duration) *Source {
	s := &Source{dirty: make(map[controller.Ref]client.Object), wake: make(chan struct{}, 1)}
	change := func() { s.note(controller.Ref{Kind: "Ingress", Name: "a"}, ingress("", "a", "1")) }
	change()
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				change()
			case <-t.Context().Done():
				return
			}
		}
	}()
	return s
}

func TestBurstEndsWithTheQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := noting(t, time.Hour), time.Now()
		if ok := s.awaitBurst(t.Context()); !ok || time.Since(began) != quiet {
			t.Errorf("one change: %t after %v, want true after %v", ok, time.Since(began), quiet)
		}
	})
}

// TestChangesWithoutEndAreNotHeldBack changes something again and again before it was quiet long enough.
func TestChangesWithoutEndAreNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := noting(t, quiet-time.Millisecond), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
		defer cancel()
		if ok := s.awaitBurst(ctx); !ok || time.Since(began) != patience {
			t.Errorf("a change every %v: %t after %v, want true after %v", quiet-time.Millisecond, ok, time.Since(began), patience)
		}
	})
}

func TestBurstIsNotHandedOverAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := noting(t, quiet-time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), quiet/2)
		defer cancel()
		if s.awaitBurst(ctx) {
			t.Error("a burst that the end cut short is handed over")
		}
	})
}
