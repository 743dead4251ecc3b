package feedback

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"sallyport/controller"
)

func TestAnEventHasANameAndANoteTheAPIServerTakes(t *testing.T) {
	long := strings.Repeat("a", 253)
	n := notice{object: controller.Ref{Kind: "Ingress", Namespace: "a", Name: long}, uid: "u", reason: "R", note: shorten(strings.Repeat("é", 2000))}
	event := n.event(long)
	if len(event.Note) > 1024 || !utf8.ValidString(event.Note) || !strings.HasSuffix(event.Note, "é…") {
		t.Errorf("the note has %d bytes and ends with %q", len(event.Note), event.Note[len(event.Note)-8:])
	}
	if len(event.ReportingInstance) > 128 {
		t.Errorf("the instance has %d bytes", len(event.ReportingInstance))
	}
	// Wherever the name is cut, it may be within a row of dashes or behind a dot.
	for i := range 20 {
		for _, middle := range []string{"-", "--", ".", "a.b"} {
			n.object.Name = strings.Repeat("a", 226+i) + middle + strings.Repeat("b", 24-i)
			if problems := validation.IsDNS1123Subdomain(n.name()); len(problems) > 0 {
				t.Errorf("of object %q the name is %q: %q", n.object.Name, n.name(), problems)
			}
		}
	}
	class := notice{object: controller.Ref{Kind: "IngressClass", Name: "c"}}
	if event := class.event("x"); event.Namespace != "default" || event.Regarding.APIVersion != "networking.k8s.io/v1" {
		t.Errorf("an Event on an IngressClass is in namespace %q, on %v", event.Namespace, event.Regarding)
	}
}

func TestEventsAreOneWhenTheySayTheSame(t *testing.T) {
	one := notice{object: controller.Ref{Kind: "Ingress", Namespace: "a", Name: "web"}, uid: "u", reason: "R", field: "f", note: "f: n"}
	for what, change := range map[string]func(*notice){
		"object": func(n *notice) { n.uid = "v" },
		"reason": func(n *notice) { n.reason = "S" },
		"field":  func(n *notice) { n.field = "g" },
		"words":  func(n *notice) { n.note = "f: m" },
	} {
		other := one
		if change(&other); other.name() == one.name() {
			t.Errorf("Events with another %s have one name", what)
		}
	}
	before, after := named("a", "web"), named("a", "web")
	before.Spec.Rules = append(before.Spec.Rules, ruleOf("a.test"))
	if one, two := servedNotice(before), servedNotice(after); one.name() != two.name() {
		t.Error("an Ingress that is served with other hosts later is first served twice")
	}
}

// TestANoticeThatCannotBeToldDelaysNoOther has an API server that takes no Event in one namespace, finds one invalid and has
// a fault with another.
func TestANoticeThatCannotBeToldDelaysNoOther(t *testing.T) {
	a := newAPIServer(t)
	counts := make(chan string, 10_000)
	faulty := true
	a.refuseWith(func(r *http.Request) int {
		if r.Method != http.MethodPost {
			return 0
		}
		counts <- r.URL.Path
		switch {
		case strings.Contains(r.URL.Path, "/closed/"):
			return http.StatusForbidden
		case strings.Contains(r.URL.Path, "/strange/"):
			return http.StatusUnprocessableEntity
		case strings.Contains(r.URL.Path, "/faulty/") && faulty:
			faulty = false
			return http.StatusInternalServerError
		}
		return 0
	})
	w := a.writer(t, Options{NoStatus: true})
	var s scene
	for i := range 20 {
		s.mistake("closed", fmt.Sprint("closed-", i)).mistake("good", fmt.Sprint("good-", i))
	}
	s.mistake("strange", "strange").mistake("faulty", "faulty")
	s.update(w)
	stop := run(t, w)
	for i := range 20 {
		eventually(t, "every good namespace has its Events", func() bool { return len(a.eventsOn(fmt.Sprint("good-", i))) == 1 })
	}
	eventually(t, "what failed once is told", func() bool { return len(a.eventsOn("faulty")) == 1 })
	stop()
	asked := make(map[string]int)
	for range len(counts) {
		asked[strings.Split(<-counts, "/")[5]]++
	}
	if asked["closed"] > 3 || asked["strange"] != 1 || asked["faulty"] != 2 || asked["good"] != 20 {
		t.Errorf("Events were tried %v times, want 20 good, 2 faulty, 1 strange, which cannot get better, and closed now and then", asked)
	}
}

// TestWhatIsNewIsToldFirst has a thousand Ingresses that are to be told that they are served, and hundreds of mistakes of one
// namespace, when one more mistake comes up.
func TestWhatIsNewIsToldFirst(t *testing.T) {
	a := newAPIServer(t)
	w := a.writer(t, Options{NoStatus: true})
	var s scene
	for i := range 1000 {
		s.ingress(named("many", fmt.Sprint("served-", i)))
	}
	for i := range 300 {
		s.mistake("noisy", fmt.Sprint("noisy-", i))
	}
	s.update(w)
	run(t, w)
	eventually(t, "the writer is busy", func() bool { return len(a.written("POST "+eventPath)) > eventBurst })
	s.mistake("quiet", "late").update(w)
	came := time.Now()
	eventually(t, "the new mistake is told", func() bool { return len(a.eventsOn("late")) == 1 })
	if took := time.Since(came); took > time.Second {
		t.Errorf("it is told after %v, want within a second", took)
	}
	if n := len(a.written("POST " + eventPath)); n > 1000 {
		t.Errorf("by then %d Events are written: nothing waited", n)
	}
}

// TestAMistakeOfOneNamespaceDoesNotWaitForThoseOfAnother has both come up at once.
func TestAMistakeOfOneNamespaceDoesNotWaitForThoseOfAnother(t *testing.T) {
	a := newAPIServer(t)
	w := a.writer(t, Options{NoStatus: true})
	var s scene
	for i := range 300 {
		s.mistake("noisy", fmt.Sprint("noisy-", i))
	}
	s.mistake("quiet", "one").mistake("quiet", "two").update(w)
	run(t, w)
	eventually(t, "the quiet namespace is told", func() bool { return len(a.eventsOn("one"))+len(a.eventsOn("two")) == 2 })
	for i, write := range a.written("POST ") {
		if strings.Contains(write, "/quiet/") && i > 3 {
			t.Errorf("the quiet namespace's Events are written with number %d too, behind the noisy one's; want them among the first four", i+1)
		}
	}
}

func TestAMistakeThatPassesIsNotTold(t *testing.T) {
	a := newAPIServer(t)
	w := a.writer(t, Options{NoStatus: true})
	run(t, w)
	new(scene).mistake("a", "passing").update(w)
	<-time.After(settle / 4)
	new(scene).mistake("a", "lasting").update(w)
	eventually(t, "the mistake that lasts is told", func() bool { return len(a.eventsOn("lasting")) == 1 })
	if n := len(a.eventsOn("passing")); n != 0 {
		t.Errorf("of a mistake that lasted %v there are %d Events, want none", settle/4, n)
	}
}

// TestAnotherReplicaCountsASighting has two replicas tell the same, one after the other.
func TestAnotherReplicaCountsASighting(t *testing.T) {
	a := newAPIServer(t)
	var s scene
	s.mistake("a", "web")
	for _, name := range []string{"replica-1", "replica-2"} {
		w := a.writer(t, Options{NoStatus: true, Identity: name})
		before := len(a.written(""))
		s.update(w)
		stop := run(t, w)
		eventually(t, name+" has written", func() bool { return len(a.written("")) > before })
		stop()
	}
	events := a.eventsOn("web")
	if len(events) != 1 {
		t.Fatalf("there are %d Events, want one", len(events))
	}
	series, _ := events[0]["series"].(map[string]any)
	if series["count"] != 2.0 || events[0]["reportingInstance"] != "replica-1" {
		t.Errorf("the Event is %v, want the first replica's with two sightings", events[0])
	}
}
