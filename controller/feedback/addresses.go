package feedback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sallyport/controller"
)

// published is what a snapshot says of the Service whose addresses are published.
type published struct {
	service *corev1.Service // nil: there is none
	nodes   []string        // that run its Pods, sorted
}

func publishedOf(s *controller.Snapshot, key controller.Key) published {
	p := published{service: s.Service(key)}
	if p.service == nil || p.service.Spec.Type != corev1.ServiceTypeNodePort {
		return p
	}
	nodes := make(map[string]struct{})
	for _, slice := range s.Slices(key) {
		for _, endpoint := range slice.Endpoints {
			ready := endpoint.Conditions.Ready
			if endpoint.NodeName != nil && (ready == nil || *ready) {
				nodes[*endpoint.NodeName] = struct{}{}
			}
		}
	}
	p.nodes = slices.Sorted(maps.Keys(nodes))
	return p
}

// An answer is the addresses to publish, or why they are not known, as they were found at a time.
type answer struct {
	of   published
	at   time.Time
	list []networkingv1.IngressLoadBalancerIngress
	err  error
}

// good is how long an answer is used.
func (a *answer) good() time.Duration {
	if a.err != nil {
		return lookSoon
	}
	return lookAgain
}

// ask returns the addresses to publish: the last answer, unless it is about another version of the Service, or about Pods
// on other nodes, or old.
func (w *Writer) ask(ctx context.Context, p published, last answer) answer {
	if p.service == last.of.service && slices.Equal(p.nodes, last.of.nodes) && time.Since(last.at) < last.good() {
		return last
	}
	a := answer{of: p, at: time.Now()}
	a.list, a.err = w.addresses(ctx, p)
	if a.err != nil && ctx.Err() == nil && (last.err == nil || last.err.Error() != a.err.Error()) {
		w.failed("publish addresses in the status of Ingresses", a.err)
	}
	return a
}

// errMisconfigured is the mistake that nothing says what to publish. Any other error is about the moment.
var errMisconfigured = errors.New("nothing says which addresses to publish")

// addresses are what is to stand in the status of every Ingress, sorted. None is a valid answer: a load balancer that has
// no address yet. An error means that they are not known; what stands there stays.
func (w *Writer) addresses(ctx context.Context, p published) ([]networkingv1.IngressLoadBalancerIngress, error) {
	o := &w.options
	switch {
	case len(o.Addresses) > 0:
		return entries(o.Addresses), nil
	case o.Service == (controller.Key{}):
		nodes, err := w.nodesOfPods(ctx)
		if err != nil {
			return nil, err
		}
		return w.nodeAddresses(ctx, nodes)
	case p.service == nil:
		return nil, fmt.Errorf("%w: there is no Service %s, whose addresses are to be published", errMisconfigured, o.Service)
	}
	spec := &p.service.Spec
	switch {
	case spec.Type == corev1.ServiceTypeExternalName:
		return entries([]string{spec.ExternalName}), nil
	case spec.Type == corev1.ServiceTypeLoadBalancer:
		return balanced(p.service), nil
	case len(spec.ExternalIPs) > 0:
		return entries(spec.ExternalIPs), nil
	case spec.Type == corev1.ServiceTypeNodePort:
		return w.nodeAddresses(ctx, p.nodes)
	}
	return entries(slices.DeleteFunc(slices.Clone(spec.ClusterIPs), func(ip string) bool { return ip == corev1.ClusterIPNone })), nil
}

// balanced are the addresses of a Service of type LoadBalancer: those that its load balancer reports, and external IPs.
func balanced(service *corev1.Service) []networkingv1.IngressLoadBalancerIngress {
	all := slices.Clone(service.Spec.ExternalIPs)
	for _, entry := range service.Status.LoadBalancer.Ingress {
		// One of them is set; a cloud that sets both means the same place.
		all = append(all, cmp.Or(entry.IP, entry.Hostname))
	}
	return entries(all)
}

// entries are texts as entries of a status, sorted and each once: an IP address as ip, another as hostname.
func entries(texts []string) []networkingv1.IngressLoadBalancerIngress {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	var all []networkingv1.IngressLoadBalancerIngress
	for _, text := range slices.Compact(texts) {
		entry := networkingv1.IngressLoadBalancerIngress{Hostname: text}
		if address, err := netip.ParseAddr(text); err == nil {
			entry = networkingv1.IngressLoadBalancerIngress{IP: address.String()}
		}
		if text != "" {
			all = append(all, entry)
		}
	}
	return all
}

// nodeAddresses are the addresses of nodes: external ones where a node has them, else internal ones. A node that is gone
// has none. It is an error if there is none at all: the only replica restarts, say. The addresses will be there again in a
// moment, and whoever reads the status (a DNS controller does) would take an empty list for the truth.
func (w *Writer) nodeAddresses(ctx context.Context, names []string) ([]networkingv1.IngressLoadBalancerIngress, error) {
	var all []string
	for _, name := range names {
		node, err := w.core.Nodes().Get(ctx, name, metav1.GetOptions{})
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the addresses of a node: %w", err)
		}
		all = append(all, w.addressesOf(node)...)
	}
	if len(all) == 0 {
		return nil, errors.New("no node is known that runs a ready Pod; what stands there stays")
	}
	return entries(all), nil
}

func (w *Writer) addressesOf(node *corev1.Node) []string {
	var internal, external []string
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case corev1.NodeInternalIP:
			internal = append(internal, address.Address)
		case corev1.NodeExternalIP:
			external = append(external, address.Address)
		}
	}
	if len(external) == 0 || w.options.InternalNodeAddresses {
		return internal
	}
	return external
}

// nodesOfPods are the nodes that run the Pods with the labels of this one.
func (w *Writer) nodesOfPods(ctx context.Context) ([]string, error) {
	if w.options.Pod == "" {
		return nil, fmt.Errorf("%w, and this process is no Pod: set --publish-service or --publish-status-address, or --update-status=false", errMisconfigured)
	}
	pods := w.core.Pods(w.options.Namespace)
	self, err := pods.Get(ctx, w.options.Pod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read this replica's own Pod, to publish the addresses of its nodes: %w", err)
	}
	chosen := maps.Clone(self.Labels)
	for _, generation := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, appsv1.DeprecatedTemplateGeneration} {
		delete(chosen, generation) // another version of the same controller counts too
	}
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(chosen).String()})
	if err != nil {
		return nil, fmt.Errorf("read the controller's Pods, to publish the addresses of their nodes: %w", err)
	}
	var nodes []string
	for _, pod := range list.Items {
		if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.SortFunc(nodes, strings.Compare)
	return slices.Compact(nodes), nil
}
