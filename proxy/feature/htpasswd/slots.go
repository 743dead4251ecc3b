package htpasswd

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// slots are the right to compute a hash.
type slots chan struct{}

// everyone's slots: half the cores, so that guessing leaves the others to those who are served.
var everyone = make(slots, max(1, runtime.GOMAXPROCS(0)/2))

const (
	maxWaiting = 32 // checks of one File
	maxWait    = 2 * time.Second
)

// take waits for a slot and reports whether it has one, which the caller gives back.
func (s slots) take(ctx context.Context, waiting *atomic.Int32) bool {
	select {
	case s <- struct{}{}:
		return true
	default:
	}
	defer waiting.Add(-1)
	if waiting.Add(1) > maxWaiting {
		return false
	}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	// A slot, the end of the request, or too long.
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-timeout.C:
	}
	return false
}

func (s slots) give() { <-s }
