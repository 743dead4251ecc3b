package cluster

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

func secret(name string, kind corev1.SecretType, version string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, Labels: map[string]string{"version": version}}, Type: kind}
}

// naming is an Ingress that names Secrets.
func naming(name, version string, secrets ...string) *networkingv1.Ingress {
	i := ingress("x", name, version)
	for _, secret := range secrets {
		i.Spec.TLS = append(i.Spec.TLS, networkingv1.IngressTLS{SecretName: secret})
	}
	return i
}

// TestNamedSecretIsHeldWhateverItsType follows one Secret through its life.
func TestNamedSecretIsHeldWhateverItsType(t *testing.T) {
	a := newAPIServer(t)
	a.put(naming("a", "1", "s"), secret("s", corev1.SecretTypeOpaque, "1"), secret("password", corev1.SecretTypeOpaque, "1"))
	s, v := start(t, a, Options{})
	v.until("x/a=1", "Secret x/s=1")
	if v.calls != 1 {
		t.Errorf("the first snapshot with the Secret is number %d, want the first of all", v.calls)
	}
	a.put(secret("s", corev1.SecretTypeOpaque, "2"))
	v.until("x/a=1", "Secret x/s=2")
	a.remove(secret("s", corev1.SecretTypeOpaque, "2"))
	v.until("x/a=1")
	a.put(secret("s", corev1.SecretTypeTLS, "3"))
	v.until("x/a=1", "Secret x/s=3")
	a.put(secret("s", corev1.SecretTypeTLS, "4"))
	v.until("x/a=1", "Secret x/s=4")
	a.remove(secret("s", corev1.SecretTypeTLS, "4"))
	v.until("x/a=1")
	a.put(secret("s", corev1.SecretTypeOpaque, "5"))
	v.until("x/a=1", "Secret x/s=5")
	a.put(naming("b", "1", "s"))
	v.until("x/a=1", "x/b=1", "Secret x/s=5")
	a.put(naming("a", "2"))
	v.until("x/a=2", "x/b=1", "Secret x/s=5")
	a.remove(naming("b", "1"))
	v.until("x/a=2")
	if left := s.snapshot.Secret(controller.Key{Namespace: "x", Name: "s"}); left != nil {
		t.Errorf("a Secret that nobody names any more is held: %v", left)
	}
	if strings.Contains(a.requests(), "password") {
		t.Errorf("a Secret that nobody names is asked for:\n%s", a.requests())
	}
}

func TestSecretsOfOptionsAreHeld(t *testing.T) {
	a := newAPIServer(t)
	a.put(secret("fallback", corev1.SecretTypeOpaque, "1"))
	key := controller.Key{Namespace: "x", Name: "fallback"}
	s, v := start(t, a, Options{Namespaces: []string{"y"}, Secrets: []controller.Key{key}})
	v.until()
	if s.snapshot.Secret(key) == nil {
		t.Error("the first snapshot is without the Secret of the options")
	}
}

func TestFollowersAreLimited(t *testing.T) {
	a := newAPIServer(t)
	a.put(naming("a", "1", "s"), secret("s", corev1.SecretTypeOpaque, "1"), secret("r", corev1.SecretTypeOpaque, "1"))
	log := &lines{more: make(chan struct{}, 1)}
	s := newSource(t, a, Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	s.secrets.limit = 1
	v := run(t, s)
	v.until("x/a=1", "Secret x/s=1")
	a.put(naming("b", "1", "r"))
	v.until("x/a=1", "x/b=1", "Secret x/s=1")
	if text := log.text(); !strings.Contains(text, "limit=1 unread=1 object=\"Secret x/r\"") {
		t.Errorf("no word of the Secret that is not read in\n%s", text)
	}
	a.remove(naming("a", "1", "s"))
	v.until("x/b=1", "Secret x/r=1")
}

// TestSecretThatMayNotBeReadHoldsNothingUp names one in a namespace where we have no permission, until we have it.
func TestSecretThatMayNotBeReadHoldsNothingUp(t *testing.T) {
	a := newAPIServer(t)
	a.forbid("x/secrets")
	a.put(ingress("y", "a", "1"), secret("fallback", corev1.SecretTypeOpaque, "1"))
	log := &lines{more: make(chan struct{}, 1)}
	key := controller.Key{Namespace: "x", Name: "fallback"}
	s, v := start(t, a, Options{Namespaces: []string{"y"}, Secrets: []controller.Key{key}, Log: slog.New(slog.NewTextHandler(log, nil))})
	v.until("y/a=1")
	log.mu.Lock()
	text := log.String()
	log.mu.Unlock()
	for _, word := range []string{"permission", "verb=list", "resource=secrets", "namespace=x", "name=fallback"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in what is logged:\n%s", word, text)
		}
	}
	if strings.Contains(text, "no answer") {
		t.Errorf("the first snapshot waited although the Secret was refused:\n%s", text)
	}
	a.forbid("")
	v.next()
	if s.snapshot.Secret(key) == nil {
		t.Error("the Secret may be read now, and the next snapshot is without it")
	}
}

func TestSecretWithoutAnswerIsWaitedForWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &follower{synced: func() bool { return false }}
		s := &Source{log: slog.New(slog.DiscardHandler), secrets: newSecrets(nil, controller.Ref{})}
		s.secrets.followers[secretRef("x", "s")] = silent
		began := time.Now()
		if !s.awaitFollowers(t.Context()) || time.Since(began) != followerPatience {
			t.Errorf("waited %v for a Secret without an answer, want %v and then to go on", time.Since(began), followerPatience)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if s.awaitFollowers(ended) {
			t.Error("goes on after the end")
		}
	})
}
