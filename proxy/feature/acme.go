package feature

// acme asks for certificates: which host gets one, and from whom, is for the controller and the process to say.
func acme(a *Annotations, d *Draft) {
	a.Section("Certificates from a certificate authority", ReachHosts, "For each host of the Ingress that has TLS (spec.tls) and no certificate that covers it, one is ordered by ACME before the first client comes, "+
		"and renewed; docs/acme.md has the rest. Of spec.tls a secretName may be left out, or name a Secret that does not exist: one that does, and covers the host, is used instead. "+
		"ingress-nginx has nothing like it. Hosts with a wildcard and further names of a host (server-alias) get none. "+
		"The process must have been told that the terms of the authority are agreed to (`--acme-accept-terms`).")
	d.Host.ACME = a.Shared().Bool("acme", false, "whether certificates are ordered for the hosts that have none")
	d.Host.ACMEByName = d.Host.ACME && a.Has("acme")
}
