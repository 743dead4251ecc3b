package controller

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"sallyport/proxy/upstream"
)

// A pooled is a pool that routes lead to.
type pooled struct {
	users    int
	problems []Problem
	name     string // of a host elsewhere that its endpoints depend on; empty: none
}

// usePool counts one more user of a pool.
func (b *Builder) usePool(id upstream.ID, w *work) {
	if id == (upstream.ID{}) {
		return
	}
	p := b.pools[id]
	if p == nil {
		p = new(pooled)
		b.pools[id] = p
		service := Key{id.Namespace, id.Service}
		if b.poolsOf[service] == nil {
			b.poolsOf[service] = make(map[upstream.ID]struct{})
		}
		b.poolsOf[service][id] = struct{}{}
	}
	w.pools[id] = struct{}{} // what is told of it goes by who uses it
	p.users++
}

// leavePool counts one less. A pool that is left by all is forgotten at the end of the build, not before: another
// Ingress, or the next version of the same, may come for it.
func (b *Builder) leavePool(id upstream.ID, w *work) {
	if p := b.pools[id]; p != nil {
		p.users--
		w.pools[id] = struct{}{}
	}
}

// updatePools sets the endpoints of the pools that may have others, and forgets the pools that nothing leads to.
func (b *Builder) updatePools(s *Snapshot, w *work) {
	for id := range w.pools {
		p := b.pools[id]
		if p == nil {
			continue
		}
		if p.users <= 0 {
			b.forgetPool(id)
			continue
		}
		before := len(p.problems)
		pool := b.options.Pools.Get(id)
		var addresses []netip.AddrPort
		var known bool
		addresses, p.problems, known = b.options.endpointsOf(s, id)
		p.tellFate(id, b.streams.users(id))
		if !known {
			addresses = pool.Endpoints()
		}
		b.depend(id, p, b.options.nameOf(s, id))
		w.endpoints = w.endpoints && before == 0 && len(p.problems) == 0
		pool.Configure(b.serviceOptions(id, p))
		pool.Set(addresses)
	}
}

// tellFate has problems that speak of requests speak of connections or datagrams where so many users of the pool are ports of
// their own (--tcp-services-configmap): behind those nobody answers anything.
func (p *pooled) tellFate(id upstream.ID, streams int) {
	if streams == 0 {
		return
	}
	fate := "its connections are closed"
	if _, protocol := portOf(id); protocol == corev1.ProtocolUDP {
		fate = datagramsDropped
	} else if streams < p.users {
		fate = answered503 + ", and connections to its port of its own are closed"
	}
	for i := range p.problems {
		p.problems[i].Message = strings.Replace(p.problems[i].Message, answered503, fate, 1)
	}
}

// What becomes of those for whom there is no endpoint ends the message of a problem.
const (
	answered503      = "its requests are answered 503"
	datagramsDropped = "its datagrams are dropped"
)

// serviceOptions are what the oldest Ingress that asks something of a Service port asks. The others are told.
func (b *Builder) serviceOptions(id upstream.ID, p *pooled) upstream.ServiceOptions {
	type asker struct {
		*translated
		asks upstream.ServiceOptions
	}
	var asking []asker
	for key := range b.services[Key{id.Namespace, id.Service}] {
		t := b.ingresses[key]
		i := slices.IndexFunc(t.targets, func(w wanted) bool { return w.target.id == id && !w.annotated() })
		if i < 0 {
			continue
		}
		if asks := t.asks(t.targets[i].target); asks != (upstream.ServiceOptions{}) {
			asking = append(asking, asker{t, asks})
		}
	}
	if len(asking) == 0 {
		return upstream.ServiceOptions{}
	}
	slices.SortFunc(asking, func(a, b asker) int { return older(a.translated, b.translated) })
	counts := asking[0]
	for _, t := range asking[1:] {
		if t.asks != counts.asks {
			p.problems = append(p.problems, t.newProblem(Warning, ReasonSharedService, "metadata.annotations",
				"what they ask of port %q of Service %q is not what the older Ingress %s asks of it, which counts", id.Port, id.Service, counts.key))
		}
	}
	return counts.asks
}

// asks is what an Ingress asks of the endpoints of a target. Checks speak what requests do.
func (t *translated) asks(to target) upstream.ServiceOptions {
	o := t.features.Service
	if o.Check.Path != "" && !t.features.ProtocolGiven {
		o.Check.Protocol, o.Check.Plain = to.protocol, to.plain
	}
	return o
}

// depend notes which host name a pool's endpoints depend on, if any.
func (b *Builder) depend(id upstream.ID, p *pooled, name string) {
	if name == p.name {
		return
	}
	delete(b.named[p.name], id)
	if len(b.named[p.name]) == 0 {
		delete(b.named, p.name)
	}
	if p.name = name; name == "" {
		return
	}
	if b.named[name] == nil {
		b.named[name] = make(map[upstream.ID]struct{})
	}
	b.named[name][id] = struct{}{}
}

// Names yields the host names that pools depend on, which are those of Services of type ExternalName that some Ingress leads
// to, in no order. What becomes known of them goes into the snapshot (Snapshot.SetName). It may be used until the next Build.
func (b *Builder) Names() iter.Seq[string] { return maps.Keys(b.named) }

func (b *Builder) forgetPool(id upstream.ID) {
	b.depend(id, b.pools[id], "")
	service := Key{id.Namespace, id.Service}
	delete(b.pools, id)
	delete(b.poolsOf[service], id)
	if len(b.poolsOf[service]) == 0 {
		delete(b.poolsOf, service)
	}
	b.options.Pools.Forget(id)
}

// updateDefaultBackend finds the pool of the process's default backend.
func (b *Builder) updateDefaultBackend(s *Snapshot, w *work) {
	key := b.options.DefaultBackend
	if key == (Key{}) {
		return
	}
	if b.hosts[""] == nil {
		b.hosts[""] = new(host)
		w.dirty[""] = struct{}{}
	}
	to, problem := b.defaultTarget(s, key)
	b.defaultProblems = nil
	if problem != "" {
		b.defaultProblems = []Problem{{Object: Ref{"Service", key.Namespace, key.Name}, Severity: Error, Reason: ReasonServiceNotFound, Message: problem}}
	}
	if to == b.defaultTo {
		return
	}
	b.usePool(to.id, w)
	b.leavePool(b.defaultTo.id, w)
	b.defaultTo = to
	if to.id == (upstream.ID{}) {
		b.unrouted.backend.Store(nil)
		return
	}
	pool, options := b.options.Pools.Get(to.id), b.options.Settings.Upstream
	options.Protocol = to.protocol
	b.unrouted.backend.Store(&defaultBackend{pool, upstream.New(pool, options)})
}

func (b *Builder) defaultTarget(s *Snapshot, key Key) (to target, problem string) {
	service := s.Service(key)
	switch {
	case service == nil && b.options.mapped(key) != nil:
		return target{id: poolID(key, "")}, ""
	case service == nil:
		return target{}, "the default backend (--default-backend-service) does not exist; what no route takes is answered 404"
	}
	if isExternal(service) && b.options.DisableExternalName {
		return target{}, "the default backend (--default-backend-service) is of type ExternalName, which --disable-svc-external-name keeps from being served; what no route takes is answered 404"
	}
	port := firstPort(service, func(p *corev1.ServicePort) bool { return isTCP(p.Protocol) })
	if port == nil {
		return target{}, "the default backend (--default-backend-service) has no TCP port; what no route takes is answered 404"
	}
	return target{id: poolID(key, portName(port))}.speaking(port), ""
}
