package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
)

const nextService = `
kind: Service
metadata: {name: next}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: EndpointSlice
metadata: {name: next-1, labels: {kubernetes.io/service-name: next}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.0.1.1]}]`

// annotated gives an Ingress annotations, each "name: value".
func annotated(ingress string, annotations ...string) string {
	var all []string
	for _, annotation := range annotations {
		name, text, _ := strings.Cut(annotation, ": ")
		all = append(all, fmt.Sprintf("nginx.ingress.kubernetes.io/%s: %q", name, text))
	}
	return strings.Replace(ingress, "metadata: {", "metadata: {annotations: {"+strings.Join(all, ", ")+"}, ", 1)
}

// canaryTo is a canary of one path that leads to the Service next, or to another.
func canaryTo(name, host, path string, annotations ...string) string {
	return annotated(strings.ReplaceAll(pathTo(name, host, path), "{name: web,", "{name: next,"), append([]string{"canary: true"}, annotations...)...)
}

// inNamespace puts objects there.
func inNamespace(namespace, text string) string {
	return strings.ReplaceAll(text, "metadata: {", "metadata: {namespace: "+namespace+", ")
}

// sentTo is what a request comes to: the name of the canary that it goes to, the Service of the route where it goes to none,
// or the status where it goes nowhere.
func sentTo(t testing.TB, r Result, host, path string, fields ...string) string {
	t.Helper()
	route := r.Table.Lookup(host, path)
	if route == nil {
		return "404"
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it is enough to know where it would go
	ask := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	for _, field := range fields {
		name, text, _ := strings.Cut(field, ": ")
		ask.Header.Set(name, text)
	}
	e := &proxy.Exchange{ID: "test", Host: host, Path: path, Target: path}
	w := httptest.NewRecorder()
	route.Handler.ServeHTTP(w, proxy.With(ask, e))
	switch {
	case len(e.Attempts) == 0:
		return fmt.Sprint(w.Code)
	case e.Info.Canary != "":
		return e.Info.Canary
	}
	return e.Info.Service
}

func TestACanaryFollowsTheRouteOfItsPlaceAndNoOther(t *testing.T) {
	primary := dated(pathTo("web", "h.test", "/shop"), "01")
	for _, c := range []struct {
		claim    string
		objects  []string
		want     map[string]string // by host and path
		problems []string
	}{
		{"the same host, path and type", []string{canaryTo("next", "h.test", "/shop", "canary-weight: 100")},
			map[string]string{"h.test/shop": "default-next-80", "h.test/shop/x": "default-next-80", "h.test/": "404"}, nil},
		{"a trailing slash makes no other path", []string{canaryTo("next", "h.test", "/shop/", "canary-weight: 100")},
			map[string]string{"h.test/shop": "default-next-80"}, nil},
		{"it matters not who is older", []string{dated(canaryTo("next", "h.test", "/shop", "canary-weight: 100"), "00")},
			map[string]string{"h.test/shop": "default-next-80"}, nil},
		{"no other route to the Service", []string{pathTo("other", "o.test", "/"), pathTo("deep", "h.test", "/shop/deep"), canaryTo("next", "h.test", "/shop", "canary-weight: 100")},
			map[string]string{"h.test/shop": "default-next-80", "o.test/": "web", "h.test/shop/deep": "web"}, nil},
		{"no other route to its own Service", []string{strings.ReplaceAll(pathTo("other", "o.test", "/"), "{name: web,", "{name: next,"), canaryTo("next", "h.test", "/shop", "canary-weight: 0")},
			map[string]string{"h.test/shop": "web", "o.test/": "next"}, nil},
		{"another path", []string{canaryTo("next", "h.test", "/", "canary-weight: 100")},
			map[string]string{"h.test/shop": "web", "h.test/": "404"}, []string{"error Ingress default/next: spec.rules[0].http.paths[0].path: CanaryUnused"}},
		{"another type", []string{strings.ReplaceAll(canaryTo("next", "h.test", "/shop", "canary-weight: 100"), "Prefix", "Exact")},
			map[string]string{"h.test/shop": "web"}, []string{"error Ingress default/next: spec.rules[0].http.paths[0].path: CanaryUnused"}},
		{"another host", []string{canaryTo("next", "x.test", "/shop", "canary-weight: 100")},
			map[string]string{"h.test/shop": "web", "x.test/shop": "404"}, []string{"error Ingress default/next: spec.rules[0].http.paths[0].path: CanaryUnused"}},
		{"the same Service", []string{strings.ReplaceAll(canaryTo("next", "h.test", "/shop", "canary-weight: 100"), "{name: next,", "{name: web,")},
			map[string]string{"h.test/shop": "web"}, []string{"warning Ingress default/next: spec.rules[0].http.paths[0].path: CanaryUnused"}},
		{"another namespace", []string{inNamespace("evil", nextService), inNamespace("evil", canaryTo("next", "h.test", "/shop", "canary-weight: 100"))},
			map[string]string{"h.test/shop": "web"}, []string{"error Ingress evil/next: spec.rules[0].http.paths[0].path: CanaryUnused"}},
		{"of no Service that exists", []string{strings.ReplaceAll(canaryTo("next", "h.test", "/shop", "canary-weight: 100"), "{name: next,", "{name: gone,")},
			map[string]string{"h.test/shop": "web"}, []string{"error Ingress default/next: spec.rules[0].http.paths[0].backend.service.name: ServiceNotFound"}},
		{"a path twice", []string{strings.Replace(canaryTo("next", "h.test", "/shop", "canary-weight: 100"), "paths: [", `paths: [{path: "/shop", pathType: Prefix, backend: {service: {name: next, port: {number: 80}}}}, `, 1)},
			map[string]string{"h.test/shop": "default-next-80"}, []string{"error Ingress default/next: spec.rules[0].http.paths[1].path: PathConflict"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := NewBuilder(everyIngress()).Build(snapshotOf(t, append([]string{webService, nextService, primary}, c.objects...)...))
			for at, want := range c.want {
				host, path, _ := strings.Cut(at, "/")
				if got := sentTo(t, r, host, "/"+path); got != want {
					t.Errorf("%s goes to %s, want %s", at, got, want)
				}
			}
			wantProblems(t, r.Problems, c.problems...)
			if _, listed := handlers(r)["{x.test /shop Prefix}"]; listed {
				t.Errorf("the canary has made a route:\n%s", r.Table)
			}
		})
	}
}

func TestThreeCanariesStandOnOneRule(t *testing.T) {
	services := []string{webService}
	for _, name := range []string{"one", "two", "three"} {
		services = append(services, strings.ReplaceAll(nextService, "next", name))
	}
	of := func(name, second string, annotations ...string) string {
		return dated(strings.ReplaceAll(canaryTo(name, "h.test", "/", annotations...), "{name: next,", "{name: "+name+","), second)
	}
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, append(services, pathTo("web", "h.test", "/"),
		of("three", "03", "canary-weight: 60", "canary-by-header: X-Side", "canary-by-header-value: 3"),
		of("one", "01", "canary-weight: 30", "canary-by-header: X-Side"),
		of("two", "02", "canary-weight: 20", "canary-by-cookie: two"),
	)...))
	// The youngest has 50 of 60.
	wantProblems(t, r.Problems, "error Ingress default/three: metadata.annotations[nginx.ingress.kubernetes.io/canary-weight]: BadAnnotation")
	for field, want := range map[string]string{
		"X-Side: always": "default-one-80", "X-Side: 3": "default-three-80", "Cookie: two=always": "default-two-80",
	} {
		if got := sentTo(t, r, "h.test", "/", field); got != want {
			t.Errorf("%s goes to %s, want %s", field, got, want)
		}
	}
	counts := map[string]int{}
	for range 10_000 {
		counts[sentTo(t, r, "h.test", "/")]++
	}
	for who, want := range map[string]int{"default-one-80": 3000, "default-two-80": 2000, "default-three-80": 5000, "web": 0} {
		if got := counts[who]; got < want-250 || got > want+250 || want == 0 && got > 0 {
			t.Errorf("%s took %d of 10,000 requests, want about %d: %v", who, got, want, counts)
		}
	}
}

func TestAGuardThatACanaryAloneAsksForKeepsItOut(t *testing.T) {
	const guard, other = "allowlist-source-range: 10.0.0.0/8", "proxy-read-timeout: 7"
	for _, c := range []struct {
		claim           string
		primary, canary []string
		want            string
		problems        []string
	}{
		{"the same on both", []string{guard, other}, []string{guard, other}, "403", nil},
		{"only the primary's", []string{guard}, nil, "403", nil},
		{"only the canary's", nil, []string{guard}, "web", []string{"error Ingress default/next: metadata.annotations[nginx.ingress.kubernetes.io/allowlist-source-range]: IgnoredAnnotation"}},
		{"that guards nothing", nil, []string{other}, "default-next-80", []string{"warning Ingress default/next: metadata.annotations[nginx.ingress.kubernetes.io/proxy-read-timeout]: IgnoredAnnotation"}},
		{"that cannot be read", nil, []string{"allowlist-source-range: office"}, "web", []string{
			"error Ingress default/next: : CanaryUnused",
			"error Ingress default/next: metadata.annotations[nginx.ingress.kubernetes.io/allowlist-source-range]: BadAnnotation",
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, nextService,
				annotated(pathTo("web", "h.test", "/"), c.primary...), canaryTo("next", "h.test", "/", append(c.canary, "canary-weight: 100")...)))
			if got := sentTo(t, r, "h.test", "/"); got != c.want {
				t.Errorf("goes to %s, want %s", got, c.want)
			}
			wantProblems(t, r.Problems, c.problems...)
		})
	}
}

func TestACanarysDefaultBackendFollowsADefaultBackend(t *testing.T) {
	const to = "defaultBackend: {service: {name: NAME, port: {number: 80}}}"
	rest := func(name, service, rules string, annotations ...string) string {
		return annotated(ingressOf(name, strings.Replace(to, "NAME", service, 1)+rules), annotations...)
	}
	const host = "\nrules: [{host: h.test}]"
	for _, c := range []struct {
		claim           string
		primary, canary string
		want            map[string]string
		problems        int
	}{
		{"without rules", rest("web", "web", ""), rest("next", "next", "", "canary: true", "canary-weight: 100"), map[string]string{"any.test": "default-next-80"}, 0},
		{"of a host", rest("web", "web", host), rest("next", "next", host, "canary: true", "canary-weight: 100"), map[string]string{"h.test": "default-next-80", "any.test": "404"}, 0},
		{"of another host", rest("web", "web", host), rest("next", "next", "", "canary: true", "canary-weight: 100"), map[string]string{"h.test": "web", "any.test": "404"}, 1},
		{"which there is none", pathTo("web", "h.test", "/x"), rest("next", "next", host, "canary: true", "canary-weight: 100"), map[string]string{"h.test": "404"}, 1},
		{"of another namespace", rest("web", "web", ""), inNamespace("evil", nextService) + "\n---\n" + inNamespace("evil", rest("next", "next", "", "canary: true", "canary-weight: 100")), map[string]string{"any.test": "web"}, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, nextService, c.primary, c.canary))
			for host, want := range c.want {
				if got := sentTo(t, r, host, "/"); got != want {
					t.Errorf("%s goes to %s, want %s", host, got, want)
				}
			}
			if len(r.Problems) != c.problems || c.problems > 0 && r.Problems[0].Reason != ReasonCanaryUnused {
				t.Errorf("problems %v, want %d", r.Problems, c.problems)
			}
		})
	}
}

func TestOnlyTheHostsOfACanaryAreTouchedByItsChanges(t *testing.T) {
	s := snapshotOf(t, webService, nextService, pathTo("web", "h.test", "/"), pathTo("beside", "h.test", "/beside"), pathTo("other", "o.test", "/"),
		canaryTo("next", "h.test", "/", "canary-weight: 100"))
	o := everyIngress()
	retained := map[*proxy.RouteInfo]bool{}
	o.Retain = func(info *proxy.RouteInfo) proxy.Observer { retained[info] = true; return nil }
	o.Release = func(info *proxy.RouteInfo) {
		for known := range retained {
			if known.Host == info.Host && known.Path == info.Path && known.Canary == info.Canary {
				delete(retained, known)
				return
			}
		}
		t.Errorf("%+v is released twice", *info)
	}
	b := NewBuilder(o)
	was := handlers(b.Build(s))
	transport := b.hosts["h.test"].routes[0].last
	for _, step := range []struct {
		set      string // "": the canary goes
		want     string
		retained int
	}{
		{canaryTo("next", "h.test", "/", "canary-weight: 0"), "web", 4},
		{canaryTo("next", "h.test", "/beside", "canary-weight: 100"), "web", 4},
		{canaryTo("next", "h.test", "/", "canary-weight: 100"), "default-next-80", 4},
		{canaryTo("next", "nobody.test", "/", "canary-weight: 100"), "web", 3},
		{canaryTo("next", "h.test", "/", "canary-weight: 100"), "default-next-80", 4},
		{"", "web", 3},
	} {
		if step.set != "" {
			s.Set(objects(t, step.set)[0])
		} else {
			s.Delete(Ref{"Ingress", "default", "next"})
		}
		r := b.Build(s)
		if got := sentTo(t, r, "h.test", "/"); got != step.want {
			t.Errorf("after %q: goes to %s, want %s", step.set, got, step.want)
		}
		now := handlers(r)
		if now["{o.test / Prefix}"] != was["{o.test / Prefix}"] {
			t.Errorf("after %q: o.test has another handler", step.set)
		}
		if len(retained) != step.retained {
			t.Errorf("after %q: %d observers are retained, want %d", step.set, len(retained), step.retained)
		}
		for _, d := range b.hosts["h.test"].routes {
			if d.match.Path == "/" && d.last != transport {
				t.Errorf("after %q: the route is sent by another transport", step.set)
			}
		}
	}
	s.Set(objects(t, canaryTo("next", "h.test", "/", "canary-weight: 100"))[0])
	b.Build(s)
	s.Delete(Ref{"Ingress", "default", "web"})
	if b.Build(s); len(retained) != 2 {
		t.Errorf("%d observers are retained once the route has gone, want 2", len(retained))
	}
	s.Delete(Ref{"Ingress", "default", "next"})
	b.Build(s)
	if len(b.canaries) != 0 {
		t.Errorf("canaries of %v are remembered", slices.Collect(maps.Keys(b.canaries)))
	}
	if r := b.Build(s); r.TableChanged || len(r.Problems) > 0 {
		t.Errorf("changed: %v with %v after nothing changed", r.TableChanged, r.Problems)
	}
}

func TestACanaryWaitsForItsRoute(t *testing.T) {
	s := snapshotOf(t, webService, nextService, canaryTo("next", "h.test", "/", "canary-weight: 100"))
	b := NewBuilder(everyIngress())
	unused := "error Ingress default/next: spec.rules[0].http.paths[0].path: CanaryUnused"
	r := b.Build(s)
	wantProblems(t, r.Problems, unused)
	if got := sentTo(t, r, "h.test", "/"); got != "404" || r.Hosts != 0 {
		t.Errorf("a canary alone: %s with %d hosts, want 404 and none", got, r.Hosts)
	}
	for range 2 {
		s.Set(objects(t, pathTo("web", "h.test", "/"))[0])
		r = b.Build(s)
		wantProblems(t, r.Problems)
		if got := sentTo(t, r, "h.test", "/"); got != "default-next-80" {
			t.Errorf("with its route: %s", got)
		}
		s.Delete(Ref{"Ingress", "default", "web"})
		r = b.Build(s)
		wantProblems(t, r.Problems, unused)
		if got := sentTo(t, r, "h.test", "/"); got != "404" {
			t.Errorf("the route gone: %s", got)
		}
	}
}

func TestARouteTellsItsCanaries(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, nextService, pathTo("web", "h.test", "/"), canaryTo("next", "h.test", "/", "canary-weight: 25")))
	info := proxy.InfoOf(r.Table.Lookup("h.test", "/").Handler)
	want := proxy.CanaryInfo{Ingress: "default/next", Service: "next", Port: "80", Pool: "http", Share: 0.25}
	if info == nil || len(info.Canaries) != 1 || info.Canaries[0] != want {
		t.Errorf("%+v, want %+v", info, want)
	}
}

func TestACanaryWithoutItsMarkIsAnIngressLikeAnyOther(t *testing.T) {
	r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, nextService, dated(pathTo("web", "h.test", "/"), "01"),
		dated(annotated(strings.ReplaceAll(pathTo("next", "h.test", "/"), "{name: web,", "{name: next,"), "canary-weight: 100"), "02")))
	if got := sentTo(t, r, "h.test", "/"); got != "web" {
		t.Errorf("goes to %s, want web", got)
	}
	wantProblems(t, r.Problems,
		"error Ingress default/next: metadata.annotations[nginx.ingress.kubernetes.io/canary-weight]: BadAnnotation",
		"error Ingress default/next: spec.rules[0].http.paths[0].path: PathConflict")
}

// TestTheTableOfCanariesDoesNotDependOnHistory changes routes and canaries at random and compares with a build from nothing.
func TestTheTableOfCanariesDoesNotDependOnHistory(t *testing.T) {
	m := rand.New(rand.NewPCG(1, 1))
	s := snapshotOf(t, webService, nextService)
	b := NewBuilder(everyIngress())
	now := map[string]string{}
	for step := range 300 {
		name := []string{"a", "b", "c", "d"}[m.IntN(4)]
		host, path := fmt.Sprintf("h%d.test", m.IntN(2)), []string{"/", "/x"}[m.IntN(2)]
		delete(now, name)
		switch m.IntN(4) {
		case 0:
			s.Delete(Ref{"Ingress", "default", name})
		case 1:
			now[name] = pathTo(name, host, path)
		default:
			now[name] = canaryTo(name, host, path, "canary-weight: 40")
		}
		if text, ok := now[name]; ok {
			s.Set(objects(t, text)[0])
		}
		got := b.Build(s)
		want := NewBuilder(everyIngress()).Build(snapshotOf(t, append([]string{webService, nextService}, slices.Collect(maps.Values(now))...)...))
		if describe(got) != describe(want) {
			t.Fatalf("step %d:\n%s\nfrom nothing:\n%s", step, describe(got), describe(want))
		}
	}
}

func describe(r Result) string {
	var b strings.Builder
	for route := range r.Table.All() {
		fmt.Fprintln(&b, route.Match, route.Source, canariesOf(route.Handler))
	}
	return b.String() + problemLines(r.Problems)
}

func canariesOf(h http.Handler) string {
	if info := proxy.InfoOf(h); info != nil {
		return fmt.Sprint(info.Canaries)
	}
	return ""
}
