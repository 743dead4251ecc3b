package manifests

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Root may read anything, so the thread becomes nobody for the time of the test.
func TestFileWithoutPermissionIsAProblem(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "1"))
	write(t, filepath.Join(dir, "b.yaml"), configMap("b", "1"))
	write(t, filepath.Join(dir, "sub/c.yaml"), configMap("c", "1"))
	f, problems := read(t, dir)
	if values(f) != "a=1 b=1 c=1" || problems != "" {
		t.Fatalf("read %q with problems %q, want all and none", values(f), problems)
	}
	must(t, os.Chmod(filepath.Join(dir, "b.yaml"), 0))
	must(t, os.Chmod(filepath.Join(dir, "sub"), 0))
	defer os.Chmod(filepath.Join(dir, "sub"), 0o755)

	if os.Getuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, syscall.Setfsuid(65534))
		defer syscall.Setfsuid(0)
	}
	fresh, problems := read(t, dir)
	if values(fresh) != "a=1" || strings.Count(problems, "permission denied") != 2 {
		t.Errorf("read %q with problems %q, want a=1 and two refusals", values(fresh), problems)
	}
	write := f.files[filepath.Join(dir, "b.yaml")]
	write.info = nil // as if it had been saved
	f.reload(patient)
	if got := values(f); got != "a=1 b=1 c=1" {
		t.Errorf("objects whose files became unreadable are gone: %q", got)
	}
}
