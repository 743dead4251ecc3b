package feedback

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

// A reader takes everything from a book that is to be told, as time passes.
type reader struct {
	*book
	now time.Time
}

func newReader() *reader { return &reader{newBook(), time.Now()} }

// after is what is told by the end of some more time, as names of objects.
func (r *reader) after(d time.Duration) (names []string) {
	end := r.now.Add(d)
	for {
		n, e, wait := r.next(r.now)
		switch {
		case e != nil:
			names = append(names, n.object.Name)
			r.wasTold(n, e, r.now)
		case r.now.Add(wait).After(end):
			r.now = end
			return names
		default:
			r.now = r.now.Add(wait)
		}
	}
}

func about(name string) notice {
	return notice{object: controller.Ref{Kind: "Ingress", Namespace: "a", Name: name}, kind: "Warning", reason: "R"}
}

func (r *reader) expect(t *testing.T, what string, within time.Duration, want ...string) {
	t.Helper()
	if got := r.after(within); !slices.Equal(got, want) {
		t.Errorf("%s: told within %v is %q, want %q", what, within, got, want)
	}
}

func TestAProblemIsToldOnceAndAgainBeforeItsEventEnds(t *testing.T) {
	r := newReader()
	holds, gone := map[notice]int64{about("web"): 1}, map[notice]int64{}
	r.see(holds, r.now)
	r.expect(t, "a new problem", settle-1)
	r.expect(t, "a problem that lasts", 1, "web")
	r.see(holds, r.now)
	r.expect(t, "a problem that is told", tellAgain-1)
	r.expect(t, "a problem whose Event may end soon", time.Second, "web")

	r.see(map[notice]int64{about("web"): 2}, r.now)
	r.expect(t, "a problem that outlives a change of its object", repeatAfter, "web")
	r.see(gone, r.now)
	r.expect(t, "a problem that is solved", 2*tellAgain)
	r.see(holds, r.now)
	r.expect(t, "a problem that is back", settle, "web")
}

func TestAProblemThatComesAndGoesIsNotToldEachTime(t *testing.T) {
	r := newReader()
	holds, gone := map[notice]int64{about("web"): 0}, map[notice]int64{}
	var told []string
	for range 60 { // a minute
		r.see(holds, r.now)
		told = append(told, r.after(settle+time.Millisecond)...)
		r.see(gone, r.now)
		told = append(told, r.after(time.Second-settle-time.Millisecond)...)
	}
	if len(told) < 2 || len(told) > 7 {
		t.Errorf("in a minute it is told %d times, want about one in %v", len(told), repeatAfter)
	}
	r.after(keptFor)
	r.see(gone, r.now)
	if len(r.entries) != 0 {
		t.Errorf("an hour after the last sighting %d notices are remembered", len(r.entries))
	}
}

func TestOnlyNewIngressesAreToldThatTheyAreServed(t *testing.T) {
	r := newReader()
	made := func(name string, age time.Duration) *networkingv1.Ingress {
		i := named("a", name)
		i.CreationTimestamp = metav1.NewTime(r.now.Add(-age))
		return i
	}
	old, young, found, brief := made("old", 48*time.Hour), made("young", time.Minute), made("found", 48*time.Hour), made("brief", 0)
	serve := func(all ...*networkingv1.Ingress) {
		r.seeServed(all, r.now)
		r.see(nil, r.now)
	}
	serve(old, young)
	r.expect(t, "at first, the one that nobody can have told before", time.Hour, "young")
	serve(old, young, found)
	r.expect(t, "then the one that was not served before", time.Hour, "found")
	serve(old, young, found, brief)
	serve(old, young)
	r.expect(t, "those that are served no longer", time.Hour)
	if len(r.entries) != 0 {
		t.Errorf("%d notices are remembered, want none: the Ingresses are", len(r.entries))
	}
}

func TestNewMistakesComeFirstAndNamespacesTakeTurns(t *testing.T) {
	r := newReader()
	in := func(namespace, name string) notice {
		n := about(name)
		n.object.Namespace = namespace
		return n
	}
	r.see(map[notice]int64{about("told"): 0}, r.now)
	r.after(settle)
	r.begun = false
	r.see(map[notice]int64{about("told"): 0, about("inherited"): 0}, r.now)
	r.now = r.now.Add(tellAgain)
	r.seeServed([]*networkingv1.Ingress{named("a", "served")}, r.now)
	r.see(map[notice]int64{about("told"): 0, about("inherited"): 0, in("b", "1"): 0, in("b", "2"): 0, in("b", "3"): 0, in("c", "4"): 0}, r.now)
	// What was due before waits for what is due now, because nobody asked meanwhile.
	r.now = r.now.Add(settle)
	got := r.after(0)
	turn := slices.Index(got, "4")
	if len(got) != 7 || turn > 1 || !slices.Equal(got[4:], []string{"inherited", "served", "told"}) {
		t.Errorf("told are %q, want four new ones, that of namespace c among the first two, then what can wait", got)
	}
}

func TestWhatFailsIsTriedLessAndLessOften(t *testing.T) {
	r := newReader()
	r.see(map[notice]int64{about("web"): 0}, r.now)
	r.now = r.now.Add(settle)
	var waits []time.Duration
	for range 12 {
		n, e, _ := r.next(r.now)
		if e == nil {
			t.Fatalf("after waits of %v nothing is due", waits)
		}
		if len(waits)%2 == 0 {
			r.postpone(e, r.now)
		} else {
			r.close(n.namespace(), r.now)
		}
		wait := time.Duration(0)
		for {
			_, e, more := r.next(r.now.Add(wait))
			if e != nil {
				break
			}
			wait += more
		}
		waits = append(waits, wait)
		r.now = r.now.Add(wait)
	}
	if waits[0] != firstBackoff || waits[1] != firstBackoff || waits[11] <= waits[1] || slices.Max(waits) > longestBackoff {
		t.Errorf("the waits are %v", waits)
	}
}
