package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// read reads a folder and returns it with its problems as text, paths below the folder.
func read(t *testing.T, dir string) (*Folder, string) {
	t.Helper()
	f, err := Read([]string{dir})
	must(t, err)
	return f, problemsOf(f, dir)
}

func problemsOf(f *Folder, dir string) string {
	var lines []string
	for _, p := range f.Problems() {
		lines = append(lines, strings.ReplaceAll(p.String(), dir+"/", ""))
	}
	return strings.Join(lines, "\n")
}

func TestHiddenAndEditorFilesArePassedOver(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "1"))
	for _, name := range []string{
		".a.yaml.swp", ".hidden.yaml", ".git/config.yaml", "..data/a.yaml", "#a.yaml#", "#a.yaml", "a.yaml~", "~a.yaml",
		"a.yaml.bak", "a.yaml.tmp", "4913", "README.md", "a.yaml___jb_tmp___",
	} {
		write(t, filepath.Join(dir, name), configMap("wrong", "1"))
	}
	must(t, os.Symlink("nobody@nowhere.1234", filepath.Join(dir, ".#a.yaml"))) // a lock of Emacs
	if f, problems := read(t, dir); values(f) != "a=1" || problems != "" {
		t.Errorf("read %q with problems %q, want a=1 and none", values(f), problems)
	}
}

func TestLinksAreFollowedInsideTheFolderOnly(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret.yaml"), configMap("outside", "1"))
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".store/a.yaml"), configMap("a", "1"))
	write(t, filepath.Join(dir, ".store/sub/b.yaml"), configMap("b", "1"))
	must(t, os.Symlink(".store/a.yaml", filepath.Join(dir, "a.yaml")))
	must(t, os.Symlink(".store/a.yaml", filepath.Join(dir, "same-as-a.yaml")))
	must(t, os.Symlink(".store/sub", filepath.Join(dir, "sub")))
	must(t, os.Symlink(".", filepath.Join(dir, "circle")))
	must(t, os.Symlink(filepath.Join(outside, "secret.yaml"), filepath.Join(dir, "out.yaml")))
	must(t, os.Symlink("../"+filepath.Base(outside)+"/secret.yaml", filepath.Join(dir, "up.yaml")))
	must(t, os.Symlink(outside, filepath.Join(dir, "outside")))
	must(t, os.Symlink("nowhere.yaml", filepath.Join(dir, "dangling.yaml")))
	f, problems := read(t, dir)
	if got := values(f); got != "a=1 b=1" {
		t.Errorf("read %q, want a=1 b=1", got)
	}
	want := []string{"dangling.yaml: error: cannot be read: a link that leads nowhere",
		"out.yaml: error: cannot be read: a link that is not followed, because it leads out of the folder",
		"up.yaml: error: cannot be read: a link that is not followed, because it leads out of the folder"}
	lines := strings.Split(problems, "\n")
	if len(lines) != len(want) {
		t.Fatalf("problems:\n%s\nwant %d", problems, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("problem %q, want %q", lines[i], want[i])
		}
	}
}

// What waits for a writer, or never ends, is refused before it is opened or without waiting.
func TestSpecialFilesAreRefusedWithoutHanging(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644))
	must(t, syscall.Mknod(filepath.Join(dir, "socket.yaml"), syscall.S_IFSOCK|0o644, 0))
	write(t, filepath.Join(dir, "huge.yaml"), strings.Repeat("# nothing\n", 500_000))
	f, problems := read(t, dir)
	if len(f.served) != 0 {
		t.Errorf("objects %v, want none", f.served)
	}
	want := "huge.yaml: error: cannot be read: 5000000 bytes; a manifest may have 4194304 (4 MiB) (FileUnreadable)\n" +
		"pipe.yaml: error: cannot be read: a named pipe; only regular files are read (FileUnreadable)\n" +
		"socket.yaml: error: cannot be read: a socket; only regular files are read (FileUnreadable)"
	if problems != want {
		t.Errorf("problems:\n%s\nwant:\n%s", problems, want)
	}
}

func TestFileThatCannotBeReadAnyMoreKeepsItsObjects(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, configMap("a", "1"))
	f, _ := read(t, dir)
	must(t, os.Remove(file))
	must(t, syscall.Mkfifo(file, 0o644))
	f.reload(patient)
	if got := values(f); got != "a=1" {
		t.Errorf("with a pipe in the file's place the folder is %q, want a=1", got)
	}
	if got := problemsOf(f, dir); !strings.Contains(got, "its last good version stays in service") {
		t.Errorf("problems %q, want one that says what is in service", got)
	}
	must(t, os.Remove(file))
	f.reload(patient)
	if got := values(f); got != "" {
		t.Errorf("with the file removed the folder is %q, want nothing", got)
	}
}

func TestAFileReachedTwiceIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sub/a.yaml"), configMap("a", "1"))
	f, err := Read([]string{dir, filepath.Join(dir, "sub"), filepath.Join(dir, "sub/a.yaml")})
	must(t, err)
	if values(f) != "a=1" || len(f.Problems()) > 0 {
		t.Errorf("read %q with problems %v, want a=1 and none", values(f), f.Problems())
	}
}

func TestASingleFileIsAFolderOfOne(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.txt"), configMap("a", "1"))
	write(t, filepath.Join(dir, "b.yaml"), configMap("b", "1"))
	f, err := Read([]string{filepath.Join(dir, "a.txt")})
	must(t, err)
	if got := values(f); got != "a=1" {
		t.Errorf("read %q, want a=1", got)
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	if _, err := Read([]string{filepath.Join(t.TempDir(), "nope")}); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("Read of a missing folder: %v, want an error that names it", err)
	}
}
