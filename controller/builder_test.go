package controller

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

// handlers are the handlers of a table by host, type and path.
func handlers(r Result) map[string]http.Handler {
	all := make(map[string]http.Handler)
	for route := range r.Table.All() {
		all[fmt.Sprint(route.Match)] = route.Handler
	}
	return all
}

func TestChangeOfOneIngressKeepsTheHandlersOfOthers(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "shared.test", "/a"), pathTo("b", "shared.test", "/b"), pathTo("c", "c.test", "/"))
	b := NewBuilder(everyIngress())
	before := b.Build(s)
	s.Set(objects(t, pathTo("a", "shared.test", "/other"))[0])
	after := b.Build(s)
	if !after.TableChanged || after.Generation != before.Generation+1 {
		t.Errorf("changed: %v, generation %d after %d", after.TableChanged, after.Generation, before.Generation)
	}
	was, now := handlers(before), handlers(after)
	for _, m := range []string{"{shared.test /b Prefix}", "{c.test / Prefix}"} {
		if was[m] == nil || was[m] != now[m] {
			t.Errorf("%s has another handler", m)
		}
	}
	if now["{shared.test /other Prefix}"] == nil || now["{shared.test /a Prefix}"] != nil {
		t.Errorf("table:\n%s", after.Table)
	}
}

// TestChangeThatMeansNothingBuildsNoTable sets other versions of objects that say the same about routes: a controller
// that writes status would else throw away, by every write, what its routes have learned.
func TestChangeThatMeansNothingBuildsNoTable(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "a.test", "/"))
	b := NewBuilder(everyIngress())
	before := b.Build(s)

	ingress := objects(t, pathTo("a", "a.test", "/"))[0].(*networkingv1.Ingress)
	ingress.ResourceVersion, ingress.Labels = "2", map[string]string{"team": "blue"}
	ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
	s.Set(ingress)
	service := objects(t, webService)[0]
	service.SetLabels(map[string]string{"team": "blue"})
	s.Set(service)

	after := b.Build(s)
	if after.TableChanged || after.Table != before.Table || after.Generation != before.Generation {
		t.Errorf("changed: %v, generation %d after %d", after.TableChanged, after.Generation, before.Generation)
	}
}

func TestEndpointChangeSetsPoolsAndBuildsNoTable(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "a.test", "/"))
	o := everyIngress()
	b := NewBuilder(o)
	before := b.Build(s)
	pool := o.Pools.Get(upstream.ID{Namespace: "default", Service: "web", Port: "http"})
	slice := func(endpoints string) metav1.Object {
		return objects(t, "kind: EndpointSlice\nmetadata: {name: web-1, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: "+endpoints)[0]
	}
	moved := slice("[{addresses: [10.0.0.9]}]")
	moved.SetLabels(map[string]string{"kubernetes.io/service-name": "other"})
	for _, step := range []struct {
		set   metav1.Object
		want  int
		warns bool
	}{
		{slice("[{addresses: [10.0.0.2]}, {addresses: [10.0.0.3]}, {addresses: [10.0.0.4]}]"), 3, false},
		{slice("[]"), 0, true},
		{slice("[{addresses: [10.0.0.2]}]"), 1, false},
		{moved, 0, true}, // to another Service, by its label
		{slice("[{addresses: [10.0.0.2]}]"), 1, false},
		{nil, 0, true},
	} {
		if step.set != nil {
			s.Set(step.set)
		} else {
			s.Delete(Ref{"EndpointSlice", "default", "web-1"})
		}
		r := b.Build(s)
		if r.TableChanged || r.Table != before.Table {
			t.Errorf("endpoints %d: another table", step.want)
		}
		if pool.Len() != step.want {
			t.Errorf("pool has %d endpoints, want %d", pool.Len(), step.want)
		}
		if warned := len(r.Problems) == 1 && r.Problems[0].Reason == ReasonNoEndpoints; warned != step.warns {
			t.Errorf("endpoints %d: problems %v", step.want, r.Problems)
		}
		if status, reason := ask(t, r, "a.test", "/"); step.want == 0 && (status != 503 || reason != proxy.NoEndpoints) {
			t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.NoEndpoints)
		}
	}
}

// TestOnlyEndpointsMeansThatThereIsNothingToTell goes through what changes the endpoints of a pool, with and without a
// problem that comes, stays or goes.
func TestOnlyEndpointsMeansThatThereIsNothingToTell(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "a.test", "/"), strings.ReplaceAll(pathTo("b", "b.test", "/"), "{name: web,", "{name: missing,"))
	b := NewBuilder(everyIngress())
	const slice = "kind: EndpointSlice\nmetadata: {name: web-1, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: "
	missing := "error Ingress default/b: spec.rules[0].http.paths[0].backend.service.name: ServiceNotFound"
	nobody := "warning Service default/web: spec.ports: NoEndpoints"
	invalid := "error EndpointSlice default/web-1: endpoints[1].addresses[0]: InvalidValue"
	for _, step := range []struct {
		what, object string
		only         bool
		problems     []string
	}{
		{"the first build", "", false, []string{missing}},
		{"another address", slice + "[{addresses: [10.0.0.3]}]", true, []string{missing}},
		{"an address more", slice + "[{addresses: [10.0.0.3]}, {addresses: [10.0.0.4]}]", true, []string{missing}},
		{"none", slice + "[]", false, []string{missing, nobody}},
		{"none, in another object", slice + "[]", false, []string{missing, nobody}},
		{"one again", slice + "[{addresses: [10.0.0.3]}]", false, []string{missing}},
		{"one that is none", slice + "[{addresses: [10.0.0.3]}, {addresses: [x]}]", false, []string{invalid, missing}},
		{"the same and another, in the next generation", slice + "[{addresses: [10.0.0.4]}, {addresses: [x]}]", false, []string{invalid, missing}},
		{"it is mended", slice + "[{addresses: [10.0.0.4]}]", false, []string{missing}},
		{"a Service", "kind: Service\nmetadata: {name: other}\nspec: {ports: [{port: 80}]}", false, []string{missing}},
		{"an address after that", slice + "[{addresses: [10.0.0.5]}]", true, []string{missing}},
		{"the Ingress goes elsewhere", pathTo("b", "b.test", "/"), false, nil},
		{"an address at the end", slice + "[{addresses: [10.0.0.6]}]", true, nil},
	} {
		if step.object != "" {
			s.Set(objects(t, step.object)[0])
		}
		r := b.Build(s)
		if r.OnlyEndpoints != step.only || r.Ingresses != 2 {
			t.Errorf("%s: OnlyEndpoints is %v, want %v; %d Ingresses are served, want 2", step.what, r.OnlyEndpoints, step.only, r.Ingresses)
		}
		wantProblems(t, r.Problems, step.problems...)
	}
}

func TestPoolsThatNothingLeadsToAreForgotten(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "a.test", "/"), pathTo("b", "b.test", "/"))
	o := everyIngress()
	b := NewBuilder(o)
	b.Build(s)
	s.Delete(Ref{"Ingress", "default", "a"})
	b.Build(s)
	if got := len(o.Pools.All()); got != 1 {
		t.Errorf("%d pools while b is served, want 1", got)
	}
	s.Delete(Ref{"Ingress", "default", "b"})
	b.Build(s)
	if got := len(o.Pools.All()); got != 0 {
		t.Errorf("%d pools while nothing is served, want 0", got)
	}
	if len(b.hosts)+len(b.pools)+len(b.poolsOf)+len(b.services)+len(b.ingresses) != 0 {
		t.Errorf("something is kept of what is gone: %+v", b)
	}
}

func TestObserversAreRetainedWhileTheirRouteIsInTheTable(t *testing.T) {
	held := make(map[string]int)
	o := everyIngress()
	o.Retain = func(info *proxy.RouteInfo) proxy.Observer {
		held[info.Ingress+info.Path]++
		return counter{}
	}
	o.Release = func(info *proxy.RouteInfo) { held[info.Ingress+info.Path]-- }
	s := snapshotOf(t, webService, pathTo("a", "h.test", "/x"), pathTo("b", "h.test", "/x"))
	b := NewBuilder(o)
	r := b.Build(s)
	if held["b/x"] != 1 || held["a/x"] != 0 {
		t.Errorf("held: %v, want b only", held)
	}
	if info := proxy.InfoOf(r.Table.Lookup("h.test", "/x").Handler); info == nil || info.Observer != (counter{}) {
		t.Errorf("route tells of itself: %+v", info)
	}
	s.Delete(Ref{"Ingress", "default", "b"})
	b.Build(s)
	if held["b/x"] != 0 || held["a/x"] != 1 {
		t.Errorf("held: %v, want a only", held)
	}
	s.Set(objects(t, withTLS("t", "[{}]", "h.test"))[0]) // another handler for a, the same route
	b.Build(s)
	s.Delete(Ref{"Ingress", "default", "a"})
	s.Delete(Ref{"Ingress", "default", "t"})
	b.Build(s)
	for route, n := range held {
		if n != 0 {
			t.Errorf("%s is held %d times after all is gone", route, n)
		}
	}
}

type counter struct{}

func (counter) Observe(*proxy.Exchange) {}

// state is all that is seen of a build.
func state(r Result, pools *upstream.Pools) string {
	var all []string
	for _, pool := range pools.All() {
		endpoints := pool.Endpoints()
		slices.SortFunc(endpoints, netip.AddrPort.Compare)
		all = append(all, fmt.Sprint(pool.ID(), endpoints))
	}
	slices.Sort(all)
	text := r.Table.String() + problemLines(r.Problems) + fmt.Sprint(all, r.Ingresses, r.Hosts, r.Routes, r.Table.Len())
	for route := range r.Table.All() {
		info := *proxy.InfoOf(route.Handler)
		text += fmt.Sprintf("\n%+v", info)
	}
	return text
}

// TestTableIsAFunctionOfTheObjects changes a snapshot at random, in thousands of steps, and compares the table of a
// Builder that has seen all of them with that of one that sees the objects for the first time, in another order.
func TestTableIsAFunctionOfTheObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := new(Snapshot)
	present := make(map[Ref]metav1.Object)
	o := everyIngress()
	o.DefaultBackend = Key{"default", "s0"}
	b := NewBuilder(o)
	for step := range 1500 {
		for range 1 + random.IntN(4) {
			ref, object := randomObject(t, random)
			if random.IntN(4) == 0 {
				s.Delete(ref)
				delete(present, ref)
			} else {
				s.Set(object)
				present[ref] = object
			}
		}
		got := state(b.Build(s), o.Pools)

		fresh := new(Snapshot)
		for _, object := range present { // in whatever order
			fresh.Set(object)
		}
		other := o
		other.Pools = new(upstream.Pools)
		if want := state(NewBuilder(other).Build(fresh), other.Pools); got != want {
			t.Fatalf("step %d: with what was built before:\n%s\n\nat once:\n%s", step, got, want)
		}
	}
}

func randomObject(t *testing.T, random *rand.Rand) (Ref, metav1.Object) {
	n := random.IntN(4)
	namespace := []string{"default", "other"}[random.IntN(2)]
	var object metav1.Object
	ref := Ref{Namespace: namespace}
	switch random.IntN(6) {
	case 0, 1:
		ref.Kind, ref.Name = "Ingress", fmt.Sprint("i", n)
		object = randomIngress(t, random, ref.Name)
	case 2:
		ref.Kind, ref.Name = "Service", fmt.Sprint("s", n)
		port := []string{"{port: 80}", "{name: http, port: 80}", "{name: http, port: 81, targetPort: 80}"}[random.IntN(3)]
		object = objects(t, "kind: Service\nmetadata: {name: "+ref.Name+"}\nspec: {ports: ["+port+"]}")[0]
	case 3, 4:
		ref.Kind, ref.Name = "EndpointSlice", fmt.Sprint("e", n)
		object = objects(t, fmt.Sprintf("kind: EndpointSlice\nmetadata: {name: %s, labels: {kubernetes.io/service-name: s%d}}\naddressType: IPv4\nports: [{name: %s, port: %d}]\nendpoints: [{addresses: [10.0.0.%d], conditions: {ready: %v}}]",
			ref.Name, random.IntN(4), []string{`""`, "http"}[random.IntN(2)], 8080+random.IntN(2), 1+random.IntN(3), random.IntN(3) > 0))[0]
	case 5:
		ref.Kind, ref.Name, ref.Namespace = "IngressClass", "c", ""
		object = objects(t, []string{ourClass, defaultOurs, nginxClass}[random.IntN(3)])[0]
		object.SetName("c")
		return ref, object
	}
	object.SetNamespace(namespace)
	return ref, object
}

func randomIngress(t *testing.T, random *rand.Rand, name string) metav1.Object {
	service := func() string {
		return fmt.Sprintf("{service: {name: s%d, port: {%s}}}", random.IntN(4), []string{"number: 80", "name: http", "number: 81"}[random.IntN(3)])
	}
	body := []string{"", "ingressClassName: c\n"}[random.IntN(2)]
	if random.IntN(3) == 0 {
		body += "defaultBackend: " + service() + "\n"
	}
	if random.IntN(4) == 0 {
		body += []string{"tls: [{}]\n", "tls: [{secretName: x}]\n"}[random.IntN(2)]
	}
	rules := ""
	for range random.IntN(3) {
		rules += fmt.Sprintf("\n- {host: '%s', http: {paths: [{path: %s, pathType: %s, backend: %s}]}}",
			[]string{"", "a.test", "b.a.test", "*.a.test", "Bad.test"}[random.IntN(5)], []string{"/", "/x", "/x/"}[random.IntN(3)], []string{"Prefix", "Exact"}[random.IntN(2)], service())
	}
	if rules != "" {
		body += "rules:" + rules
	}
	object := objects(t, ingressOf(name, body+"\n"))[0]
	object.SetCreationTimestamp(metav1.Unix(int64(1+random.IntN(2)), 0))
	return object
}

func TestTwoBuildersOfOneSnapshotMissNothing(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "a.test", "/"))
	one, two := NewBuilder(everyIngress()), NewBuilder(everyIngress())
	one.Build(s)
	two.Build(s)
	s.Set(objects(t, pathTo("b", "b.test", "/"))[0])
	first, second := one.Build(s), two.Build(s)
	if first.Table.String() != second.Table.String() || sourceOf(second, "b.test", "/") == "" {
		t.Errorf("one builder has\n%s\nthe other\n%s", first.Table, second.Table)
	}
}

func TestEmptySnapshotMakesAnEmptyTable(t *testing.T) {
	b := NewBuilder(Options{})
	r := b.Build(new(Snapshot))
	if !r.TableChanged || r.Generation != 1 || r.Table == nil || r.Table.Len() != 0 || len(r.Problems) != 0 {
		t.Errorf("first build: %+v", r)
	}
	if r = b.Build(new(Snapshot)); r.TableChanged || r.Generation != 1 {
		t.Errorf("second build: %+v", r)
	}
}
