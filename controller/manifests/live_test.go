package manifests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// configMap is the smallest object there is; its value tells versions apart.
func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {v: %q}\n", name, value)
}

func cm(name string) controller.Ref {
	return controller.Ref{Kind: "ConfigMap", Namespace: "default", Name: name}
}

// values lists the ConfigMaps of a folder as "name=value".
func values(f *Folder) string {
	var list []string
	for ref, e := range f.served {
		if ref.Kind == "ConfigMap" && e.made != nil {
			v := string(e.content[strings.Index(string(e.content), `"v":"`)+5:])
			list = append(list, ref.Name+"="+v[:strings.Index(v, `"`)])
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// A state is what a folder was like when it called changed.
type state struct {
	values   string
	problems []string
	changes  []string
	objects  map[controller.Ref]metav1.Object
}

// A living is a folder that runs; its states can be waited for.
type living struct {
	t      *testing.T
	dir    string
	states chan state
	last   state
}

func live(t *testing.T, dir string) *living {
	t.Helper()
	before := goleak.IgnoreCurrent()
	f, err := Read([]string{dir})
	must(t, err)
	l := &living{t: t, dir: dir, states: make(chan state, 10_000), last: stateOf(f)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, func() { l.states <- stateOf(f) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v after its context ended, want nil", err)
		}
		goleak.VerifyNone(t, before)
	})
	return l
}

func stateOf(f *Folder) state {
	s := state{values: values(f), objects: f.objects}
	for _, p := range f.Problems() {
		s.problems = append(s.problems, p.String())
	}
	for _, c := range f.Changes() {
		s.changes = append(s.changes, c.String())
	}
	return s
}

// until waits for a state that holds these values, and fails on any on the way that holds neither these nor those
// before: nobody may ever see half a change.
func (l *living) until(want string) {
	l.t.Helper()
	before := l.last.values
	deadline := time.After(8 * time.Second)
	for {
		select {
		case l.last = <-l.states:
			if l.last.values == want {
				return
			}
			if l.last.values != before {
				l.t.Fatalf("on the way from %q to %q the folder was %q", before, want, l.last.values)
			}
		case <-deadline:
			l.t.Fatalf("the folder is %q after 8 s, want %q; problems %q", l.last.values, want, l.last.problems)
		}
	}
}

// untilProblem waits for a state with exactly this problem, or with none for "".
func (l *living) untilProblem(want string) {
	l.t.Helper()
	deadline := time.After(8 * time.Second)
	for {
		select {
		case l.last = <-l.states:
			text := strings.Join(l.last.problems, "\n")
			if want == "" && text == "" || want != "" && strings.Contains(text, want) {
				return
			}
		case <-deadline:
			l.t.Fatalf("problems are %q after 8 s, want %q", l.last.problems, want)
		}
	}
}

func (l *living) path(name string) string { return filepath.Join(l.dir, name) }

func TestSavesOfEveryKindArePickedUp(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, configMap("a", "0"))
	l := live(t, dir)

	write(t, file, configMap("a", "1"))
	l.until("a=1") // truncated and written in place

	write(t, file+".tmp", configMap("a", "2"))
	must(t, os.Rename(file+".tmp", file))
	l.until("a=2") // written beside and renamed over

	must(t, os.Rename(file, file+"~"))
	write(t, file, configMap("a", "3"))
	l.until("a=3") // renamed away and written anew, as vim does

	write(t, l.path("sub/deep/b.yml"), configMap("b", "1"))
	l.until("a=3 b=1") // a new file in new folders

	must(t, os.Rename(l.path("sub"), l.path("other")))
	write(t, l.path("other/deep/c.json"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"v":"1"}}`)
	l.until("a=3 b=1 c=1") // a folder renamed

	must(t, os.Remove(l.path("other/deep/b.yml")))
	l.until("a=3 c=1")

	must(t, os.RemoveAll(l.path("other")))
	l.until("a=3")
}

func TestNudgeTellsTheSameWithoutChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "1"))
	f, err := Read([]string{dir})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	states := make(chan state, 100)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, func() { states <- stateOf(f) }) }()
	f.Nudge()
	select {
	case s := <-states:
		if s.values != "a=1" || len(s.changes) != 0 {
			t.Errorf("after the nudge the folder is %q with the changes %q, want it as it is, without any", s.values, s.changes)
		}
	case <-time.After(8 * time.Second):
		t.Error("nobody was told")
	}
	stop()
	must(t, <-ended)
}

func TestMountedConfigMapSwapIsOneChange(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		name := fmt.Sprintf("%d.yaml", i)
		write(t, filepath.Join(dir, "..v1", name), configMap(fmt.Sprint("c", i), "1"))
		write(t, filepath.Join(dir, "..v2", name), configMap(fmt.Sprint("c", i), "2"))
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	must(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	l := live(t, dir)
	if want := "c0=1 c1=1 c2=1 c3=1 c4=1"; l.last.values != want || len(l.last.problems) > 0 {
		t.Fatalf("read %q with problems %q, want %q and none", l.last.values, l.last.problems, want)
	}
	must(t, os.Symlink("..v2", l.path("..data_tmp")))
	must(t, os.Rename(l.path("..data_tmp"), l.path("..data")))
	l.until("c0=2 c1=2 c2=2 c3=2 c4=2")
}

func TestFileThatDoesNotParseKeepsAllItsObjects(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, configMap("a", "1")+"---\n"+configMap("b", "1"))
	l := live(t, dir)

	write(t, file, configMap("a", "2")+"---\napiVersion: v1\nkin")
	l.untilProblem("a.yaml:7: error: not YAML")
	if l.last.values != "a=1 b=1" {
		t.Errorf("with half a file the folder is %q, want a=1 b=1", l.last.values)
	}
	if !strings.Contains(l.last.problems[0], "its last good version stays in service") {
		t.Errorf("the problem %q does not say that the last good version stays", l.last.problems[0])
	}
	write(t, file, configMap("a", "2")+"---\n"+configMap("b", "2"))
	l.until("a=2 b=2")
	if len(l.last.problems) > 0 {
		t.Errorf("problems after the file is right again: %q", l.last.problems)
	}
}

func TestObjectThatDoesNotDecodeKeepsItsLastVersionAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, configMap("a", "1")+"---\n"+configMap("b", "1"))
	l := live(t, dir)

	write(t, file, configMap("a", "2")+"---\n"+strings.Replace(configMap("b", "2"), `"2"`, "2", 1))
	l.until("a=2 b=1")
	want := `a.yaml:9: error: ConfigMap default/b: data[v]: is the number 2; a string is expected: quote the value: "2"` +
		"; its last good version stays in service"
	if len(l.last.problems) != 1 || !strings.Contains(l.last.problems[0], want) {
		t.Errorf("problems %q, want one with %q", l.last.problems, want)
	}
	write(t, file, configMap("a", "2")+"---\n"+configMap("b", "2"))
	l.until("a=2 b=2")
}

func TestUnchangedObjectsStayTheSamePointers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, configMap("a", "1")+"---\n"+configMap("b", "1"))
	l := live(t, dir)
	before := l.last.objects

	write(t, file, "# a comment\n"+configMap("b", "1")+"---\n"+configMap("a", "2"))
	l.until("a=2 b=1")
	if l.last.objects[cm("b")] != before[cm("b")] {
		t.Error("b only moved, and is another pointer")
	}
	if l.last.objects[cm("a")] == before[cm("a")] {
		t.Error("a changed, and is the same pointer")
	}
	if want := []string{file + ":7: changed ConfigMap default/a"}; !slices.Equal(l.last.changes, want) {
		t.Errorf("changes %q, want %q", l.last.changes, want)
	}
}

func TestChangesNamePlacesOfWhatCameAndWent(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "1")+"---\n"+configMap("b", "1"))
	l := live(t, dir)
	write(t, filepath.Join(dir, "a.yaml"), configMap("b", "1")+"---\n"+configMap("c", "1"))
	l.until("b=1 c=1")
	file := l.path("a.yaml")
	if want := []string{file + ":1: removed ConfigMap default/a", file + ":6: added ConfigMap default/c"}; !slices.Equal(l.last.changes, want) {
		t.Errorf("changes %q, want %q", l.last.changes, want)
	}
}

// TestRenamedFileIsTold moves a file and takes it away: each time the place that is told is the one that was last true.
func TestRenamedFileIsTold(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "1")+"---\n"+configMap("b", "1"))
	l := live(t, dir)
	must(t, os.Rename(l.path("a.yaml"), l.path("z.yaml")))
	l.untilChanges(l.path("z.yaml")+":1: moved ConfigMap default/a from "+l.path("a.yaml"), l.path("z.yaml")+":6: moved ConfigMap default/b from "+l.path("a.yaml"))
	write(t, l.path("z.yaml"), "# a line more\n"+configMap("a", "1")+"---\n"+configMap("b", "1"))
	l.untilChanges() // nothing changed but the lines, which whoever shows them wants to know
	must(t, os.Remove(l.path("z.yaml")))
	l.untilChanges(l.path("z.yaml")+":2: removed ConfigMap default/a", l.path("z.yaml")+":7: removed ConfigMap default/b")
}

// untilChanges waits for the next state and compares its changes.
func (l *living) untilChanges(want ...string) {
	l.t.Helper()
	select {
	case l.last = <-l.states:
		if !slices.Equal(l.last.changes, want) {
			l.t.Fatalf("changes %q, want %q", l.last.changes, want)
		}
	case <-time.After(8 * time.Second):
		l.t.Fatalf("no news after 8 s, want the changes %q", want)
	}
}

const goodIngress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
spec:
  rules:
  - host: a.test
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: web
            port:
              number: 80
`

// TestIngressCutShortKeepsItsLastVersion cuts a good file behind every line. Where what is left is still an object, it is
// the good one that is served, and the problem says so.
func TestIngressCutShortKeepsItsLastVersion(t *testing.T) {
	old := strings.NewReplacer("networking.k8s.io/v1", "networking.k8s.io/v1beta1", "service:\n", "serviceName: web\n",
		"            name: web\n            port:\n              number: 80\n", "          servicePort: 80\n").Replace(goodIngress)
	for name, good := range map[string]string{"v1": goodIngress, "v1beta1": old} {
		lines := strings.SplitAfter(good, "\n")
		for n := 5; n < len(lines)-1; n++ {
			cut := strings.Join(lines[:n], "")
			dir := t.TempDir()
			file := filepath.Join(dir, "a.yaml")
			write(t, file, good)
			f, err := Read([]string{dir})
			must(t, err)
			whole := f.Snapshot().Ingress(controller.Key{Namespace: "default", Name: "a"})
			if whole == nil || len(f.Problems()) > 0 {
				t.Fatalf("%s: the good file makes %v, with problems %v", name, whole, f.Problems())
			}
			for round := range 2 { // saved twice
				write(t, file, cut+strings.Repeat("# more\n", round))
				f.reload(atOnce)
				if got := f.Snapshot().Ingress(controller.Key{Namespace: "default", Name: "a"}); lines[n-1] != "  - host: a.test\n" && got != whole {
					t.Errorf("%s: cut behind %q the Ingress is another", name, lines[n-1])
				}
				var told []string
				for _, p := range f.Problems() {
					if p.Severity == controller.Error && p.Line > 0 && strings.HasSuffix(p.Message, keptNote) {
						told = append(told, p.String())
					}
				}
				if (len(told) == 0 || len(f.Changes()) > 0) && lines[n-1] != "  - host: a.test\n" {
					t.Errorf("%s: cut behind %q the problems are %v, the changes %v; want one that says that the last version is kept, and none", name, lines[n-1], f.Problems(), f.Changes())
				}
			}
			write(t, file, strings.Replace(good, "a.test", "b.test", 1))
			f.reload(atOnce)
			if got := f.Snapshot().Ingress(controller.Key{Namespace: "default", Name: "a"}); got == whole || got.Spec.Rules[0].Host != "b.test" || len(f.Problems()) > 0 {
				t.Errorf("%s: put right after %q the Ingress is %v with problems %v", name, lines[n-1], got, f.Problems())
			}
		}
	}
}

// TestIngressThatNeverWasWholeIsServedAsFarAsItGoes has no last good version to keep.
func TestIngressThatNeverWasWholeIsServedAsFarAsItGoes(t *testing.T) {
	f, problems := text(t, "a.yaml", strings.Replace(goodIngress, "            port:\n              number: 80\n", "", 1))
	if got := get[networkingv1.Ingress](t, f, "Ingress", "a"); len(got.Spec.Rules) != 1 || problems != "" {
		t.Errorf("the Ingress is %v with problems %s; want its rule, and what is wrong with it told when a table is built", got, problems)
	}
}

// TestKeptIngressIsToldOnceWhereAFieldIsMisplaced writes the backend where it does not belong.
func TestKeptIngressIsToldOnceWhereAFieldIsMisplaced(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), goodIngress)
	f, err := Read([]string{dir})
	must(t, err)
	write(t, filepath.Join(dir, "a.yaml"), strings.Replace(goodIngress, "backend:", "backnd:", 1))
	f.reload(atOnce)
	if all := f.Problems(); len(all) != 1 || all[0].Reason != controller.ReasonUnknownField || !strings.HasSuffix(all[0].Message, keptNote) {
		t.Errorf("told is %v, want the unknown field and that the last version is kept", all)
	}
}

func TestFolderMadeAgainIsReadAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "1"))
	l := live(t, dir)

	must(t, os.Rename(dir, dir+".old"))
	l.untilProblem("the folder cannot be read: no such file or directory; what it held stays in service")
	if l.last.values != "a=1" {
		t.Errorf("without the folder the objects are %q, want a=1", l.last.values)
	}
	write(t, filepath.Join(dir+".new", "a.yaml"), configMap("a", "2"))
	must(t, os.Rename(dir+".new", dir))
	l.until("a=2")
	if len(l.last.problems) > 0 {
		t.Errorf("problems with the folder back: %q", l.last.problems)
	}
}

func TestManyWritesEndInTheLastOne(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), configMap("a", "0"))
	l := live(t, dir)
	for i := range 1000 {
		write(t, filepath.Join(dir, "a.yaml"), configMap("a", fmt.Sprint(i)))
	}
	seen := 0
	for l.last.values != "a=999" {
		select {
		case l.last = <-l.states:
			seen++
			if !strings.HasPrefix(l.last.values, "a=") {
				t.Fatalf("while a file was written a thousand times the folder was %q", l.last.values)
			}
		case <-time.After(8 * time.Second):
			t.Fatalf("the folder is %q after a thousand writes, want a=999", l.last.values)
		}
	}
	if seen > 100 {
		t.Errorf("%d reloads for a thousand writes, want them gathered", seen)
	}
}

// An editor that truncates and then writes leaves an empty file for a moment, and an empty file is a good one. A clock
// that runs ahead keeps the file young for as long as this test needs.
func TestFileIsNotReadWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, configMap("a", "1"))
	f, err := Read([]string{dir})
	must(t, err)
	ahead := time.Now().Add(time.Hour)
	step := func(text string, want string, pending int) {
		t.Helper()
		if text != "unchanged" {
			write(t, file, text)
			ahead = ahead.Add(time.Minute)
			must(t, os.Chtimes(file, ahead, ahead))
		}
		f.reload(patient)
		if got := values(f); got != want || len(f.pending) != pending {
			t.Fatalf("after %q the folder is %q with %d files put off, want %q and %d", text, got, len(f.pending), want, pending)
		}
	}
	step("", "a=1", 1)
	step(configMap("a", "2"), "a=1", 1)
	step("unchanged", "a=2", 0)
	step("", "a=2", 1)
	step("unchanged", "", 0) // empty twice: that is meant
	write(t, filepath.Join(dir, "b.yaml"), "")
	must(t, os.Chtimes(filepath.Join(dir, "b.yaml"), ahead, ahead))
	step("unchanged", "", 1) // a new file is waited for as well
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	step("unchanged", "", 0)
}

// TestARenameWhileTheFolderIsReadLosesNothing moves a file at each moment of a reload. A listing made meanwhile may hold
// neither name of it, or both; the object must be there all the time, and once.
func TestARenameWhileTheFolderIsReadLosesNothing(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		write(t, filepath.Join(dir, fmt.Sprintf("m/%d.yaml", i)), "")
	}
	here, there := filepath.Join(dir, "a/moves.yaml"), filepath.Join(dir, "z/moves.yaml")
	write(t, there, "")
	must(t, os.Remove(there))
	write(t, here, configMap("moves", "1"))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(here, old, old))
	f, err := Read([]string{dir})
	must(t, err)
	for i := range 1000 {
		moved := make(chan error, 1)
		go func() {
			for range i % 300 * 50 {
				runtime.KeepAlive(f) // moves the moment along the reload
			}
			moved <- os.Rename(here, there)
		}()
		f.reload(patient)
		during := values(f)
		must(t, <-moved)
		f.reload(patient)
		if after := values(f); during != "moves=1" || after != "moves=1" || len(f.Problems()) > 0 {
			t.Fatalf("rename %d: the folder was %q and then %q with problems %v, want moves=1 and none", i, during, after, f.Problems())
		}
		here, there = there, here
	}
}
