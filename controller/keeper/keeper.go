// Package keeper keeps what certs/acme has to keep as Secrets of the controller's own namespace: the account, the orders that
// are open, and a Secret of type kubernetes.io/tls for each host.
//
//	keeper, err := keeper.New(keeper.Options{Config: source.Config(), Namespace: "sallyport"})
//	manager, err := acme.New(acme.Options{Store: keeper, ...})
//
// The replica that leads writes; controller/cluster watches what is written, in every replica, so that each serves the
// certificates and answers the authority. A Secret is written only over the version that was read or written before: a
// replica that led once, and does not know yet that another does, writes nothing.
//
// # What it does not do
//
// It touches no Secret without the labels that it gives to its own, and deletes none but certificates that are of no use to
// anybody, as certs/acme sees it.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"sallyport/certs/acme"
	"sallyport/controller"
)

// Permissions are what is asked of the API server in the controller's own namespace, beside what controller/cluster asks.
func Permissions() []controller.Permission {
	return []controller.Permission{
		{Group: "", Resource: "secrets", Verbs: []string{"create", "get", "update", "list", "delete"}, Why: "certificates that were ordered, and their account"},
	}
}

// Options say where.
type Options struct {
	// Config is how the API server is reached.
	Config *rest.Config
	// Namespace is the controller's own.
	Namespace string
}

// ours are the Secrets that are kept here.
var ours = labels.SelectorFromSet(controller.OrderedLabels)

// answerWithin is how long the API server has for one answer.
const answerWithin = 10 * time.Second

// A Keeper is an [acme.Store].
type Keeper struct {
	namespace string
	secrets   coreclient.SecretInterface

	mu    sync.Mutex
	known map[string]*corev1.Secret // without data, as they were last read or written
}

// New prepares to keep. It asks nothing of the API server yet.
func New(o Options) (*Keeper, error) {
	if o.Namespace == "" {
		return nil, errors.New("a Keeper needs a namespace")
	}
	config := rest.CopyConfig(o.Config)
	config.Timeout = answerWithin
	core, err := coreclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to keep certificates: %w", err)
	}
	return &Keeper{namespace: o.Namespace, secrets: core.Secrets(o.Namespace), known: make(map[string]*corev1.Secret)}, nil
}

// Load is for [acme.Store].
func (k *Keeper) Load(ctx context.Context, name string) (map[string][]byte, error) {
	secret, err := k.secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		k.know(name, nil)
		return nil, acme.ErrNotKept
	}
	if err != nil {
		return nil, err
	}
	k.know(name, secret)
	return secret.Data, nil
}

// Save is for [acme.Store].
func (k *Keeper) Save(ctx context.Context, name string, data map[string][]byte) error {
	k.mu.Lock()
	known := k.known[name]
	k.mu.Unlock()
	secret := controller.OrderedSecret(k.namespace, name, data)
	var err error
	if known == nil {
		secret, err = k.secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		if !ours.Matches(labels.Set(known.Labels)) {
			return fmt.Errorf("the Secret %s/%s is not one that Sallyport keeps, since it has not the labels %v: give it another name, or delete it", k.namespace, name, ours)
		}
		// Somebody's own labels stay.
		secret.Labels, secret.Annotations, secret.ResourceVersion, secret.Type = known.Labels, known.Annotations, known.ResourceVersion, known.Type
		secret, err = k.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		k.know(name, secret)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		// Somebody else wrote it, who may lead by now: this is not written. Whoever still leads may write it next time.
		if _, failure := k.Load(ctx, name); failure != nil && !errors.Is(failure, acme.ErrNotKept) {
			return errors.Join(err, failure)
		}
	}
	return err
}

// Clean is for [acme.Store]. What is deleted is the version that was asked about, or nothing is.
func (k *Keeper) Clean(ctx context.Context, useless func(name string, data map[string][]byte) bool) error {
	secrets, err := k.secrets.List(ctx, metav1.ListOptions{LabelSelector: ours.String()})
	if err != nil {
		return err
	}
	var failures error
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Type != corev1.SecretTypeTLS || len(secret.OwnerReferences) > 0 || !useless(secret.Name, secret.Data) {
			continue
		}
		err := k.secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}})
		switch {
		case err == nil:
			k.know(secret.Name, nil)
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			failures = errors.Join(failures, err)
		}
	}
	return failures
}

func (k *Keeper) know(name string, secret *corev1.Secret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if secret == nil {
		delete(k.known, name)
		return
	}
	bare := *secret
	bare.Data = nil
	k.known[name] = &bare
}
