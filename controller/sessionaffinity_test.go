package controller

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"sallyport/proxy"
)

// askedOf is how many endpoints the requests of one client go to.
func askedOf(t *testing.T, r Result, client string) int {
	t.Helper()
	route := r.Table.Lookup("a.test", "/")
	if route == nil {
		t.Fatal("no route")
	}
	seen := make(map[netip.AddrPort]bool)
	for range 20 {
		e := &proxy.Exchange{Host: "a.test", Path: "/", Target: "/", Client: netip.MustParseAddr(client)}
		route.Handler.ServeHTTP(httptest.NewRecorder(), proxy.With(requestNobodyWaitsFor("/"), e))
		for _, attempt := range e.Attempts {
			seen[attempt.Endpoint] = true
		}
	}
	return len(seen)
}

func TestAServiceKeepsItsClients(t *testing.T) {
	service := func(spec string) string {
		return "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}], " + spec + "}"
	}
	const endpoints = `
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}, {addresses: [10.0.0.3]}, {addresses: [10.0.0.4]}]`
	annotated := func(annotation string) string {
		return strings.Replace(pathTo("a", "a.test", "/"), "{name: a}", "{name: a, annotations: {nginx.ingress.kubernetes.io/"+annotation+"}}", 1)
	}
	const client = "sessionAffinity: ClientIP"
	b := NewBuilder(everyIngress())
	s := snapshotOf(t, pathTo("a", "a.test", "/"), service(client), endpoints)
	for _, step := range []struct {
		claim, change string
		want          int // endpoints that one client is sent to
	}{
		{"the Service asks for it", "", 1},
		{"it asks no longer", service("sessionAffinity: None"), 4},
		{"it asks again, for another time", service(client + ", sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}"), 1},
		{"the Ingress has its own word", annotated("load-balance: round_robin"), 4},
		{"the Ingress says something else", annotated("affinity-mode: balanced"), 1},
		{"the Ingress wants a cookie", annotated("affinity: cookie"), 4},
	} {
		if step.change != "" {
			for _, object := range objects(t, step.change) {
				s.Set(object)
			}
		}
		r := b.Build(s)
		if got := askedOf(t, r, "192.0.2.1"); got != step.want {
			t.Errorf("%s: a client was sent to %d endpoints, want %d", step.claim, got, step.want)
		}
		for _, p := range r.Problems {
			if strings.Contains(fmt.Sprint(p), "sessionAffinity") {
				t.Errorf("%s: %v", step.claim, p)
			}
		}
	}
}

func TestTheTimeOfASessionIsTheServices(t *testing.T) {
	for spec, want := range map[string]string{
		"sessionAffinity: None": "0s", "sessionAffinity: ClientIP": "3h0m0s", "sessionAffinity: ClientIP, type: ExternalName": "0s",
		"sessionAffinity: ClientIP, sessionAffinityConfig: {}":                                "3h0m0s",
		"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {}}":                    "3h0m0s",
		"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}": "10m0s",
	} {
		s := snapshotOf(t, "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}], "+spec+"}")
		if got := (target{}).keeping(s.Service(Key{"default", "web"})).stay.String(); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
}
