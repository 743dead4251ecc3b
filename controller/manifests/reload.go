package manifests

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport/controller"
)

// How long a file must have been left alone before it is read, and for how long one that never is may be put off.
const (
	restingTime = 50 * time.Millisecond
	longestWait = time.Second
)

// A look is what a file that is being written looked like, and since when it is.
type look struct {
	info  fs.FileInfo
	since time.Time
}

// A patience says whether files that were just written are read at once, or left until nobody seems to be writing.
type patience bool

const (
	atOnce  patience = false
	patient patience = true
)

// reload brings the folder up to date and says whether objects or problems changed. Files that are still being written
// stay in f.pending, as they were: somebody must call again soon.
func (f *Folder) reload(p patience) bool {
	now := time.Now()
	files := make(map[string]*file)
	var order []*file
	var lost []source
	there := make(map[string]bool)
	for _, s := range f.list() {
		there[s.shown] = true
		if s.whole {
			lost = append(lost, s)
			order = append(order, f.unknown(s, files)...)
			continue
		}
		if next := f.look(s, p, now); next != nil {
			files[next.path] = next
			order = append(order, next)
		}
	}
	maps.DeleteFunc(f.pending, func(path string, _ look) bool { return !there[path] })
	if f.waitsForNew() {
		order = append(order, f.gone(there, files)...)
	}
	f.files, f.order = files, order
	return f.merge(lost)
}

// list finds the manifests. A listing takes a moment, and a file renamed within it is found under both of its names or under
// neither: where this may have been so, a second listing, begun after the rename, tells.
func (f *Folder) list() []source {
	sources := find(f.roots)
	if f.torn(sources) {
		return find(f.roots)
	}
	return sources
}

// torn says whether a file that was known is not listed, or is one with a file that was not known.
func (f *Folder) torn(sources []source) bool {
	var fresh []source
	known := 0
	for _, s := range sources {
		switch {
		case f.files[s.shown] != nil:
			known++
		case s.info != nil:
			fresh = append(fresh, s)
		}
	}
	if known < len(f.files) {
		return true
	}
	for _, s := range sources {
		if f.files[s.shown] != nil && slices.ContainsFunc(fresh, func(n source) bool { return os.SameFile(s.info, n.info) }) {
			return true
		}
	}
	return false
}

// unknown keeps the files of a folder that cannot be listed: that they cannot be seen does not mean they are gone.
func (f *Folder) unknown(s source, files map[string]*file) []*file {
	var kept []*file
	for _, old := range f.order {
		if old.path == s.shown || strings.HasPrefix(old.path, strings.TrimSuffix(s.shown, "/")+"/") {
			if files[old.path] == nil {
				files[old.path] = old
				kept = append(kept, old)
			}
		}
	}
	return kept
}

// waitsForNew says whether a file that was not there before is not read yet, because somebody may be writing it.
func (f *Folder) waitsForNew() bool {
	for path := range f.pending {
		if f.files[path] == nil {
			return true
		}
	}
	return false
}

// gone keeps the files that are no longer there while a new one is waited for: it may be one of them under another name,
// and what they hold would be away until it is read.
func (f *Folder) gone(there map[string]bool, files map[string]*file) []*file {
	var kept []*file
	for _, old := range f.order {
		if !there[old.path] && files[old.path] == nil {
			files[old.path] = old
			kept = append(kept, old)
		}
	}
	return kept
}

// look brings one file up to date. It returns nil for a new file that is still being written.
func (f *Folder) look(s source, p patience, now time.Time) *file {
	old := f.files[s.shown]
	if s.err != nil {
		delete(f.pending, s.shown)
		return old.refused(s)
	}
	if old != nil && old.err == nil && unchanged(old.info, s.info) {
		delete(f.pending, s.shown)
		return old
	}
	if p == patient && !f.rests(s, now) {
		return old
	}
	text, info, err := s.load()
	switch {
	case errors.Is(err, errMoving), errors.Is(err, fs.ErrNotExist):
		// Written, renamed or removed since it was listed: the next listing tells.
		f.putOff(s, now)
		return old
	case err != nil:
		s.err = err
		return old.refused(s)
	}
	delete(f.pending, s.shown)
	if age := now.Sub(info.ModTime()); age >= 0 && age < 2*time.Second {
		// Clocks of file systems tick slowly: another save of as many bytes may carry the same time. The next look
		// compares the text.
		info = nil
	}
	return f.parse(old, s.shown, text, info)
}

// rests says whether a changed file may be read. One that was written a moment ago may be half of what it will be, or
// empty, between an editor's truncation and its write. One that is rewritten all the time is read after a second.
func (f *Folder) rests(s source, now time.Time) bool {
	seen, waiting := f.pending[s.shown]
	age, enough := now.Sub(s.info.ModTime()), restingTime
	if s.info.Size() == 0 {
		enough = longestWait // rarely meant, and on a busy machine the write may be long in coming
	}
	switch {
	case age >= enough,
		age < 0 && waiting && unchanged(seen.info, s.info), // a clock that runs ahead
		waiting && now.Sub(seen.since) >= longestWait && s.info.Size() > 0:
		return true
	}
	f.putOff(s, now)
	return false
}

// rest is how long to wait until all the files that were put off may be read: less than the whole resting time, of which some
// has passed before anybody looked. What was written together is read together.
func (f *Folder) rest(now time.Time) time.Duration {
	most := time.Duration(0)
	for _, seen := range f.pending {
		if left := restingTime - now.Sub(seen.info.ModTime()); left > 0 && left <= restingTime {
			most = max(most, left)
		}
	}
	if most == 0 {
		return restingTime // they wait for something else
	}
	return most
}

func (f *Folder) putOff(s source, now time.Time) {
	since := now
	if seen, ok := f.pending[s.shown]; ok {
		since = seen.since
	}
	f.pending[s.shown] = look{s.info, since}
}

// refused is a file that cannot be read now. What it held stays.
func (old *file) refused(s source) *file {
	next := &file{path: s.shown, err: s.err}
	if old != nil {
		next.good = old.entries()
	}
	next.content.broken = true
	next.content.problems = []controller.Problem{{
		Severity: controller.Error, Reason: controller.ReasonFileUnreadable, File: s.shown, Message: "cannot be read: " + s.err.Error(),
	}}
	return next
}

// parse reads the text of a file, unless it is the one known.
func (f *Folder) parse(old *file, path string, text []byte, info fs.FileInfo) *file {
	sum := sha256.Sum256(text)
	if old != nil && old.err == nil && old.sum == sum {
		old.info = info
		return old
	}
	r := &reader{schemas: f.schemas, file: path}
	next := &file{path: path, info: info, sum: sum, content: r.read(text)}
	switch {
	case !next.content.broken:
		next.good = next.content.entries
	case old != nil:
		next.good = old.good
	}
	return next
}

// entries are what counts of a file: all of its last good version while it is broken, and what can be read of a file
// that never was good.
func (f *file) entries() []*entry {
	if f.content.broken && f.good != nil {
		return f.good
	}
	return f.content.entries
}
