package feature

// Passthrough has the TLS connections of a host passed on as they are.
type Passthrough struct {
	Announce bool // each begins with a PROXY header, which says who the client is
}

// Names of annotations that hold for connections that are passed on.
const (
	passthroughName = "ssl-passthrough"
	announceName    = "ssl-passthrough-proxy-protocol"
)

// CountsBesidePassthrough reports whether an annotation, named in full, does what it says for a host whose TLS connections
// are passed on: it is about them, or about plain HTTP alone.
func CountsBesidePassthrough(key string) bool {
	name, _ := nameOf(key)
	switch name {
	case passthroughName, announceName, "ssl-redirect", "force-ssl-redirect", "use-port-in-redirects", "preserve-trailing-slash":
		return true
	}
	return false
}

// sslPassthrough leaves the TLS of a host to its endpoints (reference A8 and B9 #88). It is nothing that a request meets:
// the controller tells the front which hosts are not its own to decrypt.
func sslPassthrough(a *Annotations, d *Draft) {
	a.Section("TLS passed through", ReachHosts, "With ssl-passthrough, and with the flag `--enable-ssl-passthrough`, the TLS connections of the host are passed on as they are to the Service of its path `/`, "+
		"by the name in the client's first message. The endpoint has the certificate; nothing that is said is seen here, so no other annotation, path or Secret counts for these connections, which is told. "+
		"Plain HTTP is served by the usual rules. A host is passed on when an Ingress of the namespace that has its path `/` says so; in ingress-nginx any Ingress may. "+
		"A request for such a host over another host's TLS is answered 421. Where the Service does not exist, or something is wrong with a guard of the Ingress, connections are closed. "+
		"Connections are sent to endpoints, not to the Service's cluster IP, and drained as those of [TCP services](tcp-udp.md) are; see [passthrough](passthrough.md).")
	wanted := a.Bool(passthroughName, false, "whether the TLS connections of the host are passed on to the Service of its path `/`")
	announce := a.Shared().Bool(announceName, false, "whether each of these connections begins with a PROXY header (version 1), which tells the endpoint who the client is")
	if !wanted {
		return
	}
	if !d.Settings.Passthrough {
		a.Refuse(passthroughName, "it needs the flag --enable-ssl-passthrough; without it TLS ends here, as for every host")
		return
	}
	d.Host.Passthrough = &Passthrough{Announce: announce}
}
