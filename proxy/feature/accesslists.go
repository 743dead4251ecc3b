package feature

import (
	"net/http"
	"net/netip"

	"github.com/gaissmai/bart"

	"sallyport/proxy"
)

// accessLists let clients in, and keep them out, by their address (reference B10). Both lists together are one check.
func accessLists(a *Annotations, d *Draft) {
	a.Section("Access by address", ReachPaths, "The address is that of the client behind trusted proxies. Who is on the deny list is refused, on the allow list or not; "+
		"where there is an allow list, everybody else is refused too. The answer is 403. A list of an Ingress takes the place of the one in the ConfigMap. "+
		"An empty list, or one with a mistake in it, lets nobody in: the routes answer 503.")
	allowed := a.CIDRs("allowlist-source-range", "the clients that are let in")
	former := a.Shared().CIDRs("whitelist-source-range", "the former name of allowlist-source-range, which counts where that is absent")
	denied := a.Shared().CIDRs("denylist-source-range", "the clients that are refused, also those that are on the allow list")
	if allowed == nil {
		allowed = former
	}
	if a.Failed() || allowed == nil && denied == nil {
		return
	}
	in, out := addressesOf(allowed), addressesOf(denied)
	d.Guard(func(r *http.Request) http.Handler {
		client := proxy.From(r).Client
		switch {
		case !client.IsValid(), out.holds(client), in != nil && !in.holds(client):
			return addressRefused
		case in == nil && d.satisfyAny && len(d.guard.checks) > 1:
			// That no list names a client is no reason to let it in without the password that would do instead. In nginx, too,
			// deny rules that do not apply decide nothing.
			return addressRefused
		}
		return nil
	})
}

var addressRefused = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	proxy.Fail(w, r, http.StatusForbidden, proxy.AddressDenied)
})

// addresses are a set of networks. Nil is the empty one. Asking takes some 7 ns for any number of networks; a walk through
// them takes that long for one, and 33 ns for eight (BenchmarkAddresses).
type addresses struct{ tree bart.Lite }

// sets are those in use, by their networks.
var sets interned[addresses]

// addressesOf is nil for nil.
func addressesOf(networks []netip.Prefix) *addresses {
	if networks == nil {
		return nil
	}
	text := make([]byte, 0, 20*len(networks))
	for _, network := range networks {
		text = append(network.AppendTo(text), ' ')
	}
	return sets.get(string(text), func() *addresses {
		s := new(addresses)
		for _, network := range networks {
			s.tree.Insert(network)
		}
		return s
	})
}

// holds reports whether a network of the set has the address. A zone does not count (the tree looks at the bytes alone), and an IPv4 address is one however it
// is written: otherwise a client could leave a network by the way it comes in.
func (s *addresses) holds(client netip.Addr) bool {
	return s != nil && s.tree.Contains(client.Unmap())
}
