package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
)

// What clients say about themselves, and what is put in its place (reference A11).
//
// Every field below is removed from the request and then set to what is known. Nothing that stands behind the proxy can
// tell a client's word from ours by looking, so no client's word is left standing under these names. Fields whose names hold anything but
// letters, digits and '-' are dropped: many servers read X_Real_IP as X-Real-IP.
//
// A peer in [Server].Trusted, or one that [Clients] say is trusted, is a proxy of our own: its X-Forwarded-For, -Host, -Port
// and -Proto are believed. The route is found by Host all the same; X-Forwarded-Host is then what handlers and endpoints see
// as the request's host. With the PROXY protocol (listener.go) the peer is who the load balancer says it is.
//
// What the client's Connection field names is removed here too, before our own fields are set, so that whoever forwards
// the request needs to drop only the fields that concern a connection by their nature (RFC 9110 section 7.6.1).

const (
	xRequestID             = "X-Request-Id"
	xRealIP                = "X-Real-Ip"
	xForwardedFor          = "X-Forwarded-For"
	xForwardedHost         = "X-Forwarded-Host"
	xForwardedPort         = "X-Forwarded-Port"
	xForwardedProto        = "X-Forwarded-Proto"
	xForwardedScheme       = "X-Forwarded-Scheme"
	xScheme                = "X-Scheme"
	xOriginalForwardedFor  = "X-Original-Forwarded-For"
	xOriginalForwardedHost = "X-Original-Forwarded-Host"
	xOriginalURI           = "X-Original-Uri"
	maxSetFields           = 11
)

// managed reports whether a field, by its canonical name, is one that only we may set.
func managed(name string) bool {
	switch name[0] {
	case 'X':
		return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") ||
			strings.HasPrefix(name, "X-Auth-Request-") || name == xRealIP || name == xScheme || name == xRequestID
	case 'S':
		return strings.HasPrefix(name, "Ssl-Client-")
	case 'F':
		return name == "Forwarded"
	case 'P':
		return name == "Proxy" // httpoxy: CGI programs read it as HTTP_PROXY
	}
	return false
}

// Passes reports whether a client's field, by its canonical name, may stand before an endpoint, in a header or a trailer:
// none that only we may set, and none that a CGI program would read as one of those.
func Passes(name string) bool { return name != "" && isPlain(name) && !managed(name) }

// isPlain reports whether a name is made of letters, digits and '-'.
func isPlain(name string) bool {
	for i := range len(name) {
		if !plain[name[i]] {
			return false
		}
	}
	return true
}

var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = isLabel(byte(c)) && c != '_'
	}
	return t
}()

// passes is Passes for a field of a header, which [Clients] may let pass although its name is odd.
func (b *belief) passes(name string) bool {
	return Passes(name) || (b.Underscores || b.OddNames) && b.passesOdd(name)
}

// passesOdd is for names that are rare. They are judged as programs read them that take every odd byte for a '-'.
func (b *belief) passesOdd(name string) bool {
	read := []byte(name)
	for i, c := range read {
		switch {
		case plain[c]:
		case b.OddNames, c == '_' && b.Underscores:
			read[i] = '-'
		default:
			return false
		}
	}
	name = http.CanonicalHeaderKey(string(read))
	return name != "" && !managed(name) && !OfMessage(name)
}

// OfMessage reports whether a field, by its canonical name, says how the message is framed, where it goes, or on whose
// behalf: what the proxy and an endpoint must read alike.
func OfMessage(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Transfer-Encoding", "Content-Length", "Expect",
		"Host", "Authorization", "Cookie":
		return true
	}
	return false
}

// identify fills in who the client is, and replaces what the request says about that.
func (s *Server) identify(v *visit, r *http.Request) {
	e, b := &v.exchange, s.believed()
	e.Peer = v.peer(r.RemoteAddr)
	e.Client = e.Peer.Addr()
	e.ServerField = b.ServerField
	v.belief = b
	header := r.Header
	said := sayings{}
	e.Received += int64(len(r.Method) + len(r.RequestURI) + len(r.Host) + len(" HTTP/1.1\r\nHost: \r\n\r\n") + 1)
	if fields := v.read(); fields != nil { // to go through the map takes longer
		for i := range fields {
			if name := fields[i].Name; name != "Host" {
				e.count(name, fields[i].Value)
				b.hear(&said, header, name)
			}
		}
	} else {
		for name, values := range header {
			for _, value := range values {
				e.count(name, value)
			}
			b.hear(&said, header, name)
		}
	}
	id := said.id
	if e.ID = id; !saneID(id) {
		e.ID = newID()
		if id = e.ID; b.NoID {
			id = ""
		}
	}
	dropNominated(header)
	v.host = r.Host
	chain := ""
	if peer := e.Peer.Addr(); b.address.hold(peer) {
		e.Client = b.walk(said.forwardedFor, peer)
		if b.forwarded.hold(peer) {
			v.host = believe(e, said, r.Host)
			if b.FullForwardedFor && said.forwardedFor != "" {
				chain = said.forwardedFor + ", " + peer.String()
			}
		}
	} else if b.anybody && b.ForwardedFor != xForwardedFor {
		delete(header, b.ForwardedFor) // endpoints may believe it, too
	}
	client := text(e, r.RemoteAddr)
	if chain == "" {
		chain = client
	}
	v.set(header, xRequestID, id)
	v.set(header, xRealIP, client)
	v.set(header, xForwardedFor, chain)
	v.set(header, xForwardedHost, v.host)
	v.set(header, xForwardedPort, e.Port)
	v.set(header, xForwardedProto, e.Scheme)
	v.set(header, xForwardedScheme, e.Scheme)
	v.set(header, xScheme, e.Scheme)
	v.set(header, xOriginalForwardedFor, said.forwardedFor)
	v.set(header, xOriginalForwardedHost, said.host)
}

// identifyTarget tells endpoints the target that the client asked for, where that is wanted, once it has one reading.
// nginx tells it as it came: with dot segments, an endpoint could see in it a path that another route guards.
func (v *visit) identifyTarget(header http.Header) {
	if v.belief.OriginalURI {
		v.set(header, xOriginalURI, v.exchange.Target)
	}
}

// set gives the request a field whose value stands in the visit, which saves the allocation of a slice.
func (v *visit) set(header http.Header, name, value string) {
	if value == "" {
		return
	}
	v.fields[v.nfields] = value
	header[name] = v.fields[v.nfields : v.nfields+1 : v.nfields+1]
	v.nfields++
}

// sayings is what a request says of itself and of its way here.
type sayings struct{ id, forwardedFor, host, proto, port string }

// hear takes note of what a field says, and removes one that does not pass.
func (b *belief) hear(s *sayings, header http.Header, name string) {
	passes := b.passes(name)
	if passes && name != b.ForwardedFor {
		return
	}
	values := header[name]
	if !passes {
		delete(header, name)
	}
	if len(values) == 0 { // a field that came twice was heard and removed at its first place
		return
	}
	if name == b.ForwardedFor {
		s.forwardedFor = strings.Join(values, ", ")
	}
	switch name {
	case xRequestID:
		s.id = values[0]
	case xForwardedHost:
		s.host = values[0]
	case xForwardedProto:
		s.proto = values[0]
	case xForwardedPort:
		s.port = values[0]
	}
}

// believe takes what a trusted peer says of the scheme and the port, and returns the host that the client asked for.
func believe(e *Exchange, said sayings, host string) string {
	if said.proto == "http" || said.proto == "https" {
		e.Scheme = said.proto
		e.Port = map[string]string{"http": "80", "https": "443"}[said.proto]
	}
	if validPort(said.port) {
		e.Port = said.port
	}
	first, _, _ := strings.Cut(said.host, ",")
	if _, ok := NormalHost(strings.TrimSpace(first)); ok {
		host = strings.TrimSpace(first)
	}
	return host
}

// walk goes through X-Forwarded-For, or what stands in its place, from the right, over trusted proxies, to the first address that is not one. A word
// that is no address ends the walk: what stands left of it was never checked by anyone.
func (b *belief) walk(chain string, client netip.Addr) netip.Addr {
	for chain != "" {
		var word string
		if comma := strings.LastIndexByte(chain, ','); comma >= 0 {
			chain, word = chain[:comma], chain[comma+1:]
		} else {
			chain, word = "", chain
		}
		addr, ok := address(strings.TrimSpace(word))
		if !ok {
			return client
		}
		client = addr
		if !b.address.hold(client) {
			return client
		}
	}
	return client
}

// address reads an address as load balancers write it: some add the port, and with it the brackets of IPv6.
func address(word string) (addr netip.Addr, ok bool) {
	if addr, err := netip.ParseAddr(word); err == nil {
		return addr.Unmap(), addr.Zone() == ""
	}
	if with, err := netip.ParseAddrPort(word); err == nil {
		return with.Addr().Unmap(), with.Addr().Zone() == ""
	}
	return netip.Addr{}, false
}

// dropNominated removes the fields that the client's Connection field names (RFC 9110 section 7.6.1). It runs before our
// own fields are set, so that `Connection: X-Real-IP` removes the client's field and not ours. Credentials stay whatever
// is said: a check that has seen them and an upstream that does not would disagree about who asks. So do the fields that
// frame the message, and those that proxy/upstream removes itself and reads before.
func dropNominated(header http.Header) {
	for _, line := range header["Connection"] {
		for word := range strings.SplitSeq(line, ",") {
			if name := http.CanonicalHeaderKey(strings.TrimSpace(word)); name != "" && name != "Close" && !OfMessage(name) {
				delete(header, name)
			}
		}
	}
}

// text is the client's address. Where that is the peer, it is a part of remote, which saves an allocation.
func text(e *Exchange, remote string) string {
	if colon := strings.LastIndexByte(remote, ':'); e.Client == e.Peer.Addr() && e.Client.Is4() && colon > 0 && remote[0] != '[' {
		return remote[:colon]
	}
	return e.Client.String()
}

// saneID reports whether a client's own request id can stand in a log line.
func saneID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if !isLabel(id[i]) && strings.IndexByte(".:/+=~", id[i]) < 0 {
			return false
		}
	}
	return true
}

// newID is 128 random bits in 32 hex digits. No secret hangs on it: who guesses an id has guessed a word in a log.
func newID() string {
	var random [16]byte
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64())
	var digits [2 * len(random)]byte
	hex.Encode(digits[:], random[:])
	return string(digits[:])
}
