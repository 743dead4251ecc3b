package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// zonePatience is how long the first snapshot waits to know the zone of this process.
const zonePatience = 5 * time.Second

// readZone tells the snapshot the zone of the node that this process runs on. Where that cannot be read, endpoints of all
// zones are used, which is worth a line of the log and no more.
func (s *Source) readZone(ctx context.Context) {
	if s.node == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, zonePatience)
	defer cancel()
	core, err := typedcorev1.NewForConfigAndClient(s.config, s.cacheOptions.HTTPClient)
	var node *corev1.Node
	if err == nil {
		node, err = core.Nodes().Get(ctx, s.node, metav1.GetOptions{})
	}
	switch {
	case err != nil:
		s.log.Warn("the zone of this process cannot be read, so endpoints of all zones are used; --zone says it too", "node", s.node, "err", err)
	case node.Labels[corev1.LabelTopologyZone] == "":
		s.log.Info("the node of this process is in no zone", "node", s.node)
	default:
		s.snapshot.SetZone(node.Labels[corev1.LabelTopologyZone])
	}
}
