package controller

import (
	"strings"
	"testing"
)

func TestEndpointsThatAreMeantForHere(t *testing.T) {
	const plain = "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}"
	near := strings.Replace(plain, "spec: {", "spec: {trafficDistribution: PreferClose, ", 1)
	annotated := strings.Replace(plain, "{name: web}", "{name: web, annotations: {service.kubernetes.io/topology-mode: Auto}}", 1)
	zone := func(zones string) string { return "forZones: [" + zones + "]" }
	const a, b, ab = "{name: a}", "{name: b}", "{name: a}, {name: b}"
	const here, there = "forNodes: [{name: here}]", "forNodes: [{name: there}]"
	for _, c := range []struct {
		claim   string
		service string
		hints   [3]string // of .1, .2 and .3; "-": none
		off     bool
		unready string // condition of .1
		want    string
	}{
		{"those of the zone", near, [3]string{zone(a), zone(b), zone(ab)}, false, "", "1 3"},
		{"by annotation too", annotated, [3]string{zone(a), zone(b), zone(ab)}, false, "", "1 3"},
		{"not where the Service does not ask", plain, [3]string{zone(a), zone(b), zone(ab)}, false, "", "1 2 3"},
		{"not where the process does not", near, [3]string{zone(a), zone(b), zone(ab)}, true, "", "1 2 3"},
		{"not while one has no hint", near, [3]string{zone(a), zone(b), "-"}, false, "", "1 2 3"},
		{"nor while one has a hint of the other kind only", near, [3]string{zone(a), zone(b), there}, false, "", "1 2 3"},
		{"not while none is for here", near, [3]string{zone(b), zone(b), zone(b)}, false, "", "1 2 3"},
		{"those of the node", near, [3]string{zone(a) + ", " + here, zone(a) + ", " + there, zone(a) + ", " + there}, false, "", "1"},
		{"of the zone where the node has none", near, [3]string{zone(a) + ", " + there, zone(b) + ", " + there, zone(a) + ", " + there}, false, "", "1 3"},
		{"one without a hint counts only if it is ready", near, [3]string{"-", zone(a), zone(b)}, false, "ready: false", "2"},
		{"the last of a zone goes, and the others take over", near, [3]string{zone(a), zone(b), zone(b)}, false, "ready: false", "2 3"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			slice := "kind: EndpointSlice\nmetadata: {name: s, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{port: 80}]\nendpoints:"
			for i, hints := range c.hints {
				slice += "\n- addresses: [10.0.0." + string(rune('1'+i)) + "]"
				if hints != "-" {
					slice += "\n  hints: {" + hints + "}"
				}
				if i == 0 && c.unready != "" {
					slice += "\n  conditions: {" + c.unready + "}"
				}
			}
			o := everyIngress()
			o.Topology, o.Node = !c.off, "here"
			s := snapshotOf(t, c.service, slice, backendOf("number: 80"))
			s.SetZone("a")
			wantProblems(t, NewBuilder(o).Build(s).Problems)
			want := "web:80"
			for n := range strings.FieldsSeq(c.want) {
				want += " 10.0.0." + n + ":80"
			}
			if got := endpointsIn(o.Pools); got != want {
				t.Errorf("pools are %s, want %s", got, want)
			}
		})
	}
}
