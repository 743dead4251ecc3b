package feature

import (
	"crypto/tls"
	"slices"
	"strings"
)

// TLS is what holds for every handshake with clients.
type TLS struct {
	Min, Max uint16   // versions; zero: 1.2 and 1.3
	Suites   []uint16 // of TLS 1.2; nil: the usual ones
	Reject   bool     // handshakes for names that are nobody's
	Staple   bool     // what the authority says of the certificate
}

// tlsToClients is what Ingresses and the ConfigMap say of handshakes with clients (reference A8, B9). What holds for the whole
// process the certificates are told by [Config.TLS].
func tlsToClients(a *Annotations, d *Draft) {
	readTLS(a)
	a.Section("Cipher suites of a host", ReachHosts, "For TLS 1.2; those of TLS 1.3 are always there. Suites that encrypt without authentication, or keep no secrets forward, are not spoken; "+
		"those that the list names and that are not spoken are told of, by name. Which of several is used is for the two sides to find out, by what is fast on both. "+
		"A host with suites of its own has connections of its own: requests that come for it over another host's are answered 421, upon which clients open one. "+
		"Of several Ingresses with a list for a host the oldest counts.")
	wanted := a.hostCiphers()
	if a.Has("ssl-ciphers") && !slices.Equal(wanted, a.in.Config.TLS().Suites) {
		d.Host.Suites = wanted
	}
	a.Bool("ssl-prefer-server-ciphers", true, "whether the order of the list counts; has no effect")
}

func (a *Annotations) hostCiphers() []uint16 {
	return a.Shared().ciphers("ssl-ciphers", "the six with ECDHE and AES-GCM or ChaCha20", "the suites of TLS 1.2 that handshakes for the host may use; the key says it for all others")
}

func readTLS(a *Annotations) TLS {
	a.Section("TLS to clients", ReachProcess, "TLS 1.2 and 1.3 are spoken, with forward secrecy and authenticated encryption, and with a key exchange that holds out against quantum computers where the client has one. "+
		"There is no early data, no compression and no renegotiation. Sessions are resumed with tickets, whose keys all replicas share. "+
		"A change holds from the next handshake on.")
	a = a.Config()
	t := TLS{}
	t.Min, t.Max = a.protocols("ssl-protocols")
	t.Reject = a.Bool("ssl-reject-handshake", false, "whether handshakes for names that are no host of an Ingress, and those without a name, are refused; otherwise they get the default certificate")
	t.Staple = a.Bool("enable-ocsp", false, "whether handshakes bring what the authority says of the certificate, for those that name an OCSP server. It is fetched ahead, never in a handshake, and shown only while it is valid")
	return t
}

var versions = []struct {
	name    string
	version uint16 // 0: not spoken any more
}{{"TLSv1.2", tls.VersionTLS12}, {"TLSv1.3", tls.VersionTLS13}, {"TLSv1.1", 0}, {"TLSv1", 0}, {"SSLv3", 0}, {"SSLv2", 0}}

// protocols reads versions of TLS, as nginx writes them.
func (a *Annotations) protocols(name string) (least, most uint16) {
	d := Declaration{Name: name, Values: "TLSv1.2 and TLSv1.3, separated by a space", Default: "TLSv1.2 TLSv1.3", Usage: "the versions of TLS that handshakes may use"}
	var old []string
	both := read(a, d, [2]uint16{}, func(value string) (both [2]uint16, expected string) {
		old = nil
		for _, word := range strings.Fields(value) {
			i := slices.IndexFunc(versions, func(v struct {
				name    string
				version uint16
			}) bool {
				return strings.EqualFold(v.name, word)
			})
			switch {
			case i < 0:
				return both, "expected TLSv1.2 or TLSv1.3, or both with a space between"
			case versions[i].version == 0:
				old = append(old, word)
			default:
				if both[0] == 0 || versions[i].version < both[0] {
					both[0] = versions[i].version
				}
				both[1] = max(both[1], versions[i].version)
			}
		}
		return both, unless(both[0] != 0, "expected TLSv1.2 or TLSv1.3, or both with a space between")
	})
	if len(old) > 0 && both[0] != 0 {
		a.Refuse(name, strings.Join(old, ", ")+": too old to be spoken; the others are used")
	}
	return both[0], both[1]
}
