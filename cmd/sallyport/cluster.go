package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/controller/cluster"
)

// clusterSource is a source of the objects of a cluster.
type clusterSource struct{ source *cluster.Source }

func (s clusterSource) Run(ctx context.Context, changed func(state)) error {
	return s.source.Run(ctx, func(snapshot *controller.Snapshot) { changed(state{snapshot: snapshot}) })
}

func (s clusterSource) Nudge() { s.source.Nudge() }

// openCluster prepares to read a cluster, which is not asked for anything yet.
func openCluster(w world, c config.Config, log *slog.Logger) (source, error) {
	selector, err := labels.Parse(c.WatchNamespaceSelector)
	if err != nil {
		return nil, usageError{fmt.Errorf("--watch-namespace-selector: %q is not a label selector: %w", c.WatchNamespaceSelector, err)}
	}
	var secrets []controller.Key
	if c.DefaultSSLCertificate != (config.Name{}) {
		secrets = append(secrets, controller.Key(c.DefaultSSLCertificate))
	}
	from, err := cluster.New(cluster.Options{
		Kubeconfig:        c.Kubeconfig,
		Namespaces:        c.WatchNamespaces,
		NamespaceSelector: selector,
		Service:           controller.Key(c.PublishService),
		Secrets:           secrets,
		ConfigMap:         controller.Key(c.ConfigMap),
		ConfigMaps:        keysGiven(controller.Key(c.TCPServices), controller.Key(c.UDPServices)),
		Ordered:           ordersNamespace(w, c),
		Hints:             c.EnableTopologyAwareRouting,
		Node:              nodeToRead(c),
		Log:               log,
	})
	if err != nil {
		return nil, err
	}
	return clusterSource{from}, nil
}

// nodeToRead is the node whose zone is to be read from the cluster; empty where nobody asks for it, or the zone is known.
func nodeToRead(c config.Config) string {
	if !c.EnableTopologyAwareRouting || c.Zone != "" {
		return ""
	}
	return c.NodeName
}

// apiServers are the addresses of the API server that a pod is told.
func apiServers(w world) []netip.Addr {
	host, _ := w.lookup("KUBERNETES_SERVICE_HOST")
	address, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return []netip.Addr{address.Unmap()}
}

// clusterMetrics are what the client libraries count of their talk with the API server. Their registry has Go's and the
// process's numbers too, which are ours already and may not be there twice.
func clusterMetrics() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := metrics.Registry.Gather()
		return slices.DeleteFunc(all, func(family *dto.MetricFamily) bool {
			return strings.HasPrefix(family.GetName(), "go_") || strings.HasPrefix(family.GetName(), "process_")
		}), err
	})
}
