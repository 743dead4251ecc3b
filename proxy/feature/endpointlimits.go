package feature

import "time"

// endpointLimits bound what an endpoint has to do at a time.
func endpointLimits(a *Annotations, d *Draft) {
	a.Section("Limits of endpoints", ReachService, "With endpoint-max-connections an endpoint has no more requests and WebSockets than that under way, from each replica. Where "+
		"all have as many a request waits in a line, first come, first served. Once the line is full, or a request has waited for endpoint-pending-timeout, "+
		"the answer is 503 with Retry-After, and its reason upstream_overloaded. Without endpoint-max-connections nothing is bounded and nothing waits, as in ingress-nginx.")
	connections := a.Int("endpoint-max-connections", 0, "how many requests and WebSockets an endpoint has under way at most; 0 means no limit")
	pending := a.IntBetween("endpoint-max-pending", 100, 0, 1000000, "how many requests may wait for an endpoint of the Service port; with 0 none waits")
	timeout := a.IntBetween("endpoint-pending-timeout", 5, 1, 3600, "the seconds that a request may wait")
	if connections == 0 || a.Failed() {
		return
	}
	d.Service.EndpointConnections = connections
	d.Service.Pending = pending
	d.Service.PendingTimeout = time.Duration(timeout) * time.Second
}
