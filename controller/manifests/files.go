package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	maxFileSize    = 4 << 20
	maxFolderDepth = 32
)

// A source is one file found, or one place where files may be and cannot be looked for.
type source struct {
	shown string // the path as the user knows it: the folder as given, and what is below
	info  fs.FileInfo
	open  func() (*os.File, error)
	err   error // why it cannot be read
	whole bool  // with err: shown is a folder, and nothing is known about what is in it
}

// find lists the manifests below the folders, in the order of the folders and then of names. A root may also be a
// single file. Whatever is reached twice (a link beside its target, a folder inside another) is listed once.
//
// Everything is opened through os.Root, so no link, however it is swapped meanwhile, leads out of its folder.
func find(roots []string) []source {
	w := &walker{seen: make(map[string]bool)}
	for _, root := range roots {
		w.root(root)
	}
	return w.sources
}

type walker struct {
	sources []source
	seen    map[string]bool // by real path
	folder  *os.Root        // of the root being walked
}

func (w *walker) root(given string) {
	real, err := filepath.EvalSymlinks(given)
	if err != nil {
		w.fail(given, true, err)
		return
	}
	info, err := os.Stat(real)
	if err != nil {
		w.fail(given, true, err)
		return
	}
	if absolute, err := filepath.Abs(real); err == nil {
		real = absolute
	}
	folder := real
	if !info.IsDir() {
		folder = filepath.Dir(real)
	}
	w.folder, err = os.OpenRoot(folder)
	if err != nil {
		w.fail(given, true, err)
		return
	}
	defer w.folder.Close()
	if !info.IsDir() {
		w.file(found{name: filepath.Base(real), shown: given, real: real})
		return
	}
	w.walk(found{name: ".", shown: given, real: real}, 0)
}

// A found is a name met on the way.
type found struct {
	name  string // below the root
	shown string // as the user knows it
	real  string // without links; of a link, of the link itself
	link  bool
}

func (f found) inner(e fs.DirEntry) found {
	return found{
		name:  path.Join(f.name, e.Name()),
		shown: filepath.Join(f.shown, e.Name()),
		real:  filepath.Join(f.real, e.Name()),
		link:  e.Type()&fs.ModeSymlink != 0,
	}
}

func (w *walker) fail(shown string, whole bool, err error) {
	w.sources = append(w.sources, source{shown: shown, whole: whole, err: reasonOf(err)})
}

// first says whether a file or folder is reached for the first time.
func (w *walker) first(f *found) bool {
	if f.link {
		if real, err := filepath.EvalSymlinks(f.real); err == nil {
			f.real = real
		}
	}
	if w.seen[f.real] {
		return false
	}
	w.seen[f.real] = true
	return true
}

func (w *walker) walk(f found, depth int) {
	if !w.first(&f) {
		return
	}
	if depth > maxFolderDepth {
		w.fail(f.shown, true, fmt.Errorf("more than %d folders inside each other", maxFolderDepth))
		return
	}
	entries, err := fs.ReadDir(w.folder.FS(), f.name)
	if err != nil {
		w.fail(f.shown, true, err)
		return
	}
	for _, e := range entries {
		if ignored(e.Name()) {
			continue
		}
		inner := f.inner(e)
		isFolder := e.IsDir()
		if inner.link {
			info, err := w.folder.Stat(inner.name)
			isFolder = err == nil && info.IsDir()
		}
		switch {
		case isFolder:
			w.walk(inner, depth+1)
		case isManifest(e.Name()):
			w.file(inner)
		}
	}
}

// ignored are hidden files, the "..data" folders of mounted ConfigMaps (their files are reached by the links beside),
// and what editors leave beside the file they edit.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "~") ||
		strings.HasSuffix(name, "~")
}

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func (w *walker) file(f found) {
	info, err := w.folder.Stat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !f.link:
		return // gone since the folder was listed
	case errors.Is(err, fs.ErrNotExist):
		w.fail(f.shown, false, errors.New("a link that leads nowhere"))
		return
	case err != nil && f.link:
		w.fail(f.shown, false, fmt.Errorf("a link that is not followed, because it leads out of the folder (%w)", reasonOf(err)))
		return
	case err != nil:
		w.fail(f.shown, false, err)
		return
	}
	if err := acceptable(info); err != nil {
		w.fail(f.shown, false, err)
		return
	}
	if !w.first(&f) {
		return
	}
	folder := w.folder.Name()
	w.sources = append(w.sources, source{shown: f.shown, info: info, open: func() (*os.File, error) {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		// O_NONBLOCK: opening a named pipe that took the file's place must not wait for a writer.
		return root.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}})
}

// reasonOf drops what a path error says about the path, which is said already.
func reasonOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// acceptable refuses what is not a file with text of a sensible size.
func acceptable(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("a named pipe; only regular files are read")
	case mode&fs.ModeDevice != 0:
		return errors.New("a device; only regular files are read")
	case mode&fs.ModeSocket != 0:
		return errors.New("a socket; only regular files are read")
	case !mode.IsRegular():
		return errors.New("not a regular file")
	case info.Size() > maxFileSize:
		return fmt.Errorf("%d bytes; a manifest may have %d (4 MiB)", info.Size(), maxFileSize)
	}
	return nil
}

var errMoving = errors.New("it changes while it is read")

// load reads a file whole. A file that changes meanwhile is errMoving.
func (s source) load() ([]byte, fs.FileInfo, error) {
	f, err := s.open()
	if err != nil {
		return nil, nil, reasonOf(err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, nil, reasonOf(err)
	}
	if err := acceptable(before); err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, nil, reasonOf(err)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, nil, reasonOf(err)
	}
	if !unchanged(before, after) || int64(len(text)) != after.Size() {
		return nil, nil, errMoving
	}
	return text, after, nil
}

// unchanged says whether two looks found the same file with the same size and time.
func unchanged(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
