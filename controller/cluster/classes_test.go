package cluster

import (
	"log/slog"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// classed is an Ingress of a class by field, and one by annotation unless that is empty.
func classed(name, field, annotation, version string) *networkingv1.Ingress {
	i := ingress("x", name, version)
	if field != "" {
		i.Spec.IngressClassName = &field
	}
	if annotation != "" {
		i.Annotations = map[string]string{classAnnotation: annotation}
	}
	return i
}

// TestWithoutClassesAnIngressGoesByItsAnnotation refuses IngressClasses for a while, and then allows them.
func TestWithoutClassesAnIngressGoesByItsAnnotation(t *testing.T) {
	a := newAPIServer(t)
	a.forbid("ingressclasses")
	a.put(classed("neither", "", "", "1"), classed("annotation", "", "c", "1"), classed("field", "c", "", "1"), classed("both", "other", "c", "1"))
	var log lines
	s, v := start(t, a, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	v.until("x/neither=1", "x/annotation=1", "x/both=1")
	if !s.Synced() {
		t.Error("without IngressClasses the source is not ready")
	}
	if text := log.text(); !strings.Contains(text, "annotation kubernetes.io/ingress.class alone") || !strings.Contains(text, `cannot list resource \"ingressclasses\"`) {
		t.Errorf("the log does not say what is missing and what follows:\n%s", text)
	}
	a.put(classed("field", "c", "", "2"), classed("both", "other", "c", "2"), classed("later", "c", "", "2"))
	v.until("x/neither=1", "x/annotation=1", "x/both=2")
	a.remove(classed("both", "", "", "2"))
	v.until("x/neither=1", "x/annotation=1")
	a.put(classed("both", "other", "c", "3"))
	v.until("x/neither=1", "x/annotation=1", "x/both=3")

	a.forbid("")
	v.until("x/neither=1", "x/annotation=1", "x/both=3", "x/field=2", "x/later=2")
	a.remove(classed("later", "c", "", "2"))
	v.until("x/neither=1", "x/annotation=1", "x/both=3", "x/field=2")
}

// TestTheFieldCountsOnceClassesAreRead looks at the object itself: without classes it has no field, with them it has.
func TestTheFieldCountsOnceClassesAreRead(t *testing.T) {
	a := newAPIServer(t)
	a.forbid("ingressclasses")
	a.put(classed("both", "c", "c", "1"), &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	_, v := start(t, a, Options{})
	v.until("x/both=1")
	if v.lastFields["x/both"] != "" {
		t.Errorf("without IngressClasses the field is %q, want none", v.lastFields["x/both"])
	}
	a.forbid("")
	for v.lastFields["x/both"] == "" {
		v.next()
	}
}

// TestClassesThatMayNoLongerBeReadStay takes the permission away while they are watched.
func TestClassesThatMayNoLongerBeReadStay(t *testing.T) {
	a := newAPIServer(t)
	a.put(classed("field", "c", "", "1"))
	_, v := start(t, a, Options{})
	v.until("x/field=1")
	a.lose(func() { a.forbid("ingressclasses") }) // every watch ends
	a.put(classed("field", "c", "", "2"))
	v.until("x/field=2")
}
