package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheFrontIsToldOfClientsWhenTheyChange: and of the very same ones otherwise, so that telling it costs nothing.
func TestTheFrontIsToldOfClientsWhenTheyChange(t *testing.T) {
	o := everyIngress()
	o.ConfigMap = Key{"ops", "config"}
	b, s := NewBuilder(o), snapshotOf(t, webService, pathTo("a", "a.test", "/"))
	keys := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "config"}, Data: data}
	}
	absent := b.Build(s).Clients
	if absent == nil || absent.Forwarded {
		t.Fatalf("without the ConfigMap: %+v, want that nobody is believed", absent)
	}
	s.Set(keys(map[string]string{"use-forwarded-headers": "true"}))
	on := b.Build(s).Clients
	if !on.Forwarded || absent.Forwarded {
		t.Errorf("with the key: %+v, before: %+v; want another one, which believes", on, absent)
	}
	s.Set(objects(t, pathTo("b", "b.test", "/"))[0])
	if got := b.Build(s).Clients; got != on {
		t.Errorf("an Ingress later: %+v at %p, want the same at %p", got, got, on)
	}
	s.Set(keys(map[string]string{"use-forwarded-headers": "true"}))
	if got := b.Build(s).Clients; got != on {
		t.Errorf("the same ConfigMap again: %+v at %p, want the same at %p", got, got, on)
	}
	s.Set(keys(map[string]string{"use-forwarded-headers": "true", "proxy-real-ip-cidr": "10.0.0.0/33"}))
	result := b.Build(s)
	wantProblems(t, result.Problems, "error ConfigMap ops/config: data[proxy-real-ip-cidr]: InvalidValue")
	if status, _ := ask(t, result, "a.test", "/"); status != 503 {
		t.Errorf("with a mistake about whom to trust the route answers %d, want 503", status)
	}
	s.Set(keys(nil))
	if got := b.Build(s).Clients; got.Forwarded || got == on {
		t.Errorf("without the key: %+v, want that nobody is believed", got)
	}
}

func TestWithoutConfigMapTheFrontIsToldNothing(t *testing.T) {
	if got := NewBuilder(everyIngress()).Build(snapshotOf(t, webService)).Clients; got != nil {
		t.Errorf("the front is told %+v, want nothing", got)
	}
}
