// Package config is what the process was told: its flags, the environment that stands in for them, and the news that a
// folder it was told to read has changed.
//
// A [Config] is filled by flags. A command adds the groups of flags it has a use for, fills in the environment once the
// command line has been parsed, and reads plain fields from then on:
//
//	c := config.Default()
//	c.AddSources(flags)
//	c.AddListeners(flags)
//	// the command line is parsed into flags
//	if err := config.Environment(flags, os.LookupEnv); err != nil { ... }
//
// # The rule of order
//
// A flag on the command line decides; else the environment variable of the same name, in capitals, with underscores and
// SALLYPORT_ before it (--http-port is SALLYPORT_HTTP_PORT); else the default. A list given by a flag replaces the
// default and the environment, it is not added to them.
//
// Flags have the names that ingress-nginx gives them where they mean the same, so that people's command lines carry over.
// A flag that only another controller has is refused with the name of the one that does its work here ([Foreign]).
//
// # What it does not do
//
// It reads no configuration file and asks nothing of a cluster. Whether a Service or a Secret that a flag names exists is
// known when the table is built. It knows nothing of Kubernetes types.
package config

import (
	"log/slog"
	"net/netip"
	"time"
)

// A Config is what one process was told. [Default] gives the values of flags that nobody set.
type Config struct {
	// Manifests are the folders to serve from. Empty: a cluster.
	Manifests []string
	// Kubeconfig is the file that says how to reach the cluster. Empty: the pod's own service account.
	Kubeconfig string
	// Map sends what the manifests' Services would get to processes of this machine.
	Map []Mapping

	// BindAddress is the address the HTTP and HTTPS listeners are bound to. Not valid: every address.
	BindAddress netip.Addr
	HTTPPort    uint16 // 0: the system picks one
	HTTPSPort   uint16 // 0: the system picks one
	// AdminAddress is the address the admin listener is bound to. Not valid: every address.
	AdminAddress netip.Addr
	AdminPort    uint16 // 0: the system picks one
	// TrustedProxies are the peers whose X-Forwarded-* headers are believed. Empty: nobody's.
	TrustedProxies []netip.Prefix

	ControllerClasses        []string // values of IngressClass spec.controller that are ours
	IngressClass             string   // the class name that the annotation, or IngressClassByName, asks for
	IngressClassByName       bool
	WatchIngressWithoutClass bool
	WatchNamespaces          []string // empty: all
	WatchNamespaceSelector   string   // a label selector; empty: all
	DefaultBackendService    Name     // zero: the built-in 404
	DefaultSSLCertificate    Name     // zero: a self-signed one
	DisableCatchAll          bool
	ConfigMap                Name // defaults of annotations and settings of the process; zero: none
	TCPServices, UDPServices Name // ConfigMaps with Services that have ports of their own; zero: none

	EnableSSLPassthrough bool // the annotation ssl-passthrough counts

	// ACMEAcceptTerms has certificates ordered of an authority, whose terms are agreed to by it.
	ACMEAcceptTerms    bool
	ACMEDirectory      string // URL; empty: Let's Encrypt's
	ACMEEmail          string // of the account; empty: none
	ACMECABundle       string // file with the authorities that the directory's certificate may be of; empty: the system's
	ACMEEABKeyID       string // of an account that the authority knows; empty: none
	ACMEEABHMACKeyFile string
	ACMEChallenges     []string // kinds, in the order in which they are tried; empty: all
	ACMEOrdersPerHour  int      // of all hosts; 0: the usual

	DisableSvcExternalName bool // Services of type ExternalName are not served
	// AllowExternalNameAddresses are taken from names of Services although they are refused otherwise. Empty: none.
	AllowExternalNameAddresses []netip.Prefix
	// ResolvConf is the file that says how such names are resolved.
	ResolvConf string

	EnableTopologyAwareRouting bool   // Services that ask for it are served from near endpoints
	Zone                       string // that this process runs in; empty: that of NodeName, where a cluster tells
	NodeName                   string // that this process runs on; empty: not known

	// PublishService is the Service whose addresses are published in the status of Ingresses, PublishStatusAddress what is
	// published instead of any Service's. Both zero: the addresses of the nodes that run this controller's Pods.
	PublishService              Name
	PublishStatusAddress        []string
	ReportNodeInternalIPAddress bool          // where addresses of nodes are published
	UpdateStatus                bool          // of Ingresses
	UpdateStatusOnShutdown      bool          // of the last replica
	DisableSyncEvents           bool          // no Event says that an Ingress is served
	ElectionID                  string        // name of the Lease
	ElectionTTL                 time.Duration // of the Lease, from its holder's last sign of life
	DisableLeaderElection       bool

	// MaxConnections bounds the connections that clients of HTTP and HTTPS have open, MaxConnectionsPerAddress those of one
	// address. Zero: no limit.
	MaxConnections           int
	MaxConnectionsPerAddress int

	ProxyConnectTimeout time.Duration
	ProxySendTimeout    time.Duration // between two writes of a request
	ProxyReadTimeout    time.Duration // between two reads of an answer
	AccessLog           string        // "off", "text" or "json"
	LogLevel            slog.Level
	LogFormat           string // "auto", "text" or "json"
	Profiling           bool
	StateDir            string        // what outlives the process where a folder is served; empty: that of the user
	DrainDelay          time.Duration // between SIGTERM and the end of accepting
	ShutdownGracePeriod time.Duration // from then on, for what is in flight
}

// A Name is a namespace and a name, as in "default/web". The zero Name is none.
type Name struct{ Namespace, Name string }

func (n Name) String() string {
	if n == (Name{}) {
		return ""
	}
	return n.Namespace + "/" + n.Name
}

// A Mapping sends the traffic of a Service to an address of the operator's choice.
type Mapping struct {
	Service  Name
	Port     string // name or number of the Service's port; empty: every port
	Host     string // name or address to send to
	HostPort uint16
}

// Default is what a process does that was told nothing.
func Default() Config {
	return Config{
		HTTPPort:          8080,
		HTTPSPort:         8443,
		AdminPort:         10254,
		ControllerClasses: []string{"sallyport/ingress-controller"},
		IngressClass:      "sallyport",

		ResolvConf: "/etc/resolv.conf",

		ACMEOrdersPerHour: 80,

		UpdateStatus:           true,
		UpdateStatusOnShutdown: true,
		ElectionID:             "sallyport-leader",
		ElectionTTL:            15 * time.Second,

		ProxyConnectTimeout: 5 * time.Second,
		ProxySendTimeout:    60 * time.Second,
		ProxyReadTimeout:    60 * time.Second,
		AccessLog:           "text",
		LogLevel:            slog.LevelInfo,
		LogFormat:           "auto",
		DrainDelay:          5 * time.Second,
		ShutdownGracePeriod: 30 * time.Second,
	}
}
