package controller

import (
	"sallyport/proxy/feature"
)

// What is asked of the clients of a host about certificates is for the namespace of its oldest Ingress to say: for all
// routes of the host, whosever they are. Where its Ingresses ask for different things nobody knows what any of them relies
// on, and the host is closed. An Ingress of another namespace that asks for something else cannot have it, and keeps its own
// routes closed; it must not close those of others.

// clientAuth is what is asked for a host, nil for nothing; disagree says that its Ingresses do not ask for one thing. The
// sites are in order.
func (h *host) clientAuth() (asked *feature.ClientAuth, disagree bool) {
	if h.name == "" {
		return nil, false // handshakes are by name
	}
	for _, s := range h.sites {
		wanted := s.owner.features.Host.Clients
		switch {
		case wanted == nil || s.owner.key.Namespace != h.sites[0].owner.key.Namespace:
		case wanted.Closed():
			return wanted, false // which has been told
		case asked == nil:
			asked = wanted
		case asked.ID() != wanted.ID():
			disagree = true
		}
	}
	if disagree {
		return closed, true
	}
	return asked, false
}

// formClients has the routes of a host ask their clients, and tells who does not get what they wanted.
func (h *host) formClients(routes []*draft, fallback *draft) {
	asked, disagree := h.clientAuth()
	for _, d := range append(routes[:len(routes):len(routes)], fallback) {
		if d == nil {
			continue
		}
		d.form.clients = asked
		if d.owner == nil || d.owner.features == nil || d == fallback && d.pool == nil {
			continue // what leads nowhere needs no guard of an Ingress's own
		}
		if own := d.owner.features.Host.Clients; own != nil && (asked == nil || own.ID() != asked.ID()) && !(asked != nil && asked.Closed()) {
			d.form.clients = closed
		}
	}
	for _, s := range h.sites {
		own := s.owner.features.Host.Clients
		if own == nil || own.Closed() {
			continue
		}
		switch {
		case h.name == "":
			h.problem(Error, ReasonClientAuth, s.owner, s.field, "clients are asked for certificates by the host of a rule, and this one has none; it is answered 403 rather than stand open")
		case disagree && s.owner.key.Namespace == h.sites[0].owner.key.Namespace:
			h.problem(Error, ReasonClientAuth, s.owner, s.field+".host", "the Ingresses of %s ask for different things of its clients' certificates (auth-tls-secret and the annotations beside it); all of it is answered 403 rather than stand open", hostText(h.name))
		case asked == nil || own.ID() != asked.ID() && !asked.Closed():
			h.problem(Error, ReasonClientAuth, s.owner, s.field+".host", "what is asked of the clients of %s is for namespace %q to say, whose Ingress %s comes first, and it asks for something else; the routes of this Ingress are answered 403 rather than stand open", hostText(h.name), h.sites[0].owner.key.Namespace, h.sites[0].owner.source)
		}
	}
}

var closed = feature.NobodyEnters()
