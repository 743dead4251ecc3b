package feature

// serviceUpstream leads requests to the address of the Service itself (reference B2 #19).
func serviceUpstream(a *Annotations, d *Draft) {
	a.Section("Address of the Service", ReachPaths, "With service-upstream requests go to the Service's cluster IP, from where a service mesh or kube-proxy takes "+
		"them to a Pod: balancing, retries and health are theirs then. A Service without a cluster IP keeps its endpoints, with a problem. In ingress-nginx "+
		"the oldest Ingress of a Service port decides for all; here each Ingress decides for its own routes. A bad value leaves what the ConfigMap says.")
	d.ServiceUpstream = a.Shared().Bool("service-upstream", false, "whether requests go to the address of the Service instead of its endpoints")
}
