package main

import (
	"context"
	"slices"
	"sync"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/proxy"
	"sallyport/proxy/stream"
)

// ports are the ports of the listeners, with the flags that move them.
func (l *listeners) ports() map[uint16]string {
	return map[uint16]string{
		uint16(portOf(l.http)): "http-port", uint16(portOf(l.https)): "https-port", uint16(portOf(l.admin)): "admin-port",
	}
}

// trustOf says whose PROXY headers are believed on ports of TCP services: those whom HTTP believes them, too.
func trustOf(c config.Config, clients *proxy.Clients) stream.Trust {
	trust := stream.Trust{Peers: c.TrustedProxies}
	if clients != nil {
		trust.Patience = clients.ProxyTimeout
		if clients.Trusted != nil {
			trust.Peers = slices.Concat(trust.Peers, clients.Trusted)
		}
	}
	if len(c.TrustedProxies) == 0 && (clients == nil || clients.Trusted == nil) {
		trust.Peers = nil
	}
	return trust
}

// shutdown ends what is served, of all protocols at once.
func (s *server) shutdown(ctx context.Context) {
	var others sync.WaitGroup
	others.Go(func() {
		if err := s.streams.Shutdown(ctx); err != nil {
			s.log.Warn("TCP services lost connections at the end of --shutdown-grace-period", "err", err)
		}
	})
	if err := s.front.Shutdown(ctx); err != nil {
		s.log.Warn("connections were cut at the end of --shutdown-grace-period", "err", err)
	}
	others.Wait()
}

// keysGiven are the keys that name something.
func keysGiven(keys ...controller.Key) []controller.Key {
	return slices.DeleteFunc(keys, func(k controller.Key) bool { return k == controller.Key{} })
}
