//go:build controlplane

package cluster_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/e2e/cluster"
)

// TestScaledToZeroAndUpAgain: a Service without Pods is answered 503 with the reason, and served again within 100 ms of
// the first EndpointSlice that has a ready one.
func TestScaledToZeroAndUpAgain(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 2)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	s := c.Sallyport(t)
	s.Expect(t, "http://web.test/", cluster.Served("web"))
	var slowest time.Duration
	for range 5 {
		c.Kubectl(t, "scale", "deployment/web", "--replicas=0")
		s.Expect(t, "http://web.test/", cluster.Refused(http.StatusServiceUnavailable, "no_endpoints"))
		ready := readySlice(t, c, "web")
		c.Kubectl(t, "scale", "deployment/web", "--replicas=2")
		s.Expect(t, "http://web.test/", cluster.Served("web"))
		served := time.Now()
		slowest = max(slowest, served.Sub(<-ready))
	}
	t.Logf("served %v after the first ready slice, at most", slowest.Round(time.Millisecond))
	if slowest > 100*time.Millisecond {
		t.Errorf("served %v after the first ready slice, want within 100 ms", slowest)
	}
}

// readySlice gives the time at which the next EndpointSlice of a Service with a ready endpoint was heard of.
func readySlice(t testing.TB, c *cluster.Cluster, service string) <-chan time.Time {
	t.Helper()
	slices := c.Client().DiscoveryV1().EndpointSlices("default")
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}
	list, err := slices.List(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	of.ResourceVersion = list.ResourceVersion
	watch, err := slices.Watch(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan time.Time, 1)
	go func() {
		defer watch.Stop()
		for change := range watch.ResultChan() {
			slice, isSlice := change.Object.(*discoveryv1.EndpointSlice)
			if !isSlice {
				t.Error(errors.New("the watch of EndpointSlices has ended"))
				return
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					heard <- time.Now()
					return
				}
			}
		}
	}()
	return heard
}
