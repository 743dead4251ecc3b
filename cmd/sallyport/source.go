package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/controller/manifests"
)

// A state is what a source knows at one moment.
type state struct {
	snapshot *controller.Snapshot
	// report adds to the problems of building those of reading, and says where they are. Nil: there is nothing to add.
	report func(built []controller.Problem) []controller.Problem
	// locate fills in file and line of a problem. Nil: there are no files.
	locate func(*controller.Problem)
	// changes are the objects that are others than in the state before, by file and line. A cluster does not say.
	changes []manifests.Change
}

// A source is where objects come from: a folder of manifests or a cluster.
type source interface {
	// Run calls changed with each new state, from one goroutine, first when the state is complete. What is in a state
	// may be used until changed returns. It returns nil when ctx ends, and else the error that keeps it from going on.
	Run(ctx context.Context, changed func(state)) error
	// Nudge has Run call changed once more with the state as it is, because something that is put together with it is
	// another. It may be called from any goroutine.
	Nudge()
}

// folderSource is a source of manifests that have been read once.
type folderSource struct{ folder *manifests.Folder }

func (s folderSource) Run(ctx context.Context, changed func(state)) error {
	changed(s.state())
	return s.folder.Run(ctx, func() { changed(s.state()) })
}

func (s folderSource) Nudge() { s.folder.Nudge() }

func (s folderSource) state() state {
	return state{s.folder.Snapshot(), s.folder.Report, s.folder.Locate, s.folder.Changes()}
}

// openSource opens the source that the configuration names. A folder is read, a cluster is not asked yet.
func openSource(w world, c config.Config, log *slog.Logger) (source, error) {
	if len(c.Manifests) > 0 {
		folder, err := openFolder(c.Manifests)
		if err != nil {
			return nil, err
		}
		logOthers(log, folder.Others())
		return folderSource{folder}, nil
	}
	return openCluster(w, c, log)
}

// logOthers says in one line what a folder holds beside what is served.
func logOthers(log *slog.Logger, others map[string]int) {
	if len(others) == 0 {
		return
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(others)) {
		kinds = append(kinds, fmt.Sprintf("%s (%d)", kind, others[kind]))
	}
	log.Info("objects of other kinds are left alone", "kinds", strings.Join(kinds, ", "))
}
