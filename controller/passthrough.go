package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/proxy/feature"
	"sallyport/proxy/stream"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// The TLS connections of a host may be passed on as they are (annotation ssl-passthrough, reference A8): to where its path
// "/" leads, whoever asks for another path over them. What else its Ingresses ask for holds for plain HTTP alone, and they
// are told: an access list that keeps out nobody who speaks TLS is no surprise to find later.
//
// Whoever has the path "/" has the host, as far as this goes: an Ingress of another namespace cannot have it passed on.

// assemblePassage decides whether the connections of a host are passed on, and where to. It comes after its routes.
func (b *Builder) assemblePassage(h *host) {
	was := h.passage
	h.passage = b.passageOf(h)
	switch {
	case h.passage == nil && was == nil:
		return
	case h.passage == nil:
		delete(b.passed, h.name)
	default:
		b.passed[h.name] = h
		h.tellPassage()
	}
	if h.passage != nil && was != nil && *h.passage == *was {
		h.passage = was
		return
	}
	b.passedChanged = true
}

// passageOf is where the connections of a host go; a Service without a pool: nowhere; nil: their TLS ends here.
func (b *Builder) passageOf(h *host) *stream.Service {
	root := h.root()
	var asked *feature.Passthrough
	for _, s := range h.sites {
		wanted := s.owner.features.Host.Passthrough
		switch {
		case wanted == nil:
		case h.name == "":
			h.problem(Warning, ReasonPassedThrough, s.owner, s.field, "TLS connections are passed on by the host that they are for, and a rule for any host has none; ssl-passthrough does nothing for it")
		case root != nil && root.owner != nil && root.owner.key.Namespace != s.owner.key.Namespace:
			h.problem(Error, ReasonPassedThrough, s.owner, s.field+".host", "the TLS connections of host %q are not passed on: its path \"/\" is that of Ingress %s, of another namespace, whose word it would be", h.name, root.owner.source)
		case asked == nil:
			asked = wanted
		}
	}
	if asked == nil {
		return nil
	}
	service := &stream.Service{
		Port: stream.Port{Network: "tcp", Number: uint16(b.options.Settings.HTTPSPort)}, Name: "none", Send: asked.Announce,
		Options: b.config.Streams(),
	}
	service.Options.ConnectTimeout = b.options.Settings.Upstream.ConnectTimeout
	if root == nil || root.owner == nil || root.info.Service == "" {
		return service
	}
	service.Name = root.info.Namespace + "/" + root.info.Service + ":" + root.info.Port
	if root.pool == nil || root.owner.features.Denied() {
		return service
	}
	service.Pool = root.pool
	for _, w := range root.owner.targets {
		if w.target.id == root.pool.ID() && w.target.stay > 0 {
			service.Options.Balance = upstream.Balance{Policy: upstream.ClientIP, Stay: w.target.stay}
		}
	}
	return service
}

// root is the route of a host that has the path "/", else what answers where no path matches; nil: nothing does.
func (h *host) root() *draft {
	for _, kind := range []place{{router.Prefix, ""}, {router.Exact, "/"}} {
		for _, d := range h.routes {
			if placeOf(d.match) == kind {
				return d
			}
		}
	}
	return h.fallback
}

// tellPassage tells the Ingresses of a host what they ask for that does nothing over TLS.
func (h *host) tellPassage() {
	root := h.root()
	if h.passage.Pool == nil {
		h.tellClosed(root)
		return
	}
	for _, s := range h.sites {
		idle := h.idleOverTLS(s, root)
		if len(idle) == 0 {
			continue
		}
		severity := Warning
		if s.owner.features.Guards() {
			severity = Error // somebody believes that it keeps clients out
		}
		h.problem(severity, ReasonPassedThrough, s.owner, s.field+".host", "the TLS connections of host %q go to Service %q as they are (ssl-passthrough), so this does nothing for them: %s", h.name, h.passage.Name, strings.Join(idle, ", "))
	}
}

// tellClosed tells why the connections of a host are closed.
func (h *host) tellClosed(root *draft) {
	const message = "the TLS connections of host %q are to be passed on, and are closed: "
	switch first := h.sites[0]; {
	case root == nil || root.owner == nil || root.info.Service == "":
		h.problem(Error, ReasonPassedThrough, first.owner, first.field+".host", message+"they go to the Service of its path \"/\", and none has that path", h.name)
	case root.owner.features.Denied():
		h.problem(Error, ReasonPassedThrough, root.owner, root.field, message+"what is to guard this Ingress is wrong", h.name)
	default:
		h.problem(Error, ReasonPassedThrough, root.owner, root.field, message+"its path \"/\" leads to no Service that exists", h.name)
	}
}

// idleOverTLS is what an Ingress asks for of a host that is passed on.
func (h *host) idleOverTLS(s *site, root *draft) (idle []string) {
	for _, key := range slices.Sorted(maps.Keys(s.owner.object.Annotations)) {
		if (strings.HasPrefix(key, feature.OwnPrefix) || strings.HasPrefix(key, feature.NginxPrefix)) && !feature.CountsBesidePassthrough(key) {
			idle = append(idle, key)
		}
	}
	for _, d := range s.drafts {
		if d != root {
			idle = append(idle, fmt.Sprintf("the path %q", d.match.Path))
		}
	}
	for _, e := range s.owner.tls {
		if e.secret != (Key{}) && slices.Contains(e.hosts, h.name) {
			idle = append(idle, fmt.Sprintf("the certificate of Secret %q", e.secret.Name))
		}
	}
	return idle
}

// updatePassthrough makes the list of the hosts that are passed on, where it may be another. A host below a wildcard that
// is passed on is listed too, unless its own connections are: nobody else may have them.
func (b *Builder) updatePassthrough(tableChanged bool) {
	if !b.passedChanged && !(tableChanged && len(b.passed) > 0) {
		return
	}
	b.passedChanged = false
	now := make(map[string]*stream.Service, len(b.passed))
	below := func(name string) {
		_, parent, _ := strings.Cut(name, ".")
		if _, own := now[name]; !own && !strings.HasPrefix(name, "*") && b.passed["*."+parent] != nil {
			now[name] = nil
		}
	}
	for name, h := range b.passed {
		now[name] = h.passage
	}
	for name := range b.hosts {
		below(name)
	}
	for name := range b.aliases {
		below(name)
	}
	if len(now) == 0 {
		now = nil
	}
	if !maps.Equal(now, b.passthrough) {
		b.passthrough = now
	}
}
