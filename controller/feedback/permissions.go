package feedback

import "sallyport/controller"

// Permissions are what is asked of the API server in every namespace, and own those in the controller's own. What is
// published decides about more: addresses of nodes need to get nodes, and without a Service to publish, to get and list
// Pods in the own namespace.
func Permissions() (everywhere, own []controller.Permission) {
	everywhere = []controller.Permission{
		{Group: "networking.k8s.io", Resource: "ingresses/status", Verbs: []string{"patch"}, Why: "where an Ingress is served"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Why: "mistakes in objects"},
		{Group: "", Resource: "nodes", Verbs: []string{"get"}, Why: "the addresses of a Service of type NodePort"},
	}
	own = []controller.Permission{
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create", "get", "update"}, Why: "which replica writes"},
		{Group: "", Resource: "secrets", Verbs: []string{"create", "get", "update"}, Why: "keys of session tickets"},
	}
	return everywhere, own
}
