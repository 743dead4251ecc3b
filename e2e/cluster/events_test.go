//go:build controlplane

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"sallyport/e2e"
	"sallyport/e2e/cluster"
)

// eventsOn are the Events on an Ingress of namespace default with a reason.
func eventsOn(t testing.TB, c *cluster.Cluster, ingress, reason string) []eventsv1.Event {
	t.Helper()
	list, err := c.Client().EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
	var all []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Kind == "Ingress" && event.Regarding.Name == ingress {
			all = append(all, event)
		}
	}
	return all
}

func expectEvent(t testing.TB, c *cluster.Cluster, ingress, reason, note string) {
	t.Helper()
	e2e.Eventually(t, fmt.Sprintf("Ingress %s has an Event %s", ingress, reason), func() error {
		events := eventsOn(t, c, ingress, reason)
		if len(events) != 1 || !strings.Contains(events[0].Note, note) {
			return fmt.Errorf("there are %d: %v", len(events), events)
		}
		return nil
	})
}

// brokenIngresses are Ingresses with one mistake each, and what their owner is told.
var brokenIngresses = []struct{ name, manifest, reason, note string }{
	{"unknown-service", ingress("unknown-service", ours, "rules:", rule("unknown-service.test", "/", "Prefix", "missing")), "ServiceNotFound", `"missing"`},
	{"unknown-port-name", ingress("unknown-port-name", ours, "rules:", `- {host: port-name.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: web}}}}]}}`), "PortNotFound", `"web"`},
	{"unknown-port-number", ingress("unknown-port-number", ours, "rules:", `- {host: port-number.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 81}}}}]}}`), "PortNotFound", "81"},
	{"resource", ingress("resource", ours, "rules:", `- {host: resource.test, http: {paths: [{path: /, pathType: Prefix, backend: {resource: {apiGroup: example.com, kind: Bucket, name: b}}}]}}`), "UnsupportedBackend", "Bucket"},
	{"missing-secret", ingress("missing-secret", ours, "tls: [{hosts: [missing-secret.test], secretName: nowhere}]", "rules:", rule("missing-secret.test", "/", "Prefix", "web")), "SecretNotFound", `"nowhere"`},
	{"foreign-secret", ingress("foreign-secret", ours, "tls: [{hosts: [foreign-secret.test], secretName: elsewhere}]", "rules:", rule("foreign-secret.test", "/", "Prefix", "web")), "SecretNotFound", `"elsewhere"`},
	{"foreign-service", ingress("foreign-service", ours, "rules:", rule("foreign-service.test", "/", "Prefix", "away")), "ServiceNotFound", `"away"`},
	{"conflict", ingress("conflict", ours, "rules:", rule("web.test", "/", "Prefix", "web")), "PathConflict", "default/web"},
	{"bad-annotation", annotated("bad-annotation", "nginx.ingress.kubernetes.io/ssl-redirect", "perhaps"), "BadAnnotation", `"perhaps"`},
	{"unknown-annotation", annotated("unknown-annotation", "nginx.ingress.kubernetes.io/ssl-redirekt", "true"), "UnknownAnnotation", "ssl-redirect"},
	{"unsupported-annotation", annotated("unsupported-annotation", "nginx.ingress.kubernetes.io/opentelemetry-operation-name", "web"), "UnsupportedAnnotation", "opentelemetry-operation-name"},
	{"bad-regex", strings.Replace(annotated("bad-regex", "nginx.ingress.kubernetes.io/use-regex", "true"), "{path: /, pathType: Prefix", `{path: "/a(b", pathType: ImplementationSpecific`, 1), "InvalidValue", "/a(b"},
	{"bad-certificate", ingress("bad-certificate", ours, "tls: [{hosts: [bad-certificate.test], secretName: garbage}]", "rules:", rule("bad-certificate.test", "/", "Prefix", "web")), "BadCertificate", `"garbage"`},
	{"other-host", ingress("other-host", ours, "tls: [{hosts: [other-host.test], secretName: certificate}]", "rules:", rule("other-host.test", "/", "Prefix", "web")), "HostNotCovered", `"other-host.test"`},
}

// annotated is an Ingress of ours with an annotation.
func annotated(name, annotation, value string) string {
	return strings.Replace(ingress(name, ours, "rules:", rule(name+".test", "/", "Prefix", "web")),
		"metadata: {name: "+name+"}", fmt.Sprintf("metadata: {name: %s, annotations: {%q: %q}}", name, annotation, value), 1)
}

// TestEveryMistakeIsAnEventWithinASecond creates Ingresses with mistakes while a good one is served: each has its Event
// within a second of being written, and the good one notices nothing.
func TestEveryMistakeIsAnEventWithinASecond(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, app("web", 1)+ingress("web", ours, "rules:", rule("web.test", "/", "Prefix", "web")))
	c.Kubectl(t, "create", "namespace", "elsewhere")
	c.Kubectl(t, "create", "service", "clusterip", "away", "--tcp=80:80", "--namespace=elsewhere")
	c.Kubectl(t, "create", "secret", "generic", "elsewhere", "--namespace=elsewhere", "--from-literal=a=b")
	c.Kubectl(t, "create", "secret", "generic", "garbage", "--type=kubernetes.io/tls", "--from-literal=tls.crt=a", "--from-literal=tls.key=b")
	c.Apply(t, c.Secret(t, "certificate", "covered.test"))
	s := c.Sallyport(t, "--publish-status-address=192.0.2.7")
	s.Expect(t, "http://web.test/", cluster.Served("web"))
	expectEvent(t, c, "web", "Served", "web.test")
	load := e2e.StartLoad(t, s.Process, 2, 5*time.Millisecond,
		e2e.Target{URL: "http://web.test/", Endpoints: c.Pods(t, "web")}, e2e.Target{URL: "https://web.test/", Endpoints: c.Pods(t, "web")})
	load.More(t, 20)

	events := watchEvents(t, c)
	for _, broken := range brokenIngresses {
		c.Apply(t, broken.manifest)
		written := time.Now()
		event := events.next(t, broken.name, broken.reason)
		took := time.Since(written)
		t.Logf("%s: %s after %v: %s", broken.name, event.Reason, took.Round(time.Millisecond), event.Note)
		if !strings.Contains(event.Note, broken.note) {
			t.Errorf("%s: the Event says %q, want a word about %s", broken.name, event.Note, broken.note)
		}
		if took > time.Second {
			t.Errorf("%s: its Event came after %v, want a second at most", broken.name, took)
		}
		if event.Type != "Warning" || event.Regarding.UID == "" || event.ReportingController != controller {
			t.Errorf("%s: the Event is of type %q, by %q, on an object with uid %q", broken.name, event.Type, event.ReportingController, event.Regarding.UID)
		}
		load.More(t, 20)
	}
	// A class that does not exist may be one that another controller knows: that Ingress is none of ours, to tell of or to write.
	c.Apply(t, ingress("missing-class", "missing", "rules:", rule("missing-class.test", "/", "Prefix", "web")))
	c.Apply(t, ingress("marker", ours, "rules:", rule("marker.test", "/", "Prefix", "missing")))
	events.next(t, "marker", "ServiceNotFound")
	if events := eventsOn(t, c, "missing-class", "UnknownIngressClass"); len(events) != 0 || statusOf(t, c, "missing-class") != "" {
		t.Errorf("an Ingress of a class that does not exist has Events %v and the status %q", events, statusOf(t, c, "missing-class"))
	}
	s.Check(t, "http://missing-class.test/", noRoute)
	load.Stop(t, int64(20*len(brokenIngresses)))
	for _, broken := range brokenIngresses {
		if n := len(eventsOn(t, c, broken.name, broken.reason)); n != 1 {
			t.Errorf("%s: %d Events %s, want one", broken.name, n, broken.reason)
		}
	}
	described := c.Kubectl(t, "describe", "ingress", "unknown-service")
	if !strings.Contains(described, "ServiceNotFound") {
		t.Errorf("kubectl describe does not show the Event:\n%s", described)
	}
}

// A stream is the Events of namespace default as they come.
type stream struct {
	watch.Interface
}

func watchEvents(t testing.TB, c *cluster.Cluster) stream {
	t.Helper()
	list, err := c.Client().EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Client().EventsV1().Events("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return stream{w}
}

// next waits for an Event on an Ingress with a reason.
func (s stream) next(t testing.TB, ingress, reason string) *eventsv1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		select {
		case change, ok := <-s.ResultChan():
			if !ok {
				t.Fatal(errors.New("the watch of Events has ended"))
			}
			event, isEvent := change.Object.(*eventsv1.Event)
			if isEvent && event.Regarding.Name == ingress && event.Reason == reason {
				return event
			}
		case <-ctx.Done():
			t.Fatalf("Ingress %s has no Event %s", ingress, reason)
		}
	}
}
