// Package cluster reads the objects of a Kubernetes cluster and keeps a controller.Snapshot of them up to date.
//
//	source, err := cluster.New(cluster.Options{Kubeconfig: path})
//	err = source.Run(ctx, func(s *controller.Snapshot) { builder.Build(s) })
//
// It is a controller-runtime cache with one informer for each kind in [Permissions], and nothing else: every replica reads
// and serves, nobody waits for a leader.
//
// # Bursts
//
// A rollout is hundreds of events. They are collected by object, so that of several versions only the newest counts, and
// handed over when none has come for a few milliseconds, or when the oldest has waited long enough; see [quiet] and
// [patience]. Run calls its function from one goroutine, and first when every kind has been read to the end.
//
// # An API server that goes away
//
// changes nothing: informers keep what they have and ask again until it is back, see patient.go. Nothing is deleted because
// nobody answers. A permission that is missing is logged by its verb and resource, and everything else goes on. Two kinds do not
// keep the first snapshot back when they may not be read, and are taken up as soon as they may: a Secret that is followed
// alone, and IngressClasses, see classes.go.
//
// # What is not held
//
// v1 Endpoints, managed fields, kubectl's last-applied annotation, and Secrets of other types than kubernetes.io/tls but
// the few that are named: those are followed one by one, see [Options] and secrets.go.
//
// # What it does not do
//
// It writes nothing: status, Events and leases are the business of controller/feedback, certificates that of controller/keeper. It decides nothing about an object but whether its
// namespace is watched.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sallyport/certs/acme"
	"sallyport/controller"
)

// Options say which cluster is read, and how much of it.
type Options struct {
	// Kubeconfig is the file that names the cluster. Empty: the cluster that this process is a Pod of.
	Kubeconfig string
	// Namespaces restricts what is read to some namespaces. Empty: all. It excludes NamespaceSelector.
	Namespaces []string
	// NamespaceSelector restricts the Ingresses to those of namespaces with matching labels, as they change. Nil or empty:
	// all.
	NamespaceSelector labels.Selector
	// Service is held with its EndpointSlices although its namespace may not be among Namespaces: the one in front of this
	// controller. Zero: none.
	Service controller.Key
	// Secrets are held whatever their type and namespace, although no Ingress names them: that of the default certificate.
	Secrets []controller.Key
	// ConfigMap is the controller's, which is held whatever its namespace, and so are those that it names. Zero: none.
	ConfigMap controller.Key
	// ConfigMaps are held whatever their namespaces: those with the Services of further ports.
	ConfigMaps []controller.Key
	// Ordered is the namespace of the certificates that are ordered (controller/keeper), which are held whatever the others.
	// Empty: none are.
	Ordered string
	// Hints are held of EndpointSlices: which nodes and zones an endpoint is for.
	Hints bool
	// Node is the node that this process runs on, whose zone is read. Empty: nobody wants to know.
	Node string
	// Log gets what client libraries say too. Nil: slog.Default().
	Log *slog.Logger
}

const (
	quiet    = 10 * time.Millisecond // without an event before a change is handed over
	patience = 50 * time.Millisecond // after the first event, however many follow: a change is served within 100 ms in a burst too
)

// A Source is the objects of a cluster.
type Source struct {
	config       *rest.Config
	cacheOptions cache.Options
	cache        cache.Cache
	kinds        []client.Object
	node         string
	log          *slog.Logger
	synced       atomic.Bool
	nudged       atomic.Bool // changed is to be called whatever the objects say

	// Used by the goroutine of feed alone.
	snapshot  controller.Snapshot
	chosen    *chosen // nil: every namespace
	classes   classes
	secrets   *secrets
	following sync.WaitGroup // the followers of secrets, and who waits for classes

	mu    sync.Mutex // guards dirty
	dirty map[controller.Ref]client.Object
	wake  chan struct{} // has room for one: something is dirty
}

// New prepares to read a cluster. It asks nothing of it yet.
func New(o Options) (*Source, error) {
	if len(o.Namespaces) > 0 && o.NamespaceSelector != nil && !o.NamespaceSelector.Empty() {
		return nil, errors.New("namespaces are either named or selected by labels, not both")
	}
	config, err := restConfig(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	s := &Source{
		config:  config,
		log:     o.Log,
		kinds:   kinds(o),
		node:    o.Node,
		secrets: newSecrets(o.always()),
		dirty:   make(map[controller.Ref]client.Object),
		wake:    make(chan struct{}, 1),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if o.NamespaceSelector != nil && !o.NamespaceSelector.Empty() {
		s.chosen = newChosen(o.NamespaceSelector)
	}
	bridgeLogs(s.log)
	s.cacheOptions = s.newCacheOptions(o)
	if s.cacheOptions.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("read how to reach the cluster: %w", err)
	}
	s.cacheOptions.HTTPClient.Transport = &patient{next: s.cacheOptions.HTTPClient.Transport, log: s.log}
	if s.cache, err = cache.New(config, s.cacheOptions); err != nil {
		return nil, fmt.Errorf("prepare to read the cluster: %w", err)
	}
	return s, nil
}

// always are the objects that are held although no Ingress names them, and the controller's ConfigMap among them.
func (o *Options) always() (refs []controller.Ref, config controller.Ref) {
	for _, key := range o.Secrets {
		refs = append(refs, secretRef(key.Namespace, key.Name))
	}
	if o.Ordered != "" {
		refs = append(refs, secretRef(o.Ordered, acme.OrdersName()))
	}
	for _, key := range o.ConfigMaps {
		refs = append(refs, controller.Ref{Kind: "ConfigMap", Namespace: key.Namespace, Name: key.Name})
	}
	if o.ConfigMap != (controller.Key{}) {
		config = controller.Ref{Kind: "ConfigMap", Namespace: o.ConfigMap.Namespace, Name: o.ConfigMap.Name}
		refs = append(refs, config)
	}
	return refs, config
}

// restConfig reads a kubeconfig file, or what a Pod is given. The current cluster of a developer's machine is never used
// without having been named.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read how to reach the cluster: %w", err)
	}
	config.UserAgent = "sallyport"
	config.QPS = -1 // the API server's priority and fairness decides who waits
	return config, nil
}

var bridged sync.Once

// bridgeLogs sends what the client libraries say, which have one logger a process, to log.
func bridgeLogs(log *slog.Logger) {
	bridged.Do(func() {
		klog.SetSlogLogger(log)
		ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	})
}

// Config is how the API server is reached.
func (s *Source) Config() *rest.Config { return s.config }

// Synced reports whether every kind has been read to the end, once. It stays true when the API server goes away.
func (s *Source) Synced() bool { return s.synced.Load() }

// Run reads until ctx ends, which makes it return nil. It calls changed with the snapshot after every burst of changes,
// and first when everything has been read. The snapshot may be used until changed returns.
func (s *Source) Run(ctx context.Context, changed func(*controller.Snapshot)) error {
	for _, object := range s.kinds {
		informer, err := s.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(handler(s.note))
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		if _, are := object.(*networkingv1.IngressClass); are {
			s.classes.synced = registration.HasSynced
			continue
		}
		s.classes.others = append(s.classes.others, registration.HasSynced)
	}
	complete := append(slices.Clone(s.classes.others), s.classes.answered)
	ctx, stop := context.WithCancel(ctx)
	var feed sync.WaitGroup
	feed.Go(func() {
		if toolscache.WaitForCacheSync(ctx.Done(), complete...) {
			s.feed(ctx, changed)
		}
	})
	err := s.cache.Start(ctx)
	stop() // Start may have failed
	feed.Wait()
	return err
}
