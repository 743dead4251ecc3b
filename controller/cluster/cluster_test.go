package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/controller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A seen is what a source handed over, each time: the Ingresses of the snapshot, and the Secrets that those name, with their
// "version" label.
type seen struct {
	t          *testing.T
	news       chan handed
	last       map[string]string
	lastFields map[string]string // the ingressClassName of Ingresses that have one
	calls      int
}

// handed is one snapshot: versions, and class fields, by name.
type handed struct{ versions, fields map[string]string }

// start runs a source against a until the test ends.
func start(t *testing.T, a *apiServer, o Options) (*Source, *seen) {
	t.Helper()
	s := newSource(t, a, o)
	return s, run(t, s)
}

func newSource(t *testing.T, a *apiServer, o Options) *Source {
	t.Helper()
	o.Kubeconfig = a.kubeconfig(t)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, s *Source) *seen {
	v := &seen{t: t, news: make(chan handed, 10_000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(snapshot *controller.Snapshot) {
			now, fields := make(map[string]string), make(map[string]string)
			for i := range snapshot.Ingresses() {
				now[i.Namespace+"/"+i.Name] = i.Labels["version"]
				if class := i.Spec.IngressClassName; class != nil {
					fields[i.Namespace+"/"+i.Name] = *class
				}
				for _, ref := range namedBy(i) {
					if secret := snapshot.Secret(controller.Key{Namespace: ref.Namespace, Name: ref.Name}); secret != nil {
						now[ref.String()] = secret.Labels["version"]
					}
				}
			}
			v.news <- handed{now, fields}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return v
}

// until waits for a snapshot with these Ingresses and Secrets, written "namespace/name=version" and
// "Secret namespace/name=version".
func (v *seen) until(want ...string) {
	v.t.Helper()
	slices.Sort(want)
	deadline := time.After(20 * time.Second)
	for {
		select {
		case now := <-v.news:
			v.take(now)
		case <-deadline:
			v.t.Fatalf("the last of %d snapshots has %v, want %v", v.calls, v.last, want)
		}
		var got []string
		for name, version := range v.last {
			got = append(got, name+"="+version)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
}

func (v *seen) take(now handed) {
	v.last, v.lastFields = now.versions, now.fields
	v.calls++
}

// next waits for one more snapshot.
func (v *seen) next() {
	v.t.Helper()
	select {
	case now := <-v.news:
		v.take(now)
	case <-time.After(20 * time.Second):
		v.t.Fatalf("no snapshot after the %d", v.calls)
	}
}

func ingress(namespace, name, version string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"version": version}}}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestChangesArrive(t *testing.T) {
	a := newAPIServer(t)
	a.put(ingress("x", "a", "1"))
	_, v := start(t, a, Options{})
	v.until("x/a=1")
	a.put(ingress("x", "a", "2"), ingress("y", "b", "1"))
	v.until("x/a=2", "y/b=1")
	a.remove(ingress("x", "a", "2"))
	v.until("y/b=1")
}

func TestClassArrivesLater(t *testing.T) {
	a := newAPIServer(t)
	s, v := start(t, a, Options{})
	v.until()
	a.put(&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	v.until()
	if s.snapshot.IngressClass("c") == nil {
		t.Error("the snapshot after the class was made is without it")
	}
}

func TestEveryKindArrives(t *testing.T) {
	a := newAPIServer(t)
	meta := metav1.ObjectMeta{Namespace: "x", Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "kept": "1"}}
	labelled := meta
	labelled.Labels = map[string]string{discoveryv1.LabelServiceName: "n"}
	a.put(&corev1.Service{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS},
		&discoveryv1.EndpointSlice{ObjectMeta: labelled, AddressType: "IPv4"}, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	s, v := start(t, a, Options{})
	v.until()
	key := controller.Key{Namespace: "x", Name: "n"}
	service, secret, slices := s.snapshot.Service(key), s.snapshot.Secret(key), s.snapshot.Slices(key)
	if service == nil || secret == nil || len(slices) != 1 || s.snapshot.IngressClass("c") == nil {
		t.Fatalf("Service %v, Secret %v, slices %v, class %v: one is missing", service, secret, slices, s.snapshot.IngressClass("c"))
	}
	if service.ManagedFields != nil || len(service.Annotations) != 1 {
		t.Errorf("what is only history is held: %v %v", service.ManagedFields, service.Annotations)
	}
	if !s.Synced() {
		t.Error("everything was read, and Synced is false")
	}
	for line := range strings.Lines(a.requests()) {
		if strings.Contains(line, "/secrets?") && !strings.Contains(line, "fieldSelector=type%3Dkubernetes.io%2Ftls") {
			t.Errorf("Secrets of every type are asked for: %s", line)
		}
		if strings.Contains(line, "/endpoints") && !strings.Contains(line, "/endpointslices") {
			t.Errorf("v1 Endpoints are asked for: %s", line)
		}
	}
}

func TestOfEndpointSlicesOnlyIsHeldWhatSomebodyAsksFor(t *testing.T) {
	a := newAPIServer(t)
	a.put(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}, Generation: 3,
			GenerateName: "web-", OwnerReferences: []metav1.OwnerReference{{Name: "web"}}, Annotations: map[string]string{"when": "now"},
		},
		AddressType: "IPv4",
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, NodeName: new("node-1"),
			Hostname: new("h"), Zone: new("z"), TargetRef: &corev1.ObjectReference{Name: "pod"},
			Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}}, DeprecatedTopology: map[string]string{"a": "b"},
		}},
	})
	s, v := start(t, a, Options{})
	v.until()
	held := s.snapshot.Slices(controller.Key{Namespace: "x", Name: "web"})
	if len(held) != 1 {
		t.Fatalf("held are %d slices, want one", len(held))
	}
	want := discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, NodeName: new("node-1")}
	if got := held[0].Endpoints[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("the endpoint is held as %+v, want %+v", got, want)
	}
	if m := held[0].ObjectMeta; m.Generation != 3 || m.GenerateName != "" || m.OwnerReferences != nil || m.Annotations != nil {
		t.Errorf("the slice is held with %+v", m)
	}
}

func TestHintsAndTheOwnZoneAreReadWhereTheyAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		options   Options
		forbidden string
		hints     int
		zone      string
	}{
		{Options{}, "", 0, ""},
		{Options{Hints: true}, "", 1, ""},
		{Options{Hints: true, Node: "n"}, "", 1, "zone-of-n"},
		{Options{Hints: true, Node: "n"}, "nodes/n", 1, ""}, // and everything is served without it
	} {
		a := newAPIServer(t)
		if c.forbidden != "" {
			a.forbid(c.forbidden)
		}
		a.put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "x", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: "IPv4",
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Zone: new("z"), Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}}}},
		})
		s, v := start(t, a, c.options)
		v.until()
		e := s.snapshot.Slices(controller.Key{Namespace: "x", Name: "web"})[0].Endpoints[0]
		if e.Hints == nil != (c.hints == 0) || e.Zone != nil {
			t.Errorf("%+v: the endpoint is held with the hints %v and the zone %v", c.options, e.Hints, e.Zone)
		}
		if got := s.snapshot.Zone(); got != c.zone {
			t.Errorf("%+v, forbidden %q: the zone is %q, want %q", c.options, c.forbidden, got, c.zone)
		}
	}
}

func TestNudgeHandsOverTheSameOnceMore(t *testing.T) {
	a := newAPIServer(t)
	a.put(ingress("x", "a", "1"))
	s, v := start(t, a, Options{})
	v.until("x/a=1")
	before := v.calls
	s.Nudge()
	v.next()
	if v.calls != before+1 || v.last["x/a"] != "1" {
		t.Errorf("after the nudge there were %d calls, the last with %v", v.calls-before, v.last)
	}
}

// TestBurstIsOneChange makes a thousand changes as fast as it can: all arrive, in far fewer snapshots.
func TestBurstIsOneChange(t *testing.T) {
	a := newAPIServer(t)
	_, v := start(t, a, Options{})
	v.until()
	before, began := v.calls, time.Now()
	var want []string
	for i := range 1000 {
		a.put(ingress("x", fmt.Sprint(i%10), fmt.Sprint(i)))
		if i >= 990 {
			want = append(want, fmt.Sprintf("x/%d=%d", i%10, i))
		}
	}
	v.until(want...)
	if most := 2 + int(time.Since(began)/quiet); v.calls-before > most {
		t.Errorf("1,000 events made %d snapshots, want at most %d, one each %v", v.calls-before, most, quiet)
	}
}

// TestForgottenHistoryIsReadAnew also holds that what is read again, and is the same, is no change: the same pointer.
func TestForgottenHistoryIsReadAnew(t *testing.T) {
	a := newAPIServer(t)
	a.put(ingress("x", "a", "1"), ingress("x", "b", "1"), ingress("x", "c", "1"))
	s, v := start(t, a, Options{})
	v.until("x/a=1", "x/b=1", "x/c=1")
	before := s.snapshot.Ingress(controller.Key{Namespace: "x", Name: "c"})
	a.put(ingress("x", "b", "2")) // a watch that ends before it told anything would not be resumed
	v.until("x/a=1", "x/b=2", "x/c=1")
	a.lose(func() {
		a.remove(ingress("x", "a", "1"))
		a.put(ingress("x", "b", "3"))
	})
	v.until("x/b=3", "x/c=1")
	if a.timesGone() == 0 {
		t.Errorf("no watch was answered that its history is gone:\n%s", a.requests())
	}
	if s.snapshot.Ingress(controller.Key{Namespace: "x", Name: "c"}) != before {
		t.Error("an Ingress that did not change is another object than before")
	}
}

func TestServerThatIsAwayChangesNothing(t *testing.T) {
	a := newAPIServer(t)
	a.put(ingress("x", "a", "1"))
	s, v := start(t, a, Options{})
	v.until("x/a=1")
	a.leave()
	<-a.knocks // it is asked again, in vain
	if len(v.news) > 0 || !s.Synced() {
		t.Errorf("the server went away: %d new snapshots, synced %t", len(v.news), s.Synced())
	}
	before := v.calls
	a.put(ingress("x", "a", "2"))
	a.comeBack()
	v.until("x/a=2")
	if v.calls != before+1 {
		t.Errorf("one change while the server was away made %d snapshots", v.calls-before)
	}
}

func TestSourceWaitsForServer(t *testing.T) {
	a := newAPIServer(t)
	a.put(ingress("x", "a", "1"))
	a.leave()
	s, v := start(t, a, Options{})
	<-a.knocks
	if len(v.news) > 0 || s.Synced() {
		t.Errorf("nothing was read: %d snapshots, synced %t", len(v.news), s.Synced())
	}
	a.comeBack()
	v.until("x/a=1")
	if v.calls != 1 {
		t.Errorf("the first complete snapshot is number %d", v.calls)
	}
}

func TestNamedNamespacesAreAllThatIsRead(t *testing.T) {
	a := newAPIServer(t)
	a.put(ingress("x", "a", "1"), ingress("y", "a", "1"), ingress("z", "a", "1"))
	_, v := start(t, a, Options{Namespaces: []string{"x", "z"}})
	v.until("x/a=1", "z/a=1")
	if strings.Contains(a.requests(), "/v1/ingresses") {
		t.Errorf("the Ingresses of all namespaces are asked for:\n%s", a.requests())
	}
}

func TestSelectedNamespacesFollowTheirLabels(t *testing.T) {
	a := newAPIServer(t)
	web := map[string]string{"team": "web"}
	a.put(namespace("x", web), namespace("y", nil), ingress("x", "a", "1"), ingress("y", "a", "1"), ingress("y", "b", "1"))
	_, v := start(t, a, Options{NamespaceSelector: labels.SelectorFromSet(web)})
	v.until("x/a=1")
	a.put(namespace("y", web))
	v.until("x/a=1", "y/a=1", "y/b=1")
	a.put(namespace("x", nil), ingress("y", "a", "2"))
	v.until("y/a=2", "y/b=1")
	a.remove(ingress("y", "b", "1"))
	v.until("y/a=2")
	a.put(ingress("x", "a", "2"), namespace("x", web))
	v.until("x/a=2", "y/a=2")
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.Buffer.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func TestMissingPermissionIsNamed(t *testing.T) {
	a := newAPIServer(t)
	a.forbidden = "endpointslices"
	log := &lines{more: make(chan struct{}, 1)}
	s, v := start(t, a, Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	deadline := time.After(20 * time.Second)
	for {
		text := log.text()
		if strings.Contains(text, "permission is missing") && strings.Contains(text, `cannot list resource \"endpointslices\"`) {
			break
		}
		select {
		case <-log.more:
		case <-deadline:
			t.Fatalf("no word of the missing permission in\n%s", text)
		}
	}
	if len(v.news) > 0 || s.Synced() {
		t.Errorf("a kind could not be read: %d snapshots, synced %t", len(v.news), s.Synced())
	}
}

func TestOptionsExclude(t *testing.T) {
	_, err := New(Options{Namespaces: []string{"x"}, NamespaceSelector: labels.SelectorFromSet(map[string]string{"a": "b"})})
	if err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("names and a selector: %v", err)
	}
	if _, err := New(Options{Kubeconfig: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a missing kubeconfig: %v", err)
	}
}

// TestPermissionsAreThoseOfTheKinds holds the list that RBAC is checked against to the kinds that are watched.
func TestPermissionsAreThoseOfTheKinds(t *testing.T) {
	want := []string{"configmaps"} // those that are named are followed one by one
	for _, object := range kinds(Options{NamespaceSelector: labels.SelectorFromSet(map[string]string{"a": "b"})}) {
		want = append(want, resourceOf(object.DeepCopyObject().(client.Object)))
	}
	got := make(map[string]bool)
	for _, p := range Permissions() {
		got[p.Resource] = true
		if !slices.Equal(p.Verbs, []string{"list", "watch"}) {
			t.Errorf("%s: verbs %v, want those of reading", p.Resource, p.Verbs)
		}
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
		t.Errorf("permissions for %v, want %v", names, want)
	}
}
