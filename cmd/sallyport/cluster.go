package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"k8s.io/apimachinery/pkg/labels"

	"sallyport/config"
)

// openCluster prepares to read a cluster.
func openCluster(c config.Config, log *slog.Logger) (source, error) {
	if _, err := labels.Parse(c.WatchNamespaceSelector); err != nil {
		return nil, usageError{fmt.Errorf("--watch-namespace-selector: %q is not a label selector: %w", c.WatchNamespaceSelector, err)}
	}
	if _, err := os.Stat(c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return nil, errors.New("clusters are not served by this build")
}
