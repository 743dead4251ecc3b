//go:build controlplane

package cluster

import "k8s.io/client-go/kubernetes"

// Client talks to the API server as the administrator, for what a test wants to measure or to read as an object.
func (c *Cluster) Client() kubernetes.Interface { return c.kubelet.client }
