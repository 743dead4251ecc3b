package feedback

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (a *apiServer) holder() string {
	spec, _ := a.get(leasePath)["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// TestWorkEndsBeforeTheLeaseDoes freezes the API server: it takes requests and says nothing. Whoever waits for the Lease may have
// it once it has ended, so what its holder does must have ended before.
func TestWorkEndsBeforeTheLeaseDoes(t *testing.T) {
	a := newAPIServer(t)
	w := a.writer(t, Options{Lease: "sallyport-leader", LeaseDuration: shortestLease})
	var renewed atomic.Int64 // the time at which the last renewal was answered
	thaw := make(chan struct{})
	defer close(thaw)
	var frozen atomic.Bool
	a.refuseWith(func(r *http.Request) int {
		if frozen.Load() {
			select {
			case <-thaw:
			case <-r.Context().Done():
			}
			return http.StatusServiceUnavailable
		}
		if r.Method != http.MethodGet {
			renewed.Store(time.Now().UnixNano())
		}
		return 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan time.Time, 1)
	var done sync.WaitGroup
	done.Go(func() {
		w.lead(ctx, func(ctx context.Context) {
			frozen.Store(true)
			<-ctx.Done()
			select {
			case worked <- time.Now():
			default:
			}
		})
	})
	defer done.Wait()
	defer cancel()
	select {
	case ended := <-worked:
		if after := ended.Sub(time.Unix(0, renewed.Load())); after >= shortestLease {
			t.Errorf("the work ended %v after the Lease was renewed last, want less than the %v for which it is ours", after, shortestLease)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the work goes on without a Lease")
	}
}

// TestALeaseThatMayBeAnothersIsNotGivenBack has another replica take the Lease while the API server answers this one nothing.
func TestALeaseThatMayBeAnothersIsNotGivenBack(t *testing.T) {
	a := newAPIServer(t)
	w := a.writer(t, Options{Lease: "sallyport-leader", LeaseDuration: shortestLease})
	var frozen atomic.Bool
	asked := make(chan struct{}, 1000)
	a.refuseWith(func(*http.Request) int {
		if frozen.Load() {
			asked <- struct{}{}
			return http.StatusInternalServerError
		}
		return 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	terms := 0
	done.Go(func() {
		w.lead(ctx, func(ctx context.Context) {
			if terms++; terms > 1 {
				return
			}
			frozen.Store(true)
			<-ctx.Done()
			a.put(leasePath, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "sallyport", Name: "sallyport-leader"},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: new("replica-2"), LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NowMicro()), AcquireTime: new(metav1.NowMicro()),
				},
			})
			frozen.Store(false)
		})
	})
	eventually(t, "the other replica has the Lease", func() bool { return a.holder() == "replica-2" })
	before := len(a.written("PUT"))
	read := make(chan struct{}, 1000)
	a.refuseWith(func(*http.Request) int {
		read <- struct{}{}
		return 0
	})
	for range 5 { // whoever waits for a Lease looks at it again and again
		<-read
	}
	if holder := a.holder(); holder != "replica-2" || len(a.written("PUT")) != before {
		t.Errorf("the Lease is %q's, and was written %d times by who had it before", holder, len(a.written("PUT"))-before)
	}
}

// TestTheLastReplicaTriesAgain has an API server with a fault just when the last replica leaves.
func TestTheLastReplicaTriesAgain(t *testing.T) {
	a := newAPIServer(t)
	var log notebook
	w := a.writer(t, Options{
		Lease: "sallyport-leader", LeaseDuration: shortestLease, Addresses: []string{"192.0.2.1"}, NoServed: true,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var s scene
	for _, name := range []string{"one", "two", "three"} {
		s.ingress(a.showing(name, "192.0.2.1"))
	}
	s.update(w)
	stop := run(t, w)
	eventually(t, "it is known what is published", func() bool { return w.isShown() != nil })
	var failures sync.Map
	a.refuseWith(func(r *http.Request) int { // each once
		if _, again := failures.LoadOrStore(r.Method+r.URL.Path, true); again || r.Method == http.MethodGet {
			return 0
		}
		return http.StatusInternalServerError
	})
	stop()
	w.Withdraw(t.Context())
	for _, name := range []string{"one", "two", "three"} {
		if got := a.status(name); len(got) != 0 {
			t.Errorf("the last replica has left, and Ingress %s still shows %q", name, got)
		}
	}
	if holder := a.holder(); holder != "" {
		t.Errorf("the Lease is %q's still", holder)
	}
	if !strings.Contains(log.String(), "addresses are taken out of the status of Ingresses\" ingresses=3") {
		t.Errorf("the log does not say that it were three:\n%s", log.String())
	}
}

func TestTheLastReplicaTellsWhatItCouldNotTakeAway(t *testing.T) {
	a := newAPIServer(t)
	var log notebook
	w := a.writer(t, Options{Addresses: []string{"192.0.2.1"}, NoServed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	new(scene).ingress(a.showing("good", "192.0.2.1")).ingress(a.showing("bad", "192.0.2.1")).update(w)
	stop := run(t, w)
	eventually(t, "it is known what is published", func() bool { return w.isShown() != nil })
	a.refuseWith(func(r *http.Request) int {
		if strings.Contains(r.URL.Path, "/bad/") {
			return http.StatusInternalServerError
		}
		return 0
	})
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	w.Withdraw(ctx)
	if len(a.status("good")) != 0 || len(a.status("bad")) != 1 || !strings.Contains(log.String(), `ingresses=1 "taken out"=1`) {
		t.Errorf("shown is %q and %q, want the second only; the log is\n%s", a.status("good"), a.status("bad"), log.String())
	}
}

// TestTheLastReplicaTakesAwayWhatOthersPublished has a replica that led too short a time to find out what is published, or while
// that was not known.
func TestTheLastReplicaTakesAwayWhatOthersPublished(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		shown   [2]string
		want    int // that still show it
	}{
		{"it knows the addresses", Options{Addresses: []string{"192.0.2.1"}}, [2]string{"192.0.2.1", "203.0.113.9"}, 1},
		{"its nodes are not known, and all show the same", Options{Service: edge}, [2]string{"192.0.2.1", "192.0.2.1"}, 0},
		{"its nodes are not known, and they differ", Options{Service: edge}, [2]string{"192.0.2.1", "192.0.2.2"}, 2},
		{"nothing says what is published", Options{}, [2]string{"192.0.2.1", "192.0.2.1"}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPIServer(t)
			w := a.writer(t, test.options)
			var s scene
			if test.options.Service == edge {
				s.snapshot.Set(nodePort())
			}
			s.ingress(a.showing("one", test.shown[0])).ingress(a.showing("two", test.shown[1])).update(w)
			w.leave()
			w.Withdraw(t.Context())
			if n := len(a.status("one")) + len(a.status("two")); n != test.want {
				t.Errorf("%d Ingresses show addresses still, want %d", n, test.want)
			}
		})
	}
}
