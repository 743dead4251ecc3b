package feedback

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sallyport/controller"
)

func ingressShowing(uid, version string, addresses ...string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: types.UID(uid), ResourceVersion: version}}
	i.Status.LoadBalancer.Ingress = entries(addresses)
	return i
}

func TestStatusIsWrittenOnceAndRestoredMoreAndMoreSlowly(t *testing.T) {
	s := &statuses{desired: entries([]string{"192.0.2.1"}), written: make(map[controller.Key]*written)}
	now := time.Now()
	isDue := func(i *networkingv1.Ingress) bool {
		due, _ := s.due([]*networkingv1.Ingress{i}, now)
		return len(due) == 1
	}
	if isDue(ingressShowing("u", "1", "192.0.2.1")) {
		t.Error("an Ingress that shows what it is to show is written")
	}
	if !isDue(ingressShowing("u", "1")) {
		t.Error("an Ingress that shows nothing is not written")
	}
	if isDue(ingressShowing("u", "1")) {
		t.Error("an Ingress is written twice although nothing has been seen of it since")
	}
	for _, version := range []string{"2", "3"} {
		if !isDue(ingressShowing("u", version, "203.0.113.1")) {
			t.Errorf("version %s is not restored at once", version)
		}
	}
	if !isDue(ingressShowing("u", "4", "203.0.113.1")) {
		t.Error("version 4 is not restored at once")
	}
	before := now
	waits := []time.Duration{}
	for version := range []int{5, 6, 7} {
		i := ingressShowing("u", string(rune('a'+version)), "203.0.113.1")
		due, wait := s.due([]*networkingv1.Ingress{i}, now)
		if len(due) != 0 {
			t.Fatalf("after %v it is written again at once", now.Sub(before))
		}
		waits = append(waits, wait)
		now = now.Add(wait)
		if !isDue(i) {
			t.Fatalf("it is not written when the wait of %v is over", wait)
		}
	}
	if waits[0] >= waits[1] || waits[1] >= waits[2] {
		t.Errorf("the waits are %v, want them to grow", waits)
	}
	if !isDue(ingressShowing("another", "9")) {
		t.Error("another Ingress of that name inherits the waits of the first")
	}
}

func TestAnIngressThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	s := &statuses{desired: entries([]string{"192.0.2.1"}), written: make(map[controller.Key]*written)}
	i := ingressShowing("u", "1")
	i.DeletionTimestamp = new(metav1.Now())
	if due, _ := s.due([]*networkingv1.Ingress{i}, time.Now()); len(due) != 0 {
		t.Error("it is written")
	}
}
