//go:build controlplane

package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

const leading = "nginx_ingress_controller_leader_election_status"

// leaderOf waits until exactly one of the replicas leads, and returns it and the others.
func leaderOf(t testing.TB, replicas ...*cluster.Sallyport) (leader *cluster.Sallyport, others []*cluster.Sallyport) {
	t.Helper()
	e2e.Eventually(t, "one replica leads", func() error {
		leader, others = nil, nil
		for _, s := range replicas {
			if s.Metric(t, leading) == 1 && leader == nil {
				leader = s
			} else {
				others = append(others, s)
			}
		}
		if leader == nil || len(others) != len(replicas)-1 {
			return errors.New("none does")
		}
		return nil
	})
	for _, s := range others {
		if s.Metric(t, leading) != 0 {
			t.Fatalf("%s leads and so does %s", leader.Name, s.Name)
		}
	}
	return leader, others
}

// TestAnotherReplicaGoesOnWhenTheLeaderIsKilled kills the replica that writes: status and Events go on within the time of
// the Lease, and what is there already is not told twice.
func TestAnotherReplicaGoesOnWhenTheLeaderIsKilled(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web"))+
		ingress("broken", ours, "rules:", rule("broken.test", "/", "Prefix", "missing")))
	const ttl = 6 * time.Second
	flags := []string{"--publish-status-address=192.0.2.7", "--election-ttl=" + ttl.String(), "--drain-delay=0"}
	first, second := c.Sallyport(t, flags...), c.Sallyport(t, flags...)
	leader, others := leaderOf(t, first, second)
	expectStatus(t, c, "web", "192.0.2.7")
	expectEvent(t, c, "broken", "ServiceNotFound", "missing")
	if one, two := first.AdminGet(t, "/routes"), second.AdminGet(t, "/routes"); one != two || !strings.Contains(one, "web.test") {
		t.Errorf("the replicas serve different tables:\n%s\nand\n%s", one, two)
	}

	leader.Kill()
	killed := time.Now()
	c.Apply(t, ingress("later", ours, "rules:", rule("later.test", "/", "Prefix", "absent")))
	expectStatus(t, c, "later", "192.0.2.7")
	status := time.Since(killed)
	expectEvent(t, c, "later", "ServiceNotFound", "absent")
	event := time.Since(killed)
	t.Logf("the status went on %v after the leader was killed, Events %v after it", status.Round(time.Millisecond), event.Round(time.Millisecond))
	// The Lease ends a TTL after its last renewal was seen, and is looked at every fifteenth of a TTL with a jitter: the last
	// renewal, and that it has ended, are each seen 2.2 of that late at most. Then there is the write itself.
	if most := ttl + ttl*44/150 + time.Second; status > most || event > most {
		t.Errorf("the status went on after %v and Events after %v, want within %v: the time of the Lease and that of noticing it", status, event, most)
	}
	e2e.Eventually(t, "the new leader counts another sighting of what was told before", func() error {
		events := eventsOn(t, c, "broken", "ServiceNotFound")
		if len(events) != 1 || events[0].Series == nil || events[0].Series.Count < 2 {
			return fmt.Errorf("the Events are %v", events)
		}
		return nil
	})

	survivor := others[0]
	third := c.Sallyport(t, flags...)
	leaderOf(t, survivor, third)
	survivor.Terminate() // gives the Lease back
	<-survivor.Exited()
	if lease, err := c.Client().CoordinationV1().Leases(cluster.Namespace).Get(t.Context(), "sallyport-leader", metav1.GetOptions{}); err != nil {
		t.Error(err)
	} else if holder := lease.Spec.HolderIdentity; holder != nil && *holder == survivor.Name {
		t.Errorf("%s has left and still holds the Lease", survivor.Name)
	}
	if got := statusOf(t, c, "web"); got != "192.0.2.7" {
		t.Errorf("a replica has left that was not the last, and the status is %q", got)
	}
	leaderOf(t, third)
}

// TestALeaderWithoutAnAPIServerStopsInTime has the API server say nothing to the leader alone: another replica leads within
// the time of the Lease, and never do both. The first goes on serving what it knows, and catches up when it is answered again.
func TestALeaderWithoutAnAPIServerStopsInTime(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 1)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	const ttl = 6 * time.Second
	flags := []string{"--publish-status-address=192.0.2.7", "--election-ttl=" + ttl.String(), "--drain-delay=0"}
	gate := c.Gate(t)
	gate.Delay(50 * time.Millisecond) // slow, to begin with
	first := c.LaunchVia(t, gate, flags...)
	first.WaitReady(t)
	leaderOf(t, first)
	expectStatus(t, c, "web", "192.0.2.7")
	second := c.Sallyport(t, flags...)
	first.Expect(t, "http://web.test/", cluster.Served("web"))

	gate.Freeze()
	frozen := time.Now()
	e2e.Eventually(t, "the other replica leads", func() error {
		// Asked in this order: the first stops before the second starts.
		if now := second.Metric(t, leading); now != 1 {
			return errors.New("it does not")
		}
		if first.Metric(t, leading) == 1 {
			t.Fatal("both lead")
		}
		return nil
	})
	if took, most := time.Since(frozen), ttl+ttl*44/150+time.Second; took > most {
		t.Errorf("the other replica leads after %v, want within %v", took, most)
	}
	c.Apply(t, ingress("later", ours, "rules:", rule("later.test", "/", "Prefix", "web")))
	expectStatus(t, c, "later", "192.0.2.7")
	first.Check(t, "http://web.test/", cluster.Served("web"))
	if err := first.Ready(); err != nil {
		t.Errorf("readiness is lost without an API server: %v", err)
	}
	gate.Thaw()
	first.Expect(t, "http://later.test/", cluster.Served("web"))
	if now := first.Metric(t, leading); now != 0 {
		t.Error("the first leads again, although the second does")
	}
}

// TestRollingTheControllerLosesNoRequest replaces every replica by a new one, under load through a balancer that goes by
// their readiness.
func TestRollingTheControllerLosesNoRequest(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	c.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	flags := []string{"--publish-status-address=192.0.2.7", "--drain-delay=1s"}
	replicas := []*cluster.Sallyport{c.Sallyport(t, flags...), c.Sallyport(t, flags...)}
	for _, s := range replicas {
		s.Expect(t, "http://web.test/", cluster.Served("web"))
	}
	expectStatus(t, c, "web", "192.0.2.7")
	balancer := cluster.Balance(t, replicas...)
	pods := c.Pods(t, "web")
	load := e2e.StartLoad(t, balancer.Process, 8, 5*time.Millisecond,
		e2e.Target{URL: "http://web.test/", Endpoints: pods}, e2e.Target{URL: "https://web.test/", Endpoints: pods})
	for _, old := range replicas {
		load.More(t, 200)
		fresh := c.Sallyport(t, flags...)
		balancer.Add(fresh)
		load.More(t, 200)
		old.Terminate()
		<-old.Exited()
		if code := old.ExitCode(); code != 0 {
			t.Errorf("%s ended with exit code %d", old.Name, code)
		}
	}
	load.More(t, 200)
	load.Stop(t, 1000)
	if got := statusOf(t, c, "web"); got != "192.0.2.7" {
		t.Errorf("after the roll the status is %q", got)
	}
}
