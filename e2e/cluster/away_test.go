//go:build controlplane

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// TestServesWhileTheAPIServerIsAway stops the API server under load: no request fails, readiness holds, and what is
// changed after it came back is served.
func TestServesWhileTheAPIServerIsAway(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	s := c.Sallyport(t)
	var pods []string
	e2e.Eventually(t, "both Pods answer", func() error {
		pods = c.Pods(t, "web")
		seen := make(map[string]bool)
		for range 4 {
			answer, err := s.Get("http://web.test/")
			if err != nil {
				return err
			}
			seen[answer.Echo.Pod] = true
		}
		if len(pods) != 2 || !seen[pods[0]] || !seen[pods[1]] {
			return fmt.Errorf("of %q, %v answered", pods, seen)
		}
		return nil
	})
	load := e2e.StartLoad(t, s.Process, 4, 2*time.Millisecond,
		e2e.Target{URL: "http://web.test/", Endpoints: pods},
		e2e.Target{URL: "https://web.test/", Endpoints: pods},
	)
	load.More(t, 200)
	c.StopAPIServer(t)
	load.More(t, 2000)
	if err := s.Ready(); err != nil {
		t.Errorf("readiness is lost while the API server is away: %v", err)
	}
	c.StartAPIServer(t)
	c.Apply(t, ingress("later", ours, "rules:", rule("later.test", "/", "Prefix", "web")))
	s.Expect(t, "http://later.test/", cluster.Served("web"))
	load.Stop(t, 2200)
}
