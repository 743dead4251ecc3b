package manifests

import (
	"context"
	"time"

	"sallyport/config"
)

// Run keeps the folder up to date until ctx ends, and calls changed, from this goroutine, each time objects or problems
// are others than before. It returns nil when ctx ends.
func (f *Folder) Run(ctx context.Context, changed func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stirred := make(chan struct{}, 1)
	watching := make(chan error, 1)
	go func() { watching <- config.Watch(ctx, f.roots, func() { notify(stirred) }) }()

	again := time.NewTimer(time.Hour)
	again.Stop()
	defer again.Stop()
	for {
		// Something in the folders changed; somebody nudges; files that were being written may be whole by now; the watch
		// ended, because ctx did or because it could not begin.
		select {
		case <-stirred:
		case <-f.nudged:
			f.changes = nil
			changed()
			continue
		case <-again.C:
		case err := <-watching:
			return err
		}
		if f.reload(patient) {
			changed()
		}
		if len(f.pending) > 0 {
			again.Reset(f.rest(time.Now()))
		}
	}
}

// Nudge has Run call its function once more although nothing in the folder changed: what the objects are put together with
// did. It may be called from any goroutine.
func (f *Folder) Nudge() { notify(f.nudged) }

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already, and will see this change too
	}
}
