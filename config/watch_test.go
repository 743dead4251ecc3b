package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A calling is a running Watch whose calls can be waited for.
type calling struct {
	t     *testing.T
	calls chan struct{}
	count atomic.Int64
}

// watching starts Watch and waits for its first call; it ends with the test, and leaves no goroutine behind.
func watching(t *testing.T, folders ...string) *calling {
	t.Helper()
	c := &calling{t: t, calls: make(chan struct{}, 1000)}
	c.start(func(ctx context.Context, changed func()) error { return Watch(ctx, folders, changed) })
	return c
}

func (c *calling) start(watch func(context.Context, func()) error) {
	c.t.Helper()
	before := goleak.IgnoreCurrent()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- watch(ctx, func() {
			c.count.Add(1)
			select {
			case c.calls <- struct{}{}:
			default:
			}
		})
	}()
	c.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			c.t.Errorf("Watch returned %v after its context ended, want nil", err)
		}
		goleak.VerifyNone(c.t, before)
	})
	c.wait("the first call")
}

func (c *calling) wait(for_ string) {
	c.t.Helper()
	select {
	case <-c.calls:
	case <-time.After(8 * time.Second):
		c.t.Fatalf("no call within 8 s after %s", for_)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatchSeesEveryWayOfChangingAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	c := watching(t, dir)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"a new file", func() error { return os.WriteFile(file, []byte("1"), 0o644) }},
		{"a write in place", func() error { return os.WriteFile(file, []byte("2"), 0o644) }},
		{"a write beside and a rename over it", func() error {
			write(t, file+".tmp", "3")
			return os.Rename(file+".tmp", file)
		}},
		{"a rename away and a new file, as vim does", func() error {
			must(t, os.Rename(file, file+"~"))
			return os.WriteFile(file, []byte("4"), 0o644)
		}},
		{"new permissions", func() error { return os.Chmod(file, 0o600) }},
		{"a removal", func() error { return os.Remove(file) }},
	} {
		must(t, step.do())
		c.wait(step.name)
	}
}

func TestWatchFollowsNewFolders(t *testing.T) {
	dir := t.TempDir()
	c := watching(t, dir)
	deep := filepath.Join(dir, "x", "y")
	must(t, os.MkdirAll(deep, 0o755))
	c.wait("a new folder")
	write(t, filepath.Join(deep, "a.yaml"), "1")
	c.wait("a file in it")
	must(t, os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z")))
	c.wait("a new name for the upper one")
	write(t, filepath.Join(dir, "z", "y", "b.yaml"), "1")
	c.wait("a file in the lower one")
}

func TestWatchSurvivesItsFolderBeingMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o755))
	c := watching(t, dir)
	for i := range 3 {
		must(t, os.RemoveAll(dir))
		c.wait(fmt.Sprint("removal ", i))
		must(t, os.Mkdir(dir, 0o755))
		c.wait(fmt.Sprint("creation ", i))
		write(t, filepath.Join(dir, "a.yaml"), "1")
		c.wait(fmt.Sprint("a file in it ", i))
	}
}

func TestWatchWaitsForAFolderThatDoesNotExistYet(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "not", "yet")
	c := watching(t, dir)
	must(t, os.MkdirAll(dir, 0o755))
	c.wait("its creation")
	write(t, filepath.Join(dir, "a.yaml"), "1")
	c.wait("a file in it")
}

func TestWatchSeesAMountedConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "..1"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "..2"), 0o755))
	must(t, os.Symlink("..1", filepath.Join(dir, "..data")))
	c := watching(t, dir)
	must(t, os.Symlink("..2", filepath.Join(dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	c.wait("the swap")
}

func TestWatchFollowsARootThatIsALink(t *testing.T) {
	top := t.TempDir()
	one, two, link := filepath.Join(top, "one"), filepath.Join(top, "two"), filepath.Join(top, "current")
	must(t, os.Mkdir(one, 0o755))
	must(t, os.Mkdir(two, 0o755))
	must(t, os.Symlink("one", link))
	c := watching(t, link)
	write(t, filepath.Join(one, "a.yaml"), "1")
	c.wait("a file behind the link")
	must(t, os.Symlink("two", link+".new"))
	must(t, os.Rename(link+".new", link))
	c.wait("another target")
	write(t, filepath.Join(two, "a.yaml"), "1")
	c.wait("a file behind the new target")
}

func TestWatchTakesASingleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	write(t, file, "1")
	c := watching(t, file)
	write(t, file, "2")
	c.wait("a write")
	must(t, os.Remove(file))
	c.wait("its removal")
	write(t, file, "3")
	c.wait("its return")
}

func TestWatchLeavesNeighboursAlone(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "manifests")
	must(t, os.Mkdir(dir, 0o755))
	w := &watch{roots: []string{dir}}
	w.look()
	for path, want := range map[string]bool{
		filepath.Join(dir, "a.yaml"):          true,
		dir:                                   true,
		top:                                   true, // it may be the one that is deleted
		filepath.Join(top, "other"):           false,
		filepath.Join(top, "manifests2"):      false,
		filepath.Join(top, "other", "m.yaml"): false,
	} {
		if got := w.concerns(path); got != want {
			t.Errorf("concerns(%s) = %v, want %v", path, got, want)
		}
	}
}

func TestWatchGathersABurst(t *testing.T) {
	dir := t.TempDir()
	c := watching(t, dir)
	before := c.count.Load()
	for i := range 500 {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), "1")
	}
	c.wait("a burst")
	// A marker after the burst: when it has been seen, all calls of the burst have been counted.
	write(t, filepath.Join(dir, "marker"), "1")
	c.wait("a marker")
	if calls := c.count.Load() - before; calls > 20 {
		t.Errorf("%d calls for 500 new files, want a few", calls)
	}
}

func TestWatchIsNotPutOffForeverByAnUnquietFolder(t *testing.T) {
	dir := t.TempDir()
	c := watching(t, dir)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(dir, "busy.yaml"), fmt.Append(nil, i), 0o644)
			}
		}
	}()
	start := time.Now()
	c.wait("a second of writing")
	c.wait("another second of writing")
	close(stop)
	<-stopped
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("two calls took %v, want about two seconds", took)
	}
}

// The kernel's queue of events is bounded (fs.inotify.max_queued_events, 16384 by default). Whatever is lost with it,
// the folder is looked at again, and folders that came meanwhile are watched.
func TestWatchSurvivesAnOverflow(t *testing.T) {
	dir := t.TempDir()
	c := &calling{t: t, calls: make(chan struct{}, 1000)}
	blocked, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	c.start(func(ctx context.Context, changed func()) error {
		return Watch(ctx, []string{dir}, func() {
			if c.count.Load() == 1 && once.CompareAndSwap(false, true) {
				close(blocked)
				<-release
			}
			changed()
		})
	})
	write(t, filepath.Join(dir, "first"), "1")
	<-blocked
	for i := range 9000 { // two events or more each
		write(t, filepath.Join(dir, "many"), "1")
		must(t, os.Rename(filepath.Join(dir, "many"), filepath.Join(dir, fmt.Sprint("many-", i%2))))
	}
	late := filepath.Join(dir, "late")
	must(t, os.Mkdir(late, 0o755)) // its event is lost
	close(release)
	c.wait("the call that was held up")
	c.wait("the overflow")
	write(t, filepath.Join(late, "a.yaml"), "1")
	c.wait("a file in a folder whose creation was lost")
}

func TestWatchPollsWhereThereAreNoEvents(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, "1")
	c := &calling{t: t, calls: make(chan struct{}, 1000)}
	c.start(func(ctx context.Context, changed func()) error {
		w := &watch{roots: []string{dir}, every: 5 * time.Millisecond}
		w.run(ctx, changed)
		return nil
	})
	write(t, file, "22")
	c.wait("a write")
	write(t, file+".tmp", "33")
	must(t, os.Rename(file+".tmp", file))
	c.wait("a rename")
	must(t, os.Remove(file))
	c.wait("a removal")
}

func TestWatchWantsAFolder(t *testing.T) {
	if err := Watch(context.Background(), nil, func() {}); err == nil {
		t.Error("Watch without folders returned nil, want an error")
	}
}
