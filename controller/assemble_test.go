package controller

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/proxy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGoldenTables builds each testdata/NAME.yaml and compares the table and the problems with testdata/NAME.txt.
func TestGoldenTables(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			text, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			r := NewBuilder(everyIngress()).Build(snapshotOf(t, string(text)))
			got := r.Table.String()
			if lines := problemLines(r.Problems); lines != "" {
				got += "\n" + lines
			}
			golden := strings.TrimSuffix(input, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func sourceOf(r Result, host, path string) string {
	route := r.Table.Lookup(host, path)
	if route == nil {
		return ""
	}
	return route.Source
}

// dated gives an Ingress the creation time of a second of the year 2026.
func dated(ingress, second string) string {
	return strings.Replace(ingress, "metadata: {", "metadata: {creationTimestamp: \"2026-01-01T00:00:"+second+"Z\", ", 1)
}

func TestOldestIngressWinsAPath(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		winner     string
	}{
		{"older", dated(pathTo("a", "h.test", "/x"), "01"), dated(pathTo("b", "h.test", "/x"), "02"), "default/a"},
		{"older, the other way", dated(pathTo("a", "h.test", "/x"), "02"), dated(pathTo("b", "h.test", "/x"), "01"), "default/b"},
		{"the same second: the larger name", dated(pathTo("a", "h.test", "/x"), "01"), dated(pathTo("b", "h.test", "/x"), "01"), "default/b"},
		{"no dates, as in a folder: the larger name", pathTo("a", "h.test", "/x"), pathTo("b", "h.test", "/x"), "default/b"},
		{"a trailing slash makes no other path", dated(pathTo("a", "h.test", "/x/"), "01"), dated(pathTo("b", "h.test", "/x"), "02"), "default/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewBuilder(everyIngress()).Build(snapshotOf(t, webService, c.a, c.b))
			if got := sourceOf(r, "h.test", "/x"); got != c.winner {
				t.Errorf("served by %q, want %q", got, c.winner)
			}
			loser := map[string]string{"default/a": "default/b", "default/b": "default/a"}[c.winner]
			wantProblems(t, r.Problems, "error Ingress "+loser+": spec.rules[0].http.paths[0].path: PathConflict")
			if !strings.Contains(r.Problems[0].Message, c.winner) {
				t.Errorf("the loser is not told who won: %s", r.Problems[0].Message)
			}
		})
	}
}

func TestLoserTakesOverWhenTheWinnerGoes(t *testing.T) {
	s := snapshotOf(t, webService, pathTo("a", "h.test", "/x"), pathTo("b", "h.test", "/x"))
	b := NewBuilder(everyIngress())
	b.Build(s)
	s.Delete(Ref{"Ingress", "default", "b"})
	r := b.Build(s)
	if got := sourceOf(r, "h.test", "/x"); got != "default/a" {
		t.Errorf("served by %q, want default/a", got)
	}
	wantProblems(t, r.Problems)
}

func TestDefaultBackendOfTheProcess(t *testing.T) {
	fallback := strings.ReplaceAll(webService, "web", "fallback")
	key := Key{"default", "fallback"}
	o := everyIngress()
	o.DefaultBackend = key
	s := snapshotOf(t, webService, fallback, pathTo("a", "h.test", "/x"))
	b := NewBuilder(o)
	r := b.Build(s)
	wantProblems(t, r.Problems)
	if got, want := r.Table.String(), "h.test   Prefix   /x   default/a\nh.test   Prefix   /    default/a\n*        Prefix   /    --default-backend-service\n"; got != want {
		t.Errorf("table:\n%swant:\n%s", got, want)
	}
	info := proxy.InfoOf(r.Table.Lookup("other.test", "/").Handler)
	if info == nil || info.Service != "fallback" || info.Ingress != "" {
		t.Errorf("the catch-all says of itself: %+v", info)
	}
	if b.unrouted.backend.Load() == nil {
		t.Error("the default backend leads nowhere")
	}

	s.Delete(Ref{"EndpointSlice", "default", "fallback-1"})
	r = b.Build(s)
	if r.TableChanged {
		t.Error("a default backend without endpoints made another table")
	}
	for _, host := range []string{"h.test", "other.test"} {
		if status, reason := ask(t, r, host, "/"); status != 404 || reason != proxy.NoRoute {
			t.Errorf("%s: answered %d %s, want 404 %s", host, status, reason, proxy.NoRoute)
		}
	}

	s.Delete(Ref{"Service", "default", "fallback"})
	r = b.Build(s)
	wantProblems(t, r.Problems, "error Service default/fallback: : ServiceNotFound")
	if b.unrouted.backend.Load() != nil {
		t.Error("a default backend that is gone is still asked")
	}
	if got := endpointsIn(o.Pools); got != "web:http 10.0.0.1:8080 10.0.0.2:8080" {
		t.Errorf("pools: %s", got)
	}
}

func TestPanicCostsOneIngressAndNoOther(t *testing.T) {
	o := everyIngress()
	o.Retain = func(info *proxy.RouteInfo) proxy.Observer {
		if info.Ingress == "bad" {
			panic("out of ideas")
		}
		return nil
	}
	s := snapshotOf(t, webService, pathTo("bad", "bad.test", "/"), pathTo("good", "good.test", "/"), pathTo("bad2", "bad.test", "/y"))
	b := NewBuilder(o)
	for range 2 { // what is kept from the build before says the same
		r := b.Build(s)
		wantProblems(t, r.Problems, "error Ingress default/bad: spec.rules[0].http.paths[0].path: InternalFault")
		if status, reason := ask(t, r, "bad.test", "/"); status != 503 || reason != proxy.Denied {
			t.Errorf("answered %d %s, want 503 %s", status, reason, proxy.Denied)
		}
		if sourceOf(r, "good.test", "/") == "" || sourceOf(r, "bad.test", "/y") != "default/bad2" {
			t.Errorf("table:\n%s", r.Table)
		}
		s.Set(objects(t, pathTo("bad3", "bad.test", "/z"))[0])
	}
}

func TestPanicInTranslationCostsOneIngressAndNoOther(t *testing.T) {
	b := NewBuilder(everyIngress())
	b.options.Pools = nil // whoever needs a pool panics
	missing := strings.Replace(pathTo("good", "good.test", "/"), "name: web", "name: missing", 1)
	r := b.Build(snapshotOf(t, webService, pathTo("bad", "bad.test", "/"), missing))
	wantProblems(t, r.Problems,
		"error Ingress default/bad: : InternalFault",
		"error Ingress default/good: spec.rules[0].http.paths[0].backend.service.name: ServiceNotFound")
	if sourceOf(r, "good.test", "/") == "" || sourceOf(r, "bad.test", "/") != "" {
		t.Errorf("table:\n%s", r.Table)
	}
}
