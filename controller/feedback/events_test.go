package feedback

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"sallyport/controller"
)

func newTold() *told {
	return &told{notices: make(map[notice]sighting), owed: make(map[notice]types.UID)}
}

func TestAProblemIsToldOncePerGenerationAndAgainBeforeItsEventEnds(t *testing.T) {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "u", Generation: 1}}
	problem := controller.Problem{Object: controller.Ref{Kind: "Ingress", Namespace: "a", Name: "web"}, Reason: "R", Field: "spec", Message: "m"}
	state := func() map[notice]struct{} {
		var s controller.Snapshot
		s.Set(ingress)
		return noticesOf(&s, []controller.Problem{problem})
	}
	told, now := newTold(), time.Now()
	tell := func() int {
		pending := told.pending(state(), now)
		for _, n := range pending {
			told.notices[n] = sighting{now, 1}
		}
		return len(pending)
	}
	if n := tell(); n != 1 {
		t.Errorf("%d things to tell of a new problem, want 1", n)
	}
	problem.Line = 7
	if n := tell(); n != 0 {
		t.Errorf("%d things to tell of the same problem, want none", n)
	}
	edited := ingress.DeepCopy()
	edited.Generation = 2
	ingress = edited
	if n := tell(); n != 1 {
		t.Errorf("%d things to tell when the object was edited and the problem is there still, want 1", n)
	}
	now = now.Add(keptFor)
	if n := tell(); n != 1 {
		t.Errorf("%d things to tell when the Event may have ended, want 1", n)
	}
	problem.Object.Name = "gone"
	if n := tell(); n != 0 {
		t.Errorf("%d things to tell of an object that does not exist, want none", n)
	}
	problem.Object.Name = "web"
	if n := tell(); n != 1 {
		t.Errorf("%d things to tell of a problem that came back, want 1", n)
	}
}

func TestOnlyNewIngressesAreToldThatTheyAreServed(t *testing.T) {
	now := time.Now()
	made := func(name string, age time.Duration) *networkingv1.Ingress {
		return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-age)),
		}}
	}
	old, young, found := made("old", 48*time.Hour), made("young", time.Minute), made("found", 48*time.Hour)
	told := newTold()
	owed := func(served ...*networkingv1.Ingress) string {
		told.noteServed(served, now)
		var names []string
		for n := range told.owed {
			names = append(names, n.object.Name)
		}
		return strings.Join(names, " ")
	}
	if got := owed(old, young); got != "young" {
		t.Errorf("at first %q are told, want the one that nobody can have told before", got)
	}
	clear(told.owed)
	if got := owed(old, young, found); got != "found" {
		t.Errorf("then %q are told, want the one that was not served before", got)
	}
	if got := owed(old, young); got != "" {
		t.Errorf("%q is told although it is served no longer", got)
	}
}

func TestAnEventHasANameAndANoteTheAPIServerTakes(t *testing.T) {
	long := strings.Repeat("a", 253)
	n := notice{object: controller.Ref{Kind: "Ingress", Namespace: "a", Name: long}, uid: "u", reason: "R", note: shorten(strings.Repeat("é", 2000))}
	event := n.event(long)
	if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 {
		t.Errorf("the name %q: %q", event.Name, problems)
	}
	if len(event.Note) > 1024 || !utf8.ValidString(event.Note) || !strings.HasSuffix(event.Note, "é…") {
		t.Errorf("the note has %d bytes and ends with %q", len(event.Note), event.Note[len(event.Note)-8:])
	}
	if len(event.ReportingInstance) > 128 {
		t.Errorf("the instance has %d bytes", len(event.ReportingInstance))
	}
	other := n
	other.generation++
	if other.name() == n.name() {
		t.Error("Events of two generations have one name")
	}
	class := notice{object: controller.Ref{Kind: "IngressClass", Name: "c"}}
	if event := class.event("x"); event.Namespace != "default" || event.Regarding.APIVersion != "networking.k8s.io/v1" {
		t.Errorf("an Event on an IngressClass is in namespace %q, on %v", event.Namespace, event.Regarding)
	}
}
