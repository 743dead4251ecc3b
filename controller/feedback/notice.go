package feedback

import (
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sallyport/controller"
)

// The reasons of Events beside those of problems, which are in [controller.Problem].
const (
	// ReasonServed is of the Event that an Ingress gets when it is first served.
	ReasonServed = "Served"
	// ReasonStatusContested is of the Event that an Ingress gets whose status another controller keeps writing.
	ReasonStatusContested = "StatusContested"
)

const (
	reporting   = "sallyport/ingress-controller"
	longestName = 253  // of an object; https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
	longestNote = 1024 // of an Event, in bytes; events.k8s.io/v1
)

// A notice is something to tell about one object. Equal notices are one Event, however often they come and go: an API server
// lets the series of an Event grow, and nothing else of it change. Notices of one object that differ in their words alone
// are therefore Events of their own, so the words may not hold what flaps, such as a count.
type notice struct {
	object controller.Ref
	uid    types.UID
	kind   string // "Normal" or "Warning"
	reason string
	field  string // empty: the whole object
	note   string // begins with the field
}

// noticesOf are the problems whose objects are in a snapshot, with the generation of the object, 0 for kinds that count none.
// A problem with a flag, or with an object that does not exist, has nobody to be told to but the log.
func noticesOf(s *controller.Snapshot, problems []controller.Problem) map[notice]int64 {
	all := make(map[notice]int64, len(problems))
	for _, p := range problems {
		object := s.Object(p.Object)
		if object == nil {
			continue
		}
		note := p.Message
		if p.Field != "" {
			note = p.Field + ": " + p.Message
		}
		n := noticeOf(p.Object, object, corev1.EventTypeWarning, p.Reason, note)
		n.field = p.Field
		all[n] = object.GetGeneration()
	}
	return all
}

// servedNotice says that an Ingress is served, and under which hosts.
func servedNotice(ingress *networkingv1.Ingress) notice {
	var hosts []string
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	note := "Requests for any host are served"
	if len(hosts) > 0 {
		note = "Requests are served for " + strings.Join(hosts, ", ")
	}
	return noticeOf(ingressRef(ingress), ingress, corev1.EventTypeNormal, ReasonServed, note)
}

// contestedNotice says that another controller keeps writing the status of an Ingress, which only people can settle.
func contestedNotice(ingress *networkingv1.Ingress) notice {
	return noticeOf(ingressRef(ingress), ingress, corev1.EventTypeWarning, ReasonStatusContested,
		"status.loadBalancer: another controller keeps writing it; let only one of them write the status of this class, with --update-status=false here or its like there")
}

func ingressRef(ingress *networkingv1.Ingress) controller.Ref {
	return controller.Ref{Kind: "Ingress", Namespace: ingress.Namespace, Name: ingress.Name}
}

func noticeOf(ref controller.Ref, object metav1.Object, kind, reason, note string) notice {
	return notice{object: ref, uid: object.GetUID(), kind: kind, reason: reason, note: shorten(note)}
}

// shorten cuts a note that an Event has no room for, between two characters.
func shorten(note string) string {
	if len(note) <= longestNote {
		return note
	}
	end := longestNote - len("…")
	for !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end] + "…"
}

// name is the same whichever replica tells it, and however often: who tells it again learns that it has been told.
func (n *notice) name() string {
	note := n.note
	if n.reason == ReasonServed {
		note = "" // once in the life of an Ingress, whatever hosts it has by then
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s\x00%s\x00%s\x00%s", n.uid, n.reason, n.field, note)
	suffix := fmt.Sprintf(".%016x", hash.Sum64())
	start := n.object.Name[:min(len(n.object.Name), longestName-len(suffix))]
	// Each part between two dots ends with a letter or a digit.
	return strings.TrimRight(start, "-.") + suffix
}

// namespace is that of the object; Events about objects without one are in default.
func (n *notice) namespace() string {
	if n.object.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return n.object.Namespace
}

// event is the notice as the API server takes it.
func (n *notice) event(instance string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: n.namespace(), Name: n.name()},
		EventTime:           metav1.NowMicro(),
		ReportingController: reporting,
		ReportingInstance:   instance[:min(len(instance), 128)],
		Type:                n.kind,
		Reason:              n.reason,
		Action:              "Serve",
		Note:                n.note,
		Regarding: corev1.ObjectReference{
			APIVersion: versionOf(n.object.Kind), Kind: n.object.Kind,
			Namespace: n.object.Namespace, Name: n.object.Name, UID: n.uid,
		},
	}
}

func versionOf(kind string) string {
	switch kind {
	case "Ingress", "IngressClass":
		return networkingv1.SchemeGroupVersion.String()
	case "EndpointSlice":
		return discoveryv1.SchemeGroupVersion.String()
	}
	return corev1.SchemeGroupVersion.String()
}
