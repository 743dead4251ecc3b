package feedback

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
		for _, i := range due {
			s.result(i, nil, now)
		}
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

func TestAStatusThatIsLeftInPeaceIsRestoredAtOnceAgain(t *testing.T) {
	s := &statuses{desired: entries([]string{"192.0.2.1"}), written: make(map[controller.Key]*written)}
	now := time.Now()
	for _, version := range []string{"1", "2", "3", "4", "5", "6"} {
		now = now.Add(slowestRestore)
		due, _ := s.due([]*networkingv1.Ingress{ingressShowing("u", version, "203.0.113.1")}, now)
		s.result(due[0], nil, now)
	}
	restored := []*networkingv1.Ingress{ingressShowing("u", "7", "192.0.2.1")}
	s.due(restored, now.Add(peace-1))
	if len(s.written) != 1 {
		t.Error("it is forgotten at once that somebody else wrote it")
	}
	if s.due(restored, now.Add(peace)); len(s.written) != 0 {
		t.Errorf("after %v it is not forgotten", peace)
	}
}

func TestIngressesThatAreGoneAreForgotten(t *testing.T) {
	s := &statuses{desired: entries([]string{"192.0.2.1"}), written: make(map[controller.Key]*written)}
	s.due([]*networkingv1.Ingress{ingressShowing("u", "1")}, time.Now())
	if s.due(nil, time.Now()); len(s.written) != 0 {
		t.Errorf("%d are remembered", len(s.written))
	}
}

func TestWhatCannotBeWrittenIsNotTakenForContested(t *testing.T) {
	s := &statuses{desired: entries([]string{"192.0.2.1"}), written: make(map[controller.Key]*written)}
	now, i := time.Now(), ingressShowing("u", "1")
	var waits []time.Duration
	for range 10 {
		due, _ := s.due([]*networkingv1.Ingress{i}, now)
		if len(due) != 1 {
			t.Fatalf("after waits of %v it is not due", waits)
		}
		wait := s.result(i, errors.New("a fault"), now)
		waits, now = append(waits, wait), now.Add(wait)
	}
	if waits[0] > 2*time.Second || waits[9] != slowestRetry || s.written[keyOf(i)].restored != 0 {
		t.Errorf("the waits are %v and it counts as restored %d times, want from a second to %v, and none", waits, s.written[keyOf(i)].restored, slowestRetry)
	}
}

// TestAnIngressThatHasMovedOnIsNotWritten has the Writer be late: the Ingress that it knows is another controller's by now.
func TestAnIngressThatHasMovedOnIsNotWritten(t *testing.T) {
	a := newAPIServer(t)
	known := a.showing("moved", "192.0.2.1")
	moved := a.showing("moved", "203.0.113.9")
	refused := make(chan struct{}, 100)
	a.refuseWith(func(r *http.Request) int {
		if r.Method == http.MethodPatch {
			refused <- struct{}{}
		}
		return 0
	})
	w := a.writer(t, Options{Addresses: []string{"192.0.2.7"}, NoServed: true})
	new(scene).ingress(known).ingress(a.showing("stays", "192.0.2.1")).update(w)
	stop := run(t, w)
	eventually(t, "the one that is ours is written", func() bool { return slices.Equal(a.status("stays"), []string{"192.0.2.7"}) })
	<-refused
	<-refused
	if got := a.status("moved"); !slices.Equal(got, []string{"203.0.113.9"}) {
		t.Errorf("the other controller's status is %q, want what that wrote", got)
	}
	// It is ours again, and we hear of it.
	stays := a.get(ingressPath + "a/ingresses/stays")["metadata"].(map[string]any)["resourceVersion"].(string)
	of := ingressShowing("a/stays", stays, "192.0.2.7")
	of.Name = "stays"
	new(scene).ingress(moved).ingress(of).update(w)
	eventually(t, "it is written when it is ours", func() bool { return slices.Equal(a.status("moved"), []string{"192.0.2.7"}) })
	stop()
	w.Withdraw(t.Context())
}

// TestTheStatusStaysWhileNoPodIsReady restarts the only replica behind a Service of type NodePort.
func TestTheStatusStaysWhileNoPodIsReady(t *testing.T) {
	a := newAPIServer(t)
	node := func(name, address string) {
		a.put("/api/v1/nodes/"+name, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
		})
	}
	node("node-1", "192.0.2.1")
	node("node-2", "192.0.2.2")
	var s scene
	s.snapshot.Set(nodePort())
	s.snapshot.Set(onNode("node-1", true))
	var log notebook
	w := a.writer(t, Options{Service: edge, NoServed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	shows := a.showing("web")
	s.ingress(shows).update(w)
	run(t, w)
	eventually(t, "the node is shown", func() bool { return slices.Equal(a.status("web"), []string{"192.0.2.1"}) })
	shown := a.get(ingressPath + "a/ingresses/web")["metadata"].(map[string]any)["resourceVersion"].(string)
	now := ingressShowing("a/web", shown, "192.0.2.1")
	s.served = []*networkingv1.Ingress{now}

	s.snapshot.Set(onNode("node-1", false))
	s.update(w)
	eventually(t, "the Writer has seen that nobody is ready", func() bool { return strings.Contains(log.String(), "no node is known") })
	s.snapshot.Set(onNode("node-2", true))
	s.update(w)
	eventually(t, "the other node is shown", func() bool { return slices.Equal(a.status("web"), []string{"192.0.2.2"}) })
	if n := len(a.written("PATCH " + ingressPath)); n != 2 {
		t.Errorf("the status was written %d times, want 2: nothing when nobody was ready", n)
	}
}

func TestAddressesThatCannotBeReadAreAskedForAgainSoon(t *testing.T) {
	a := newAPIServer(t)
	a.put("/api/v1/nodes/node-1", &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}})
	asked := 0
	a.refuseWith(func(r *http.Request) int {
		if strings.Contains(r.URL.Path, "/nodes/") {
			if asked++; asked == 1 {
				return http.StatusInternalServerError
			}
		}
		return 0
	})
	var s scene
	s.snapshot.Set(nodePort())
	s.snapshot.Set(onNode("node-1", true))
	w := a.writer(t, Options{Service: edge, NoServed: true})
	s.ingress(a.showing("web")).update(w)
	begun := time.Now()
	run(t, w)
	eventually(t, "the node is shown", func() bool { return slices.Equal(a.status("web"), []string{"192.0.2.1"}) })
	if took := time.Since(begun); took > 2*lookSoon {
		t.Errorf("it is shown after %v, want a try %v after the first", took, lookSoon)
	}
}
