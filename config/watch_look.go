package config

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
)

// maxLook bounds how many files a look takes in, for somebody who names "/" as the folder.
const maxLook = 200_000

// look walks the roots: it puts watches on folders that have none, and returns a sum over everything seen. A folder is
// watched before it is listed, so that whatever comes into it later is an event.
func (w *watch) look() uint64 {
	w.forget()
	sum := fnv.New64a()
	l := &looking{watch: w, sum: sum, found: make(map[string]os.FileInfo), left: maxLook}
	for _, root := range w.roots {
		l.ancestor(root)
		if real, err := filepath.EvalSymlinks(root); err == nil {
			l.tree(real)
		}
	}
	w.watched = l.found
	return sum.Sum64()
}

type looking struct {
	watch *watch
	sum   io.Writer
	found map[string]os.FileInfo // folders watched
	left  int
}

// ancestor watches the nearest folder above a root that exists.
func (l *looking) ancestor(root string) {
	for folder := filepath.Dir(root); ; folder = filepath.Dir(folder) {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			l.add(folder, info)
			return
		}
		if folder == filepath.Dir(folder) {
			return
		}
	}
}

func (l *looking) add(folder string, info os.FileInfo) {
	if _, ok := l.found[folder]; ok {
		return
	}
	l.found[folder] = info
	n := l.watch.notifier
	if n == nil {
		return
	}
	if _, ok := l.watch.watched[folder]; ok {
		return
	}
	if err := n.Add(folder); err != nil {
		delete(l.found, folder) // out of watches, or gone: the next look tries again, and polls
	}
}

// tree takes in a file, or a folder and what is below it. Links are noted, not followed: what they lead to is in the
// tree by itself, or none of its business.
func (l *looking) tree(path string) {
	if l.left--; l.left < 0 {
		return
	}
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	fmt.Fprintf(l.sum, "%s\x00%d %d %d %v\x00", path, info.Size(), info.ModTime().UnixNano(), inode(info), info.Mode())
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, _ := os.Readlink(path)
		fmt.Fprintf(l.sum, "%s\x00", target)
	case info.IsDir():
		l.add(path, info)
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			l.tree(filepath.Join(path, e.Name()))
		}
	}
}

// forget drops the watches of folders that are gone or are other folders by now. It comes first: a folder that was
// renamed still has its watch under the old name, and the system gives it no second one.
func (w *watch) forget() {
	for folder, before := range w.watched {
		if now, err := os.Stat(folder); err == nil && os.SameFile(before, now) {
			continue
		}
		delete(w.watched, folder)
		if w.notifier != nil {
			_ = w.notifier.Remove(folder) // an error means that the system dropped it already
		}
	}
}
