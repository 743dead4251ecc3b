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

// TestRolloutLosesNoRequest rolls a Deployment of ten Pods three times under a load of a thousand requests a second, over
// HTTP/1.1 and HTTP/2. A Pod serves for a while after it is deleted and refuses connections from then on; that it is gone
// is known later.
//
// When that is within the Pod's while, one request in five is a POST with a body. When it is after it, endpoints refuse that
// are still there, and what waits in the queue of a listener that closes is reset: nobody can know whether a POST there was
// acted upon, so all are GET.
func TestRolloutLosesNoRequest(t *testing.T) {
	for _, test := range []struct {
		name    string
		seconds int // that a Pod serves after it is deleted
		lag     time.Duration
		getOnly bool
	}{
		{"slices lag within the grace of Pods", 2, 1500 * time.Millisecond, false},
		{"slices lag behind it", 1, 1500 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := cluster.Start(t, cluster.SlicesLag(test.lag))
			c.Apply(t, lingering("web", 10, test.seconds)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
			c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
			roll(t, c, test.getOnly)
		})
	}
}

func roll(t *testing.T, c *cluster.Cluster, getOnly bool) {
	s := c.Sallyport(t)
	s.Expect(t, "http://web.test/", cluster.Served("web"))
	before := c.Pods(t, "web")
	load := e2e.StartLoad(t, s.Process, 40, 30*time.Millisecond,
		e2e.Target{URL: "http://web.test/", GetOnly: getOnly}, e2e.Target{URL: "https://web.test/", GetOnly: getOnly})
	begun := time.Now()
	for range 3 {
		load.More(t, 500)
		c.Kubectl(t, "rollout", "restart", "deployment/web")
		c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=120s")
	}
	load.More(t, 3000) // the last Pods of the old kind end meanwhile
	t.Logf("%.0f requests a second", float64(load.Requests())/time.Since(begun).Seconds())
	load.Stop(t, 5000)
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
