package controller

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mutable has every field that a build reads.
const mutable = `
kind: Ingress
metadata: {name: bad, namespace: bad, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {nginx.ingress.kubernetes.io/ssl-redirect: "true", kubernetes.io/ingress.class: x}}
spec:
  ingressClassName: c
  defaultBackend: {service: {name: web, port: {name: http}}}
  tls: [{hosts: [bad.test, "*.bad.test"], secretName: s}]
  rules:
  - host: bad.test
    http: {paths: [{path: /x, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}, {path: /y, pathType: Exact, backend: {resource: {apiGroup: g.test, kind: Bucket, name: b}}}]}
  - host: "*.bad.test"
    http: {paths: [{path: /, pathType: ImplementationSpecific, backend: {service: {name: web, port: {number: 8080}}}}]}
---
kind: Service
metadata: {name: web, namespace: bad}
spec: {type: ClusterIP, externalName: x, ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}, {name: admin, port: 81, targetPort: admin, protocol: UDP}]}
---
kind: EndpointSlice
metadata: {name: web-1, namespace: bad, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.0.0.1], conditions: {ready: true, serving: true, terminating: false}}]
---
kind: Secret
metadata: {name: s, namespace: bad}
data: {tls.crt: eA==, tls.key: eA==}
---
kind: IngressClass
metadata: {name: c, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}
spec: {controller: sallyport/ingress-controller}`

// A mutator changes JSON at random.
type mutator struct{ *rand.Rand }

// odd returns a value that may stand nowhere.
func (m mutator) odd() any {
	all := []any{nil, "", "/", "*", "*.", ".", "a", "bad.test", "good.test", "\x00", "-1", "80", "éß", "a\nb", "::1", "0.0.0.0", 0.0, -1.0, 80.0, 65536.0, 1e9, true, false, []any{}, map[string]any{}, []any{nil}, []any{map[string]any{}}}
	return all[m.IntN(len(all))]
}

func (m mutator) change(v any) any {
	if m.IntN(6) == 0 {
		return m.odd()
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // in order, so that a seed says it all
			if m.IntN(4) == 0 {
				v[key] = m.change(v[key])
			}
			if m.IntN(16) == 0 {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = m.change(v[i])
		}
		if len(v) > 0 && m.IntN(8) == 0 {
			v = append(v, v[m.IntN(len(v))])
		}
		return v
	case string:
		if len(v) > 0 && m.IntN(2) == 0 {
			at := m.IntN(len(v))
			return v[:at] + string(rune(m.IntN(256))) + v[at+1:]
		}
	}
	return v
}

// mutated returns a changed copy of an object, or nil when it came out as nothing that decodes.
func (m mutator) mutated(t testing.TB, object metav1.Object) metav1.Object {
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(m.change(m.change(tree))); err != nil {
		t.Fatal(err)
	}
	changed := reflect.New(reflect.TypeOf(object).Elem()).Interface().(metav1.Object)
	if json.Unmarshal(text, changed) != nil {
		return nil
	}
	changed.SetNamespace(object.GetNamespace())
	changed.SetName(object.GetName())
	return changed
}

// survives builds a snapshot whose objects of the namespace bad are changed in many ways, beside an Ingress of the
// namespace good that must be served all the while.
func survives(t testing.TB, seed uint64, steps int) {
	m := mutator{rand.New(rand.NewPCG(seed, seed))}
	s := snapshotOf(t, mutable, webService, ingressOf("good", `rules: [{host: good.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`))
	good := s.Ingress(Key{"default", "good"}).DeepCopy()
	good.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)) // older than anything
	s.Set(good)
	o := everyIngress()
	o.WatchWithoutClass = true
	b := NewBuilder(o)
	originals := objects(t, mutable)
	for range steps {
		i := m.IntN(len(originals))
		if object := m.mutated(t, originals[i]); object != nil {
			s.Set(object)
		}
		r := b.Build(s)
		if got := sourceOf(r, "good.test", "/"); got != "default/good" {
			t.Fatalf("seed %d: good.test is served by %q in\n%s", seed, got, r.Table)
		}
		for _, p := range r.Problems {
			if p.Reason == ReasonInternal || p.Object.Kind == "" || p.Reason == "" || p.Message == "" {
				t.Fatalf("seed %d: %s", seed, p)
			}
		}
		if r.Routes != r.Table.Len() {
			t.Fatalf("seed %d: %d routes counted, %d in the table", seed, r.Routes, r.Table.Len())
		}
	}
}

func TestNoObjectStopsABuild(t *testing.T) {
	for seed := range uint64(20) {
		survives(t, seed, 200)
	}
}

func FuzzNoObjectStopsABuild(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { survives(t, seed, 20) })
}
