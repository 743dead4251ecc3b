package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How changes are gathered. A save is several events within a few milliseconds; a checkout or a swap of a mounted
// ConfigMap is hundreds.
const (
	quietTime   = 25 * time.Millisecond // without an event before changed is called
	longestTime = time.Second           // after the first event, however many follow
	pollEvery   = 10 * time.Second      // between two looks in case events are missing
	pollOnly    = 2 * time.Second       // the same when the system gives no watches at all
)

// Watch calls changed when something in or below folders may have changed, until ctx ends; then it returns nil. The
// first call comes as soon as the watch stands, so that what happened before is not missed either. Calls come from one
// goroutine, never two at a time; what happens during a call leads to another one. A folder may also be a file, and
// need not exist yet.
//
// Folders are watched and never files: a file that an editor replaces, or that a mounted ConfigMap swaps by its
// "..data" link, is another file, and a watch on the old one would wait forever. New folders are watched as they come,
// the folder above each root too, for roots that are deleted and made again. If the system's queue of events overflows,
// everything counts as changed. Network and container mounts may send no events at all, so every ten seconds names,
// sizes, times and inodes are compared as well.
//
// It says when, not what: who is called looks for itself, and must expect a call for nothing.
func Watch(ctx context.Context, folders []string, changed func()) error {
	if len(folders) == 0 {
		return errors.New("no folder to watch")
	}
	w := &watch{every: pollEvery}
	for _, folder := range folders {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		w.roots = append(w.roots, absolute)
	}
	if notifier, err := fsnotify.NewWatcher(); err == nil {
		w.notifier = notifier
		defer notifier.Close()
	} else {
		w.every = pollOnly // out of inotify instances: slower, but it works
	}
	w.run(ctx, changed)
	return nil
}

// A watch is one call of Watch.
type watch struct {
	roots    []string          // absolute, as given
	notifier *fsnotify.Watcher // nil: polling only
	watched  map[string]os.FileInfo
	every    time.Duration
	sum      uint64 // of the last look
}

func (w *watch) run(ctx context.Context, changed func()) {
	var events chan fsnotify.Event
	var failures chan error
	if w.notifier != nil {
		events, failures = w.notifier.Events, w.notifier.Errors
	}
	poll := time.NewTicker(w.every)
	defer poll.Stop()
	quiet := time.NewTimer(0) // the first call
	defer quiet.Stop()
	var first time.Time // event since the last call; zero: none
	stir := func() {
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		quiet.Reset(min(quietTime, first.Add(longestTime).Sub(now)))
	}
	for {
		// The end; something happened in a watched folder; events were lost; it has been quiet for long enough, or
		// unquiet for too long; it is time to look whether events are missing.
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if w.concerns(e.Name) {
				stir()
			}
		case <-failures:
			stir() // fsnotify.ErrEventOverflow, or a watch that broke: look at everything
		case <-quiet.C:
			first = time.Time{}
			w.sum = w.look()
			changed()
		case <-poll.C:
			if first.IsZero() && w.look() != w.sum {
				stir()
			}
		}
	}
}

// concerns leaves out what happens beside the roots, in the folders above them.
func (w *watch) concerns(path string) bool {
	for _, root := range w.roots {
		if within(path, root) || within(root, path) {
			return true
		}
	}
	for folder := range w.watched {
		if within(path, folder) && !w.above(folder) {
			return true // below what a root links to
		}
	}
	return false
}

// above says whether a folder is watched only for what becomes of a root in it.
func (w *watch) above(folder string) bool {
	return slices.ContainsFunc(w.roots, func(root string) bool { return root != folder && within(root, folder) })
}

// within says whether path is folder or below it.
func within(path, folder string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(folder, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
