package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"sallyport/proxy/http1"
)

// Clients is what the front believes of clients, and how it passes their requests on: what may change while it serves. The
// zero Clients believes nobody but the peers in [Server].Trusted.
type Clients struct {
	// Forwarded has the X-Forwarded-* fields of trusted peers believed: who the client is, and which scheme, host and port
	// it asked for.
	Forwarded bool
	// RealIP has who the client is believed, and nothing else.
	RealIP bool
	// Trusted are the networks of peers that are trusted, beside those in [Server].Trusted, whose word counts whatever
	// Forwarded and RealIP say. Nil: where [Server].Trusted is empty too, everyone is trusted.
	Trusted []netip.Prefix
	// ForwardedFor is the field, by its canonical name, that says who the client is. Empty: X-Forwarded-For.
	ForwardedFor string
	// FullForwardedFor keeps what a trusted peer says in ForwardedFor, with the peer's own address behind it, instead of the
	// client's address alone.
	FullForwardedFor bool

	// ProxyProtocol has every connection begin with a PROXY header, from a trusted peer. Others are closed. Connections that
	// are open already stay as they are.
	ProxyProtocol bool
	// ProxyTimeout is the time a connection has to send its PROXY header. Zero: 5 s.
	ProxyTimeout time.Duration

	// Patience is how long clients of HTTP/1 may take, and how long their connections stay; the gap is that of HTTP/2 too.
	Patience http1.Patience

	// HSTS is the field Strict-Transport-Security of every answer over a TLS connection of this process's own, whatever the
	// endpoint says (RFC 6797). Empty: [UsualHSTS]; [NoHSTS]: none, and the endpoint's own passes.
	HSTS string

	// OriginalURI tells endpoints the target in X-Original-Uri.
	OriginalURI bool
	// NoID leaves requests that come without an id without one, as endpoints see them. The log has one all the same.
	NoID bool
	// Underscores lets fields pass whose names hold '_', and OddNames those whose names hold whatever else HTTP allows, too.
	// What a program might read as a field that only we may set, or as one that frames the message, stays out.
	Underscores bool
	OddNames    bool
	// ServerField passes on the Server field of endpoints.
	ServerField bool
}

const (
	UsualHSTS = "max-age=31536000; includeSubDomains"
	NoHSTS    = "none"
)

func (c *Clients) hsts() []string {
	switch c.HSTS {
	case "":
		return []string{UsualHSTS}
	case NoHSTS:
		return nil
	}
	return []string{c.HSTS}
}

func (c *Clients) proxyTimeout() time.Duration {
	if c.ProxyTimeout != 0 {
		return c.ProxyTimeout
	}
	return 5 * time.Second
}

// SetClients puts other Clients in place, for requests and connections that begin from now on. They must not change any
// more. Nil: the zero Clients. The same again costs nothing.
func (s *Server) SetClients(c *Clients) {
	if now := s.belief.Load(); now == nil || now.from != c {
		s.belief.Store(newBelief(c, s.Trusted))
		s.life.setPatience(s.patience())
	}
}

// believed are the Clients in place.
func (s *Server) believed() *belief {
	if b := s.belief.Load(); b != nil {
		return b
	}
	s.belief.CompareAndSwap(nil, newBelief(nil, s.Trusted))
	return s.belief.Load()
}

// A belief is Clients in the form that connections and requests are held against.
type belief struct {
	Clients
	from *Clients

	forwarded networks // peers whose X-Forwarded-* fields are believed
	address   networks // peers whose word counts for who the client is, those among them
	announce  networks // peers whose PROXY header is believed
	anybody   bool     // address is not empty
	strict    []string // HSTS as the field has it, shared by all answers; nil: none
}

func newBelief(c *Clients, always []netip.Prefix) *belief {
	b := &belief{from: c}
	if c != nil {
		b.Clients = *c
	}
	if b.ForwardedFor == "" {
		b.ForwardedFor = xForwardedFor
	}
	b.strict = slices.Clip(b.hsts())
	b.anybody = b.Forwarded || b.RealIP || len(always) > 0
	trusted := b.Trusted
	if trusted == nil && len(always) == 0 {
		trusted = everyone
	}
	for _, set := range []struct {
		of    *networks
		wants bool
	}{{&b.forwarded, b.Forwarded}, {&b.address, b.Forwarded || b.RealIP}, {&b.announce, true}} {
		set.of.add(always)
		if set.wants {
			set.of.add(trusted)
		}
	}
	return b
}

var everyone = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// networks are a set of addresses. Asking takes the same few nanoseconds for any number of networks.
type networks struct{ tree bart.Lite }

func (n *networks) add(all []netip.Prefix) {
	for _, network := range all {
		n.tree.Insert(network)
	}
}

// hold reports whether an address is in the set. It is one address whether it is written as IPv4 or mapped into IPv6.
func (n *networks) hold(addr netip.Addr) bool { return n.tree.Contains(addr.Unmap()) }
