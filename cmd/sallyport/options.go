package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/proxy/feature"
	"sallyport/proxy/upstream"
)

// builderOptions is what the controller is told of the configuration. A folder may send traffic to loopback addresses:
// whoever may write it may also start the process; a cluster may not, where anybody's EndpointSlice would reach what
// listens inside this pod.
func builderOptions(c config.Config, httpsPort int, pools *upstream.Pools) (controller.Options, error) {
	mapped, err := resolveMappings(c.Map)
	if err != nil {
		return controller.Options{}, err
	}
	folder := len(c.Manifests) > 0
	return controller.Options{
		ControllerClasses:      c.ControllerClasses,
		IngressClass:           c.IngressClass,
		IngressClassByName:     c.IngressClassByName,
		WatchWithoutClass:      c.WatchIngressWithoutClass,
		ServeAllWithoutClasses: folder,
		DefaultBackend:         controller.Key(c.DefaultBackendService),
		DefaultCertificate:     controller.Key(c.DefaultSSLCertificate),
		ConfigMap:              controller.Key(c.ConfigMap),
		TCPServices:            controller.Key(c.TCPServices),
		UDPServices:            controller.Key(c.UDPServices),
		DisableCatchAll:        c.DisableCatchAll,
		AllowLoopback:          folder,
		DisableExternalName:    c.DisableSvcExternalName,
		AllowExternalAddresses: c.AllowExternalNameAddresses,
		Topology:               c.EnableTopologyAwareRouting,
		Node:                   c.NodeName,
		Zone:                   c.Zone,
		Map:                    mapped,
		Pools:                  pools,
		Settings: feature.Settings{HTTPSPort: httpsPort, Passthrough: c.EnableSSLPassthrough, Upstream: upstream.Options{
			ConnectTimeout: c.ProxyConnectTimeout,
			SendTimeout:    c.ProxySendTimeout,
			ReadTimeout:    c.ProxyReadTimeout,
		}},
	}, nil
}

// resolveMappings turns the flags --map into addresses. Names are resolved once, at the start.
func resolveMappings(all []config.Mapping) (map[controller.MapKey][]netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	mapped := make(map[controller.MapKey][]netip.AddrPort)
	for _, m := range all {
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", m.Host)
		if err != nil {
			return nil, usageError{fmt.Errorf("--map: %q: the host %q cannot be resolved: %w", m, m.Host, err)}
		}
		key := controller.MapKey{Service: controller.Key(m.Service), Port: m.Port}
		for _, address := range addresses {
			mapped[key] = append(mapped[key], netip.AddrPortFrom(address.Unmap(), m.HostPort))
		}
	}
	return mapped, nil
}
