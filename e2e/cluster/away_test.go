//go:build controlplane

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

const (
	away     = time.Minute     // that the API server is stopped
	catchUp  = 2 * time.Second // for what it did not tell meanwhile
	portions = 100             // requests between two looks at the clock
)

// TestServesWhileTheAPIServerIsAway stops the API server for a minute under load. Objects change meanwhile, and history
// is compacted, so that no watch can be resumed: no request fails, readiness holds, and within two seconds of its return
// every change is served.
func TestServesWhileTheAPIServerIsAway(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+app("other", 1)+
		ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web"))+
		ingress("leaves", ours, "rules:", rule("leaves.test", "/", "Prefix", "web"))+
		ingress("returns", ours, "rules:", rule("returns.test", "/", "Prefix", "web"))+
		ingress("changes", ours, "rules:", rule("changes.test", "/", "Prefix", "other")))
	for _, name := range []string{"web", "other"} {
		c.Kubectl(t, "rollout", "status", "deployment/"+name, "--timeout=60s")
	}
	leaves, returns, changes := c.Stored(t, "ingress/default/leaves"), c.Stored(t, "ingress/default/returns"), c.Stored(t, "ingress/default/changes")
	c.Kubectl(t, "delete", "ingress", "returns")
	c.Apply(t, ingress("changes", ours, "rules:", rule("changes.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	for host, want := range map[string]cluster.Want{
		"leaves": cluster.Served("web"), "returns": noRoute, "changes": cluster.Served("web"), "web": cluster.Served("web"),
	} {
		s.Expect(t, "http://"+host+".test/", want)
	}

	load := e2e.StartLoad(t, s.Process, 4, 5*time.Millisecond, e2e.Target{URL: "http://web.test/"}, e2e.Target{URL: "https://web.test/"})
	load.More(t, portions)
	c.StopAPIServer(t)
	stopped := time.Now()
	late := c.Launch(t)
	c.Remove(t, leaves)
	c.PutBack(t, returns)
	c.PutBack(t, changes)
	c.Compact(t)
	for time.Since(stopped) < away {
		load.More(t, portions)
		if err := s.Ready(); err != nil {
			t.Fatalf("readiness is lost after %v without an API server: %v", time.Since(stopped), err)
		}
		if late.Ready() == nil {
			t.Fatal("a replica is ready that has read nothing")
		}
	}
	c.StartAPIServer(t)
	returned := time.Now()
	s.Expect(t, "http://leaves.test/", noRoute)
	s.Expect(t, "http://returns.test/", cluster.Served("web"))
	s.Expect(t, "http://changes.test/", cluster.Served("other"))
	took := time.Since(returned)
	t.Logf("all changes were served %v after the API server was ready", took.Round(time.Millisecond))
	if took > catchUp {
		t.Errorf("the last change was served %v after the API server was ready, want within %v", took, catchUp)
	}
	late.WaitReady(t)
	late.Check(t, "http://changes.test/", cluster.Served("other"))
	if err := s.Ready(); err != nil {
		t.Error(fmt.Errorf("readiness is lost with the API server's return: %w", err))
	}
	load.Stop(t, 10*portions)
}
