//go:build controlplane

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestRolloutLosesNoRequest rolls a Deployment of ten Pods three times under a load of a thousand requests a second and more,
// one in five a POST with a body, over HTTP/1.1 and HTTP/2, to hosts that balance in different ways. A Pod refuses
// connections a second after it is deleted; the EndpointSlice that says so comes half a second later still.
func TestRolloutLosesNoRequest(t *testing.T) {
	const (
		grace = 1                       // seconds
		lag   = 1500 * time.Millisecond // of slices behind Pods
		rate  = 1000                    // requests a second, at least
	)
	// As many URLs as have no factor in common with five, so that each gets its share of the POSTs.
	var targets []e2e.Target
	manifests := lingering("web", 10, grace)
	for name, annotations := range map[string]string{
		"web":        "",
		"least-conn": "{load-balance: least_conn, slow-start: '5'}",
		"ewma":       "{load-balance: ewma, slow-start: '5'}",
		"affinity":   "{affinity: cookie, slow-start: '5'}",
	} {
		host := name + ".test"
		manifests += withAnnotations(ingress(name, ours, "rules:", rule(host, "/", "Prefix", "web")), annotations)
		targets = append(targets, e2e.Target{URL: "http://" + host + "/"}, e2e.Target{URL: "https://" + host + "/"})
	}
	c := cluster.Start(t, cluster.SlicesLag(lag))
	c.Apply(t, manifests)
	c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	s := c.Sallyport(t, "--access-log=json")
	for _, target := range targets {
		s.Expect(t, target.URL, cluster.Served("web"))
	}
	before := c.Pods(t, "web")
	load := e2e.StartLoad(t, s.Process, 64, 20*time.Millisecond, targets...)
	begun := time.Now()
	for range 3 {
		load.More(t, 1000)
		c.Kubectl(t, "rollout", "restart", "deployment/web")
		c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=120s")
	}
	load.More(t, 5*rate) // the last Pods of the old kind end meanwhile
	took := time.Since(begun)
	load.Stop(t, 10*rate)
	measured := float64(load.Requests()) / took.Seconds()
	t.Logf("%.0f requests a second; %d POST, %d over HTTP/1.1, %d over HTTP/2", measured, load.Posts(), load.Answers(1), load.Answers(2))
	if measured < rate {
		t.Errorf("there were %.0f requests a second, want %d for the claim to mean something", measured, rate)
	}
	if load.Cookies() == 0 {
		t.Error("no client was given a cookie: nobody had an affinity")
	}
	for what, n := range map[string]int64{"POST": load.Posts(), "over HTTP/1.1": load.Answers(1), "over HTTP/2": load.Answers(2)} {
		if n < load.Requests()/6 {
			t.Errorf("of %d requests only %d were %s", load.Requests(), n, what)
		}
	}
	if !strings.Contains(s.Log(), `"reason":"connect_refused"`) {
		t.Error("no Pod refused a connection: slices did not lag")
	}
	for _, pod := range c.Pods(t, "web") {
		if slices.Contains(before, pod) {
			t.Errorf("Pod %s is there still: nothing was rolled", pod)
		}
	}
}

// lingering is app with Pods that serve for so many seconds after they are deleted.
func lingering(name string, replicas, seconds int) string {
	const image = "        image: echo\n"
	return strings.Replace(app(name, replicas), image, fmt.Sprintf("%s        lifecycle: {preStop: {sleep: {seconds: %d}}}\n", image, seconds), 1)
}

// withAnnotations gives an Ingress annotations, a map in braces whose keys stand without their prefix; "" gives it none.
func withAnnotations(ingress, annotations string) string {
	if annotations == "" {
		return ingress
	}
	for _, before := range []string{"{", ", "} {
		annotations = strings.ReplaceAll(annotations, before, before+"ingress.kubernetes.io/")
	}
	return strings.Replace(ingress, "metadata: {", "metadata: {annotations: "+annotations+", ", 1)
}
