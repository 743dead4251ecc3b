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
// one in five a POST with a body, over HTTP/1.1 and HTTP/2. A Pod refuses connections a second after it is deleted; the
// EndpointSlice that says so comes half a second later still.
func TestRolloutLosesNoRequest(t *testing.T) {
	const (
		grace = 1                       // seconds
		lag   = 1500 * time.Millisecond // of slices behind Pods
		rate  = 1000                    // requests a second, at least
	)
	c := cluster.Start(t, cluster.SlicesLag(lag))
	c.Apply(t, lingering("web", 10, grace)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	s := c.Sallyport(t, "--access-log=json")
	s.Expect(t, "http://web.test/", cluster.Served("web"))
	before := c.Pods(t, "web")
	load := e2e.StartLoad(t, s.Process, 64, 20*time.Millisecond, e2e.Target{URL: "http://web.test/"}, e2e.Target{URL: "https://web.test/"})
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
