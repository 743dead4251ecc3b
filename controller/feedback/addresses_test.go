package feedback

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

// edge is the Service whose addresses are published.
var edge = controller.Key{Namespace: "a", Name: "edge"}

func nodePort() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge"}, Spec: corev1.ServiceSpec{Type: "NodePort"}}
}

// onNode is the EndpointSlice of edge with an endpoint on a node, ready or not.
func onNode(node string, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge-1", Labels: map[string]string{discoveryv1.LabelServiceName: "edge"}},
		Endpoints:  []discoveryv1.Endpoint{{NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// show is the addresses that are published for a Service, as texts.
func show(t *testing.T, w *Writer, p published) []string {
	t.Helper()
	list, err := w.addresses(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range list {
		if entry.IP != "" && entry.Hostname != "" {
			t.Errorf("%v has both", entry)
		}
		all = append(all, "ip "+entry.IP+" host "+entry.Hostname)
	}
	return all
}

func TestAddressesOfAService(t *testing.T) {
	for _, test := range []struct {
		name   string
		spec   corev1.ServiceSpec
		status []corev1.LoadBalancerIngress
		want   []string
	}{
		{"a load balancer and external IPs, sorted and each once",
			corev1.ServiceSpec{Type: "LoadBalancer", ExternalIPs: []string{"192.0.2.2"}, ClusterIPs: []string{"10.96.0.1"}},
			[]corev1.LoadBalancerIngress{{Hostname: "lb.test"}, {IP: "192.0.2.1"}, {IP: "192.0.2.2"}},
			[]string{"ip 192.0.2.1 host ", "ip 192.0.2.2 host ", "ip  host lb.test"}},
		{"a load balancer that has no address yet", corev1.ServiceSpec{Type: "LoadBalancer", ClusterIPs: []string{"10.96.0.1"}}, nil, nil},
		{"cluster IPs of both families", corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.96.0.1", "fd00::1"}}, nil,
			[]string{"ip 10.96.0.1 host ", "ip fd00::1 host "}},
		{"a headless Service", corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"None"}}, nil, nil},
		{"external IPs before cluster IPs", corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.96.0.1"}, ExternalIPs: []string{"192.0.2.9"}}, nil,
			[]string{"ip 192.0.2.9 host "}},
		{"external IPs before nodes", corev1.ServiceSpec{Type: "NodePort", ClusterIPs: []string{"10.96.0.1"}, ExternalIPs: []string{"192.0.2.9"}}, nil,
			[]string{"ip 192.0.2.9 host "}},
		{"an external name", corev1.ServiceSpec{Type: "ExternalName", ExternalName: "edge.test"}, nil, []string{"ip  host edge.test"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := &corev1.Service{Spec: test.spec}
			service.Status.LoadBalancer.Ingress = test.status
			w := &Writer{options: Options{Service: edge}}
			if got := show(t, w, published{service: service}); !slices.Equal(got, test.want) {
				t.Errorf("published is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAddressesOfTheFlagComeFirst(t *testing.T) {
	w := &Writer{options: Options{Addresses: []string{"b.test", "2001:DB8::1", "b.test"}, Service: edge}}
	if got, want := show(t, w, published{}), []string{"ip 2001:db8::1 host ", "ip  host b.test"}; !slices.Equal(got, want) {
		t.Errorf("published is %q, want %q", got, want)
	}
}

func TestAMissingServiceIsNotAnEmptyList(t *testing.T) {
	w := &Writer{options: Options{Service: edge}}
	if list, err := w.addresses(t.Context(), published{}); err == nil {
		t.Errorf("published is %v, want an error, so that what is shown stays", list)
	}
}

func TestNodesAreThoseOfReadyEndpoints(t *testing.T) {
	yes, no := true, false
	one, two, three := "node-1", "node-2", "node-3"
	var s controller.Snapshot
	s.Set(nodePort())
	s.Set(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge-1", Labels: map[string]string{discoveryv1.LabelServiceName: "edge"}},
		Endpoints: []discoveryv1.Endpoint{
			{NodeName: &three},
			{NodeName: &one, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
			{NodeName: &two, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
			{NodeName: &one, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
			{},
		},
	})
	if got, want := publishedOf(&s, edge).nodes, []string{one, three}; !slices.Equal(got, want) {
		t.Errorf("nodes are %q, want %q", got, want)
	}
}

func TestEndpointsOnAnotherNodeAreTakenWithoutAnUpdate(t *testing.T) {
	w := &Writer{options: Options{Service: edge}, statusy: make(chan struct{}, 1), eventy: make(chan struct{}, 1)}
	var s controller.Snapshot
	s.Set(nodePort())
	on := func(node string) { s.Set(onNode(node, true)) }
	served := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}
	on("node-1")
	w.UpdateEndpoints(&s)
	if w.latest.Load() != nil {
		t.Error("endpoints are taken before the first Update, which says what is served")
	}
	w.Update(&s, slices.Values([]*networkingv1.Ingress{served}), nil)
	<-w.statusy
	on("node-1")
	w.UpdateEndpoints(&s)
	if len(w.statusy) != 0 {
		t.Error("an endpoint on the same node wakes who writes the status of Ingresses")
	}
	on("node-2")
	w.UpdateEndpoints(&s)
	if now := w.latest.Load(); len(w.statusy) != 1 || !slices.Equal(now.service.nodes, []string{"node-2"}) || !slices.Equal(now.served, []*networkingv1.Ingress{served}) {
		t.Errorf("with an endpoint on another node, woken is %d, nodes are %q and served are %d Ingresses; want 1, node-2 and 1", len(w.statusy), now.service.nodes, len(now.served))
	}
}

func TestANodesExternalAddressIsPreferred(t *testing.T) {
	both := &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "node-1"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
	}}}
	internal := &corev1.Node{Status: corev1.NodeStatus{Addresses: both.Status.Addresses[:2]}}
	var w Writer
	if got := w.addressesOf(both); !slices.Equal(got, []string{"192.0.2.1"}) {
		t.Errorf("of a node with both: %q", got)
	}
	if got := w.addressesOf(internal); !slices.Equal(got, []string{"10.0.0.1"}) {
		t.Errorf("of a node with an internal one: %q", got)
	}
	w.options.InternalNodeAddresses = true
	if got := w.addressesOf(both); !slices.Equal(got, []string{"10.0.0.1"}) {
		t.Errorf("of a node with both, when the internal one is wanted: %q", got)
	}
}
