package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/controller/feedback"
	"sallyport/proxy/admin"
)

// ownNamespace is where a Pod finds the name of its namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// newFeedback is what writes to the cluster of a source. It is nil outside a pod, when nothing says to which namespace this
// process belongs: a cluster that is looked at from a laptop is read, and nothing more.
func newFeedback(w world, c config.Config, from clusterSource, orders *orderer, metrics *admin.Metrics, tickets func([][32]byte), log *slog.Logger) (*feedback.Writer, error) {
	pod, namespace := ownPod(w)
	if namespace == "" {
		if c.PublishService != (config.Name{}) || len(c.PublishStatusAddress) > 0 {
			return nil, usageError{errors.New("--publish-service and --publish-status-address write to the cluster, which needs a Lease: set POD_NAMESPACE to the namespace it is to be in")}
		}
		log.Info("outside a pod, without POD_NAMESPACE: no status and no Event is written")
		return nil, nil
	}
	lease := c.ElectionID
	if c.DisableLeaderElection {
		lease = ""
	}
	var work func(context.Context)
	if orders != nil {
		work = orders.manager.Run
	}
	return feedback.New(feedback.Options{
		Work:                  work,
		Config:                from.source.Config(),
		Identity:              identity(pod),
		Pod:                   pod,
		Namespace:             namespace,
		Lease:                 lease,
		LeaseDuration:         c.ElectionTTL,
		Addresses:             c.PublishStatusAddress,
		Service:               controller.Key(c.PublishService),
		InternalNodeAddresses: c.ReportNodeInternalIPAddress,
		NoStatus:              !c.UpdateStatus,
		KeepStatus:            !c.UpdateStatusOnShutdown,
		NoServed:              c.DisableSyncEvents,
		Tickets:               tickets,
		Leading:               metrics.Lead(c.ElectionID),
		Log:                   log,
	})
}

// ownPod is the name of this process's Pod and its namespace; empty when they are not known.
func ownPod(w world) (name, namespace string) {
	name, _ = w.lookup("POD_NAME")
	namespace, _ = w.lookup("POD_NAMESPACE")
	if _, inPod := w.lookup("KUBERNETES_SERVICE_HOST"); inPod {
		if name == "" {
			name, _ = os.Hostname() // a Pod's is its name
		}
		if text, err := os.ReadFile(ownNamespace); namespace == "" && err == nil {
			namespace = strings.TrimSpace(string(text))
		}
	}
	return name, namespace
}

// identity is the name of a Pod, which no other has at the same time; or else of this machine and this run.
func identity(pod string) string {
	if pod != "" {
		return pod
	}
	host, _ := os.Hostname()
	return host + "_" + rand.Text()
}
