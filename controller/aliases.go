package controller

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"sallyport/certs"
	"sallyport/proxy"
	"sallyport/router"
)

// Further names of hosts: those of server-alias, under which a host is served as under its own, and the twin of
// from-to-www-redirect, which sends clients here (reference A5 and B1). A name that some Ingress has as a host is that
// Ingress's; else the oldest Ingress that asked for it has it, and an alias comes before a twin.

// readAliases reads which further names a host asks for: of several Ingresses with aliases the oldest counts.
func (h *host) readAliases() {
	h.wanted, h.www = nil, ""
	if h.name == "" {
		return // it takes every name that nobody else has
	}
	for _, s := range h.sites {
		asked := s.owner.features.Host
		if len(h.wanted) == 0 {
			h.wanted = asked.Aliases
		}
		if asked.WWW != nil {
			h.www = twin(h.name)
		}
	}
}

// twin is the name with "www." or without; "" for a wildcard, which has none.
func twin(name string) string {
	if strings.HasPrefix(name, "*") {
		return ""
	}
	if bare, ok := strings.CutPrefix(name, "www."); ok {
		return bare
	}
	return "www." + name
}

// names are the further names, each once.
func (h *host) names() []string {
	names := slices.Clone(h.wanted)
	if h.www != "" {
		names = append(names, h.www)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// touchAliases reads the further names of the hosts that are touched, and touches those who want a name that may become
// free or be taken.
func (b *Builder) touchAliases(w *work) {
	queue := make([]string, 0, len(w.dirty))
	for name := range w.dirty {
		queue = append(queue, name)
	}
	touch := func(name string) {
		if _, ok := w.dirty[name]; !ok {
			w.dirty[name] = struct{}{}
			queue = append(queue, name)
		}
	}
	for len(queue) > 0 {
		h := b.hosts[queue[0]]
		queue = queue[1:]
		for _, claimant := range b.aliases[h.name] {
			touch(claimant.name)
		}
		for _, name := range h.names() {
			b.aliases[name] = slices.DeleteFunc(b.aliases[name], func(o *host) bool { return o == h })
			for _, claimant := range b.aliases[name] {
				touch(claimant.name)
			}
			w.names[name] = struct{}{}
		}
		slices.SortFunc(h.sites, func(a, b *site) int { return older(a.owner, b.owner) })
		h.readAliases()
		for _, name := range h.names() {
			for _, claimant := range b.aliases[name] {
				touch(claimant.name)
			}
			b.aliases[name] = append(b.aliases[name], h)
			w.names[name] = struct{}{}
		}
	}
}

// updateAliases decides who has the names that are touched, after their hosts were assembled.
func (b *Builder) updateAliases(w *work, c *tableChange) {
	for name := range w.names {
		claimants := b.aliases[name]
		if len(claimants) == 0 {
			delete(b.aliases, name)
		}
		if b.hosts[name] != nil {
			for _, h := range claimants {
				h.reportTaken(name, "some Ingress has it as a host")
			}
			continue // its own routes are in the table
		}
		sortClaimants(claimants, name)
		if len(claimants) == 0 {
			if !slices.Contains(c.gone, name) {
				c.gone = append(c.gone, name)
			}
			continue
		}
		winner := claimants[0]
		for _, h := range claimants[1:] {
			h.reportTaken(name, fmt.Sprintf("%s has it, whose Ingress %s comes first", hostText(winner.name), winner.sites[0].owner.source))
		}
		c.gone = slices.DeleteFunc(c.gone, func(gone string) bool { return gone == name })
		if slices.Contains(winner.wanted, name) {
			c.add(winner, name)
			continue
		}
		c.addTwin(winner, name)
	}
}

// sortClaimants puts the host that has a name first.
func sortClaimants(claimants []*host, name string) {
	slices.SortFunc(claimants, func(a, b *host) int {
		if asAlias := slices.Contains(a.wanted, name); asAlias != slices.Contains(b.wanted, name) {
			if asAlias {
				return -1
			}
			return 1
		}
		return older(a.sites[0].owner, b.sites[0].owner)
	})
}

// secureAlias is how hands are shaken for a further name of a host: as for the host itself, with those of its certificates
// that cover the name; of a regular expression that is seen when a name is asked for. listed is false where nothing is to be
// said of the name.
func (b *Builder) secureAlias(name string) (secure *certs.Host, listed bool) {
	claimants := b.aliases[name]
	if len(claimants) == 0 {
		return nil, false
	}
	sortClaimants(claimants, name)
	h := claimants[0]
	if h.secure == nil {
		return nil, false
	}
	if strings.HasPrefix(name, "~") {
		secure := *h.secure
		secure.Covering = true
		return &secure, true
	}
	var covering []*tls.Certificate
	for _, pair := range h.secure.Pairs {
		if certs.Covers(pair, name) {
			covering = append(covering, pair)
		}
	}
	if len(covering) == 0 && h.secure.Policy == nil {
		return nil, false
	}
	if len(covering) == len(h.secure.Pairs) {
		return h.secure, true
	}
	secure = &certs.Host{Pairs: covering, Policy: h.secure.Policy, Owner: h.secure.Owner, Below: h.secure.Below}
	if was := b.byHost[name]; was != nil && was.Equal(secure) {
		return was, true
	}
	return secure, true
}

func (h *host) reportTaken(name, why string) {
	for _, s := range h.sites {
		if asked := s.owner.features.Host; slices.Contains(asked.Aliases, name) || asked.WWW != nil && name == h.www {
			h.problem(Warning, ReasonAliasTaken, s.owner, s.field+".host", "%s is not served as %q too: %s", hostText(h.name), name, why)
		}
	}
}

// addTwin sends the clients of a host's twin to the host.
func (c *tableChange) addTwin(h *host, name string) {
	for _, s := range h.sites {
		www := s.owner.features.Host.WWW
		if www == nil {
			continue
		}
		info := &proxy.RouteInfo{Namespace: s.owner.key.Namespace, Ingress: s.owner.key.Name, Host: name, Path: "/"}
		route := router.Route{Match: router.Match{Host: name, Path: "/"}, Source: s.owner.source, Handler: proxy.Identify(info, www.To(h.name))}
		c.hosts = append(c.hosts, router.Host{Name: name, Fallback: &route})
		return
	}
}
