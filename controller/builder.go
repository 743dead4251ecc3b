package controller

import (
	"cmp"
	"crypto/tls"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"sallyport/certs"
	"sallyport/proxy"
	"sallyport/proxy/feature"
	"sallyport/proxy/stream"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A Builder makes tables of snapshots and remembers what it made, so that the next build does only what changed. It is
// not safe for concurrent use.
type Builder struct {
	options  Options
	snapshot *Snapshot // that was built last
	revision uint64    // of snapshot, then
	builds   uint64

	ingresses    map[Key]*translated // all of them, those that are not ours too
	hosts        map[string]*host
	canaries     map[string]*canaries // by host
	pools        map[upstream.ID]*pooled
	certificates map[Key]*certificate // by Secret, as long as some Ingress names it
	secretOf     map[*tls.Certificate]Key
	api          atomic.Pointer[[]netip.Addr] // addresses of the API server; nil: none are known

	poolsOf  map[Key]map[upstream.ID]struct{}    // by Service
	named    map[string]map[upstream.ID]struct{} // by the host name that their endpoints depend on
	services index[Key]                          // Ingresses by the Services they name
	secrets  index[Key]                          // Ingresses by the Secrets of their spec.tls
	objects  index[Ref]                          // Ingresses by what their annotations name
	aliases  map[string][]*host                  // hosts by the further names they ask for

	config         *feature.Config // nil: none was read yet
	configData     map[string]string
	configSeen     bool // there was a ConfigMap once
	configProblems []Problem

	streams streams

	passed        map[string]*host // whose TLS connections are passed on
	passedChanged bool
	passthrough   map[string]*stream.Service // never written to once it was handed out; nil: none

	problems []Problem // of the last build, but for those with the default certificate
	served   int       // Ingresses, in part at least

	unrouted        unrouted
	catchAll        *draft // to unrouted, for hosts that nobody names; nil: there is no default backend
	defaultTo       target
	defaultProblems []Problem

	table      *router.Table
	generation uint64
	routes     int
	byHost     map[string]*certs.Host // never written to once it was handed out
	patterns   []certs.Pattern        // of byHost, likewise, but for names that are regular expressions
	again      time.Time              // when certificates are looked at again though nothing changed; zero: never
	retired    []*draft               // that lost their place in this build
}

// NewBuilder returns a Builder that has built nothing yet.
func NewBuilder(o Options) *Builder {
	if o.Pools == nil {
		o.Pools = new(upstream.Pools)
	}
	b := &Builder{
		options:      o,
		ingresses:    make(map[Key]*translated),
		hosts:        make(map[string]*host),
		canaries:     make(map[string]*canaries),
		pools:        make(map[upstream.ID]*pooled),
		certificates: make(map[Key]*certificate),
		secretOf:     make(map[*tls.Certificate]Key),
		poolsOf:      make(map[Key]map[upstream.ID]struct{}),
		named:        make(map[string]map[upstream.ID]struct{}),
		services:     make(index[Key]),
		secrets:      make(index[Key]),
		objects:      make(index[Ref]),
		aliases:      make(map[string][]*host),
		passed:       make(map[string]*host),
		byHost:       make(map[string]*certs.Host),
	}
	b.options.Settings.RefuseAddress = b.RefuseAddress
	if key := o.DefaultBackend; key != (Key{}) {
		b.options.Settings.DefaultBackend = b.unrouted.live
		b.catchAll = &draft{
			match: router.Match{Path: "/", Type: router.Prefix},
			info:  proxy.RouteInfo{Namespace: key.Namespace, Service: key.Name, Path: "/"},
			last:  &b.unrouted,
		}
	}
	return b
}

// Build makes the table of a snapshot: it translates the Ingresses that changed, sets the endpoints of pools, and
// assembles the hosts that are touched. The result does not depend on what was built before, except that what did not
// change is the same as it was: the table, the handlers of its routes, the pools.
//
// When Build returns, pools have their endpoints already; the table and the certificates are for the caller to swap.
func (b *Builder) Build(s *Snapshot) Result {
	start := time.Now()
	b.builds++
	w := b.workOf(s)
	if api := b.options.apiServers(s); len(api) > 0 {
		b.api.Store(&api)
	}
	b.ripen(w)
	b.updateConfig(s, w)
	for key := range w.ingresses {
		b.update(s, key, w)
	}
	b.updateDefaultBackend(s, w)
	b.updateStreams(s, w)
	b.updatePools(s, w)
	b.touchCanaries(w)
	b.touchAliases(w)
	b.updateTLS(s, w)
	changed := b.updateTable(w)
	b.updatePassthrough(changed)
	for _, d := range b.retired {
		b.retire(d)
	}
	b.retired = nil

	if !w.endpoints {
		b.review()
	}

	s.built()
	b.snapshot, b.revision = s, s.revision
	result := Result{
		Table: b.table, TableChanged: changed, Generation: b.generation,
		Certificates:  b.certificatesNow(),
		Staple:        b.config.TLS().Staple,
		Clients:       b.config.Clients(),
		Around:        b.config.Around(),
		Streams:       b.streams.list,
		Passthrough:   b.passthrough,
		OnlyEndpoints: w.endpoints,
		Ingresses:     b.served, Hosts: len(b.hosts), Routes: b.routes,
	}
	result.Certificates.Default, result.Problems = b.defaultCertificate(s)
	result.Problems = append(result.Problems, b.problems...)
	result.Again = b.again
	result.Took = time.Since(start)
	return result
}

// update brings what is kept of one Ingress up to date.
func (b *Builder) update(s *Snapshot, key Key, w *work) {
	old, ingress := b.ingresses[key], s.Ingress(key)
	if ingress == nil {
		if old != nil {
			delete(b.ingresses, key)
			b.unlink(old, w)
		}
		return
	}
	c := b.options.chosen(s, ingress)
	if old != nil && old.unchanged(b, s, ingress, c) {
		old.object = ingress
		return
	}
	t := b.translate(s, ingress, c, old)
	b.ingresses[key] = t
	b.link(t, w) // before the old one goes, so that what both use stays
	if old != nil {
		b.unlink(old, w)
	}
	b.checkTLS(s, t)
}

// link enters a translated Ingress wherever it is looked for.
func (b *Builder) link(t *translated, w *work) {
	for _, site := range t.sites {
		h := b.hosts[site.host]
		if h == nil {
			h = &host{name: site.host}
			b.hosts[site.host] = h
		}
		h.sites = append(h.sites, site)
		w.touch(site.host)
	}
	b.linkCanaries(t, w)
	for _, wanted := range t.targets {
		b.services.add(Key{t.key.Namespace, wanted.service.Name}, t.key)
		b.usePool(wanted.target.id, w)
		if t.features.Service != (upstream.ServiceOptions{}) && wanted.target.id != (upstream.ID{}) {
			w.pools[wanted.target.id] = struct{}{}
		}
	}
	for _, secret := range b.secretsOf(t) {
		b.secrets.add(secret, t.key)
	}
	for _, r := range t.reads {
		b.objects.add(r.ref, t.key)
	}
}

// unlink takes back what link did.
func (b *Builder) unlink(t *translated, w *work) {
	for _, gone := range t.sites {
		h := b.hosts[gone.host]
		h.sites = slices.DeleteFunc(h.sites, func(s *site) bool { return s == gone })
		w.touch(gone.host)
	}
	b.unlinkCanaries(t, w)
	now := b.ingresses[t.key] // its successor, which may name the same
	for _, wanted := range t.targets {
		if now == nil || !slices.ContainsFunc(now.targets, func(n backend) bool { return n.service.Name == wanted.service.Name }) {
			b.services.remove(Key{t.key.Namespace, wanted.service.Name}, t.key)
		}
		b.leavePool(wanted.target.id, w)
	}
	for _, r := range t.reads {
		if now == nil || !slices.ContainsFunc(now.reads, func(n reading) bool { return n.ref == r.ref }) {
			b.objects.remove(r.ref, t.key)
		}
	}
	for _, secret := range b.secretsOf(t) {
		if now == nil || !slices.Contains(b.secretsOf(now), secret) {
			b.secrets.remove(secret, t.key)
		}
		if b.secrets[secret] == nil && secret != b.options.DefaultCertificate {
			b.forgetCertificate(secret)
		}
	}
}

// updateTable assembles the hosts that are touched and makes another table if that made a difference.
func (b *Builder) updateTable(w *work) bool {
	c := tableChange{}
	for name := range w.dirty {
		h := b.hosts[name]
		before := h.size()
		changed := b.assemble(h)
		b.routes += h.size() - before
		switch {
		case len(h.sites) == 0 && h.fallback == nil:
			delete(b.hosts, name)
			c.gone = append(c.gone, name)
		case changed || !h.inTable:
			h.inTable = true
			c.add(h, name)
		}
	}
	b.updateAliases(w, &c)
	if len(c.hosts) == 0 && len(c.gone) == 0 && b.generation > 0 {
		return false
	}
	b.table = b.table.Update(c.gone, c.routes, c.hosts)
	b.generation++
	return true
}

// A tableChange is what the next table has that the last one has not.
type tableChange struct {
	gone   []string
	routes []router.Route
	hosts  []router.Host
}

// add puts the routes of a host in the table under a name.
func (c *tableChange) add(h *host, name string) {
	for _, d := range h.routes {
		c.routes = append(c.routes, d.route(name))
	}
	entry := router.Host{Name: name}
	if h.fallback != nil {
		route := h.fallback.route(name)
		entry.Fallback = &route
	}
	c.hosts = append(c.hosts, entry)
}

// size is how many routes the host has in the table.
func (h *host) size() int {
	if h.fallback != nil {
		return len(h.routes) + 1
	}
	return len(h.routes)
}

// Served yields the Ingresses that the last table serves, in part at least, in no order. It may be used until the next
// Build.
func (b *Builder) Served() iter.Seq[*networkingv1.Ingress] {
	return func(yield func(*networkingv1.Ingress) bool) {
		for _, t := range b.ingresses {
			if t.served() && !yield(t.object) {
				return
			}
		}
	}
}

// served reports whether the Ingress has something in the table, or beside it.
func (t *translated) served() bool { return len(t.sites)+len(t.canaries) > 0 }

// review collects what is known to be wrong, and counts the Ingresses that are served while it passes them. It looks at
// everything, which takes a millisecond or two for ten thousand Ingresses: too long for every endpoint that comes or goes.
func (b *Builder) review() {
	all := slices.Concat(b.defaultProblems, b.configProblems, b.streams.problems)
	b.served = 0
	for _, t := range b.ingresses {
		all = append(append(all, t.problems...), t.tlsFacts...)
		if t.served() {
			b.served++
		}
	}
	for _, h := range b.hosts {
		all = append(append(all, h.problems...), h.tlsProblems...)
	}
	all = append(all, b.canaryProblems()...)
	for _, p := range b.pools {
		all = append(all, p.problems...)
	}
	slices.SortFunc(all, compareProblems)
	b.problems = slices.Compact(all)
}

func compareProblems(a, b Problem) int {
	return cmp.Or(
		a.Object.Compare(b.Object),
		strings.Compare(a.Field, b.Field),
		strings.Compare(a.Reason, b.Reason),
		strings.Compare(a.Message, b.Message),
	)
}
