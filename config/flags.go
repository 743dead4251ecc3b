package config

import "github.com/spf13/pflag"

// AddSources adds the flags that say where objects come from.
func (c *Config) AddSources(flags *pflag.FlagSet) {
	flags.Var(folders(&c.Manifests), "manifests", "serve from a folder of manifests, or a single file, read again whenever it changes (repeatable)")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "serve from the cluster that this `FILE` names; in a pod, its own cluster is the default")
	flags.Var(namespaces(&c.WatchNamespaces), "watch-namespace", "serve the Ingresses of this namespace only (repeatable)")
	flags.StringVar(&c.WatchNamespaceSelector, "watch-namespace-selector", c.WatchNamespaceSelector, "serve the Ingresses of namespaces with these `LABELS` only, as in team=web")
}

// AddMap adds the flag that sends what Services would get elsewhere.
func (c *Config) AddMap(flags *pflag.FlagSet) {
	flags.Var(mappings(&c.Map), "map", "send a Service's traffic to a process of this machine, as in default/web:80=localhost:3000 (repeatable)")
}

// AddClasses adds the flags that say which Ingresses are ours and what serves the rest.
func (c *Config) AddClasses(flags *pflag.FlagSet) {
	flags.Var(controllerClasses(&c.ControllerClasses), "controller-class", "IngressClasses with this spec.controller are ours (repeatable)")
	flags.StringVar(&c.IngressClass, "ingress-class", c.IngressClass, "`NAME` of the class that the annotation kubernetes.io/ingress.class asks for")
	flags.VarPF(toggle{&c.IngressClassByName}, "ingress-class-by-name", "", "IngressClasses called --ingress-class are ours, whatever their spec.controller").NoOptDefVal = "true"
	flags.VarPF(toggle{&c.WatchIngressWithoutClass}, "watch-ingress-without-class", "", "serve Ingresses that name no class").NoOptDefVal = "true"
	flags.Var(name{&c.DefaultBackendService}, "default-backend-service", "Service that answers what no Ingress does, as in default/web; its first port is used")
	flags.Var(name{&c.DefaultSSLCertificate}, "default-ssl-certificate", "Secret with the certificate for hosts that have none, as in default/tls")
	flags.Var(name{&c.ConfigMap}, "configmap", "ConfigMap with defaults for every Ingress and settings of the process, as in sallyport/sallyport")
	flags.VarPF(toggle{&c.DisableCatchAll}, "disable-catch-all", "", "set aside Ingresses with a spec.defaultBackend").NoOptDefVal = "true"
}

// AddServices adds the flags that say which Services are served, and which of their endpoints.
func (c *Config) AddServices(flags *pflag.FlagSet) {
	flags.Var(name{&c.TCPServices}, "tcp-services-configmap", "ConfigMap with Services that are served over TCP, each on a port of its own, as in sallyport/tcp")
	flags.Var(name{&c.UDPServices}, "udp-services-configmap", "ConfigMap with Services that are served over UDP, likewise")
	flags.VarPF(toggle{&c.EnableSSLPassthrough}, "enable-ssl-passthrough", "", "pass the TLS connections of hosts with the annotation ssl-passthrough on as they are").NoOptDefVal = "true"
	flags.VarPF(toggle{&c.DisableSvcExternalName}, "disable-svc-external-name", "", "serve no Service of type ExternalName").NoOptDefVal = "true"
	flags.Var(prefixes(&c.AllowExternalNameAddresses), "allow-external-name-addresses", "addresses that names of ExternalName Services may lead to although they are refused otherwise, as loopback, link-local and the API server's are (repeatable)")
}

// AddNearness adds the flags of a process that resolves names and knows where it runs.
func (c *Config) AddNearness(flags *pflag.FlagSet) {
	flags.StringVar(&c.ResolvConf, "resolv-conf", c.ResolvConf, "`FILE` with the name servers and search domains for names of ExternalName Services, read again when it changes")
	flags.VarPF(toggle{&c.EnableTopologyAwareRouting}, "enable-topology-aware-routing", "", "prefer endpoints that are meant for this zone or node, where a Service asks for that").NoOptDefVal = "true"
	flags.Var(place{&c.Zone, "ZONE"}, "zone", "zone that this process runs in; in a pod, that of its node is the default")
	flags.Var(place{&c.NodeName, "NODE"}, "node-name", "node that this process runs on; NODE_NAME in the environment says so too")
}

// AddReports adds the flags that say what is written to a cluster, and by which replica.
func (c *Config) AddReports(flags *pflag.FlagSet) {
	flags.Var(name{&c.PublishService}, "publish-service", "Service whose addresses stand in the status of Ingresses, as in sallyport/sallyport")
	flags.Var(hosts(&c.PublishStatusAddress), "publish-status-address", "addresses or host names that stand there instead (repeatable)")
	flags.VarPF(toggle{&c.ReportNodeInternalIPAddress}, "report-node-internal-ip-address", "", "publish the internal addresses of nodes, where those are published, although they have external ones").NoOptDefVal = "true"
	flags.VarPF(toggle{&c.UpdateStatus}, "update-status", "", "write the status of Ingresses").NoOptDefVal = "true"
	flags.VarPF(toggle{&c.UpdateStatusOnShutdown}, "update-status-on-shutdown", "", "empty it when the last replica leaves").NoOptDefVal = "true"
	flags.VarPF(toggle{&c.DisableSyncEvents}, "disable-sync-events", "", "write no Event when an Ingress is first served; mistakes are told in any case").NoOptDefVal = "true"
	flags.Var(lease{&c.ElectionID}, "election-id", "name of the Lease whose holder writes, in the namespace POD_NAMESPACE")
	flags.Var(leaseTime{duration{&c.ElectionTTL}}, "election-ttl", "how long after its last sign of life a replica that writes is replaced")
	flags.VarPF(toggle{&c.DisableLeaderElection}, "disable-leader-election", "", "write without a Lease; for a single replica only").NoOptDefVal = "true"
	flags.VarPF(reverse{&c.DisableLeaderElection}, "leader-elect", "", "the opposite of --disable-leader-election").NoOptDefVal = "true"
	hideAliases(flags)
}

// AddListeners adds the flags that say where to listen, and whom to believe there.
func (c *Config) AddListeners(flags *pflag.FlagSet) {
	flags.Var(address{&c.BindAddress}, "bind-address", "address for HTTP and HTTPS; every address when empty")
	flags.Var(port{&c.HTTPPort}, "http-port", "port for HTTP; 0 for a free one")
	flags.Var(port{&c.HTTPSPort}, "https-port", "port for HTTPS; 0 for a free one")
	flags.Var(address{&c.AdminAddress}, "admin-address", "address for health, metrics and routes; every address when empty")
	flags.Var(port{&c.AdminPort}, "admin-port", "port for health, metrics and routes; 0 for a free one")
	flags.Var(prefixes(&c.TrustedProxies), "trusted-proxies", "peers whose X-Forwarded headers are believed: addresses and networks, as in 10.0.0.0/8 (repeatable)")

	// The same under the names that other controllers have taught people.
	flags.Var(port{&c.AdminPort}, "healthz-port", "the same as --admin-port")
	flags.Var(address{&c.AdminAddress}, "healthz-host", "the same as --admin-address")
	flags.Var(bind{&c.AdminAddress, &c.AdminPort}, "metrics-bind-address", "the same as --admin-address and --admin-port, as in :10254")
	flags.Var(bind{&c.AdminAddress, &c.AdminPort}, "health-probe-bind-address", "the same as --admin-address and --admin-port, as in :10254")
	hideAliases(flags)
}

// AddACME adds the flags of a process that orders certificates.
func (c *Config) AddACME(flags *pflag.FlagSet) {
	flags.VarPF(toggle{&c.ACMEAcceptTerms}, "acme-accept-terms", "", "agree to the terms of service of the certificate authority, and order certificates for the hosts of Ingresses with the annotation acme").NoOptDefVal = "true"
	flags.Var(webAddress{&c.ACMEDirectory}, "acme-directory", "where certificates are ordered: the `URL` of an ACME directory; Let's Encrypt's when empty")
	flags.StringVar(&c.ACMEEmail, "acme-email", c.ACMEEmail, "`ADDRESS` that the authority may write to about the account")
	flags.StringVar(&c.ACMECABundle, "acme-ca-bundle", c.ACMECABundle, "`FILE` of PEM with the certificates that the directory's own must lead to; the system's when empty")
	flags.StringVar(&c.ACMEEABKeyID, "acme-eab-kid", c.ACMEEABKeyID, "`ID` of the key that binds the account to one that the authority knows (external account binding)")
	flags.StringVar(&c.ACMEEABHMACKeyFile, "acme-eab-hmac-key-file", c.ACMEEABHMACKeyFile, "`FILE` with that key, in base64url as authorities give it")
	flags.Var(challenges(&c.ACMEChallenges), "acme-challenges", "kinds of challenges that are answered, in the order in which they are tried: http-01 needs port 80 from outside, tls-alpn-01 port 443; both when empty (repeatable)")
	flags.Var(count{&c.ACMEOrdersPerHour}, "acme-orders-per-hour", "the most orders for all hosts together; half as many may be made at once")
}

// AddProcess adds the flags of a process that serves: timeouts, logs, and how it leaves.
func (c *Config) AddProcess(flags *pflag.FlagSet) {
	flags.Var(bound{&c.MaxConnections}, "max-connections", "how many connections clients of HTTP and HTTPS may have open; one more is reset; 0 means no limit")
	flags.Var(bound{&c.MaxConnectionsPerAddress}, "max-connections-per-address", "the same for each client's IPv4 address or /64 network of IPv6")
	flags.Var(timeout{duration{&c.ProxyConnectTimeout}}, "proxy-connect-timeout", "how long connecting to an endpoint may take")
	flags.Var(timeout{duration{&c.ProxySendTimeout}}, "proxy-send-timeout", "the longest gap while a request is sent to an endpoint")
	flags.Var(timeout{duration{&c.ProxyReadTimeout}}, "proxy-read-timeout", "the longest gap while an answer is read from an endpoint")
	flags.Var(duration{&c.DrainDelay}, "drain-delay", "how long after SIGTERM new connections are still taken, while readiness already fails")
	flags.Var(duration{&c.ShutdownGracePeriod}, "shutdown-grace-period", "how long requests in flight may take after that")
	flags.Var(choice{&c.AccessLog, []string{"off", "text", "json"}}, "access-log", "access log on standard output: off, text or json")
	flags.Var(level{&c.LogLevel}, "log-level", "least level that is logged: debug, info, warn or error")
	flags.Var(choice{&c.LogFormat, []string{"auto", "text", "json"}}, "log-format", "form of the log on standard error: text, json, or auto for text on a terminal")
	flags.StringVar(&c.StateDir, "state-dir", c.StateDir, "`DIR` for what outlives the process where a folder of manifests is served, as its local CA; $XDG_STATE_HOME/sallyport or ~/.local/state/sallyport when empty")
	flags.Var(verbosity{&c.LogLevel}, "v", "the same as --log-level, as a number: 3 and above is debug, below is info")
	flags.VarPF(toggle{&c.Profiling}, "profiling", "", "serve Go's profiles under /debug/pprof on the admin port").NoOptDefVal = "true"
	hideAliases(flags)
}

// hideAliases keeps second names out of the help text, where they would only raise the question which one is right.
func hideAliases(flags *pflag.FlagSet) {
	for alias := range aliases {
		if flag := flags.Lookup(alias); flag != nil {
			flag.Hidden = true
		}
	}
}
