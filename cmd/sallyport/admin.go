package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/controller"
	"sallyport/proxy/admin"
	"sallyport/proxy/feature"
	"sallyport/proxy/stream"
	"sallyport/proxy/upstream"
)

// newMetrics are the numbers of a process that serves the pools.
func newMetrics(w world, class string, pools *upstream.Pools) *admin.Metrics {
	pod, _ := w.lookup("POD_NAME")
	namespace, _ := w.lookup("POD_NAMESPACE")
	metrics := admin.NewMetrics(admin.Identity{Namespace: namespace, Class: class, Pod: pod, Version: readBuild().Version})
	metrics.CountEndpoints(func(yield func(namespace, service, port string, endpoints int)) {
		for _, pool := range pools.All() {
			id := pool.ID()
			yield(id.Namespace, id.Service, id.Port, pool.Len())
		}
	})
	metrics.CountMirrored(feature.Mirrored)
	return metrics
}

// streamCounts are the numbers of the ports of TCP and UDP, as metrics have them.
func streamCounts(s *stream.Server) admin.StreamCounts {
	c := s.Counts()
	return admin.StreamCounts{
		TCP:     admin.StreamCount{Connections: c.Connections, Open: c.OpenConnections, Sent: c.Sent, Received: c.Received},
		UDP:     admin.StreamCount{Connections: c.Flows, Open: c.OpenFlows, Sent: c.FlowsSent, Received: c.FlowsReceived},
		Refused: c.Refused,
	}
}

// newAdmin is the admin port of a server.
func newAdmin(s *server) *admin.Server {
	staying := admin.Check{Name: "draining", Fails: func() error {
		if s.draining.Load() {
			return errors.New("the process is about to end")
		}
		return nil
	}}
	table := admin.Check{Name: "table", Fails: func() error {
		if s.front.Table() == nil {
			return errors.New("objects are still being read, there is no table yet")
		}
		return nil
	}}
	listeners := admin.Check{Name: "listeners", Fails: func() error {
		if !s.serving.Load() {
			return errors.New("HTTP and HTTPS are not served yet")
		}
		return nil
	}}
	var others []prometheus.Gatherer
	if len(s.config.Manifests) == 0 {
		others = append(others, clusterMetrics())
	}
	return &admin.Server{
		Health:    []admin.Check{staying},
		Ready:     []admin.Check{table, listeners, staying},
		Table:     s.front.Table,
		Metrics:   s.metrics,
		Others:    others,
		Profiling: s.config.Profiling,
	}
}

// counted is what there is to count of a build; secretOf says which Secret a certificate is of.
func counted(result controller.Result, problems []controller.Problem, secretOf func(*tls.Certificate) controller.Key) admin.Build {
	b := admin.Build{
		Generation: result.Generation, Took: result.Took,
		Routes: result.Routes, Hosts: result.Hosts, Ingresses: result.Ingresses,
		Problems:     make(map[admin.ProblemKind]int),
		Certificates: make(map[admin.CertificateKind]*x509.Certificate),
	}
	for _, p := range problems {
		b.Problems[admin.ProblemKind{Severity: p.Severity.String(), Reason: p.Reason}]++
	}
	certificate := func(host string, pair *tls.Certificate) {
		secret := secretOf(pair)
		b.Certificates[admin.CertificateKind{Host: host, Namespace: secret.Namespace, Secret: secret.Name}] = pair.Leaf
	}
	for host, secure := range result.Certificates.ByHost {
		if secure == nil {
			continue
		}
		for _, pair := range secure.Pairs {
			certificate(host, pair)
		}
	}
	if pair := result.Certificates.Default; pair != nil {
		certificate("_", pair) // as ingress-nginx calls what is for any host
	}
	return b
}
