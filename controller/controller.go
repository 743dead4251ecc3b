// Package controller makes a routing table of Kubernetes objects.
//
//	var snapshot controller.Snapshot
//	snapshot.Set(ingress)                               // and Services, EndpointSlices, Secrets, IngressClasses
//	builder := controller.NewBuilder(controller.Options{ControllerClasses: []string{"sallyport/ingress-controller"}})
//	result := builder.Build(&snapshot)
//	server.SetTable(result.Table)                       // when result.TableChanged
//
// A source of objects, which is a folder of manifests (controller/manifests) or a cluster (controller/cluster), keeps a
// [Snapshot] up to date. A [Builder] translates each Ingress of it alone, then assembles the hosts: who wins a path, which
// certificate a host has, what answers where no path matches. The same objects always make the same table, in whatever
// order they arrived, and whatever was built before.
//
// # A build costs by what changed
//
// An Ingress that is what it was keeps its handlers, and with them what they have learned. A host none of whose Ingresses
// changed keeps its place in the table. Endpoints are not in the table at all: they are set in the pools of
// proxy/upstream, so that a Pod that comes or goes builds no table.
//
// # Mistakes
//
// Objects come from users. What is wrong with one is a [Problem] on it, and affects the routes that need it and nothing
// else: a bad path is set aside without the others of its Ingress; a Service that does not exist makes its routes answer
// 503; a Secret that does not exist means the default certificate. Nothing is silent and nothing stops a build.
//
// # Rule of order
//
// Wherever two Ingresses want the same thing, the older one has it, by creationTimestamp. Of two of the same second the
// one whose namespace/name is the larger string comes first, as with ingress-nginx. Objects of a folder have no
// timestamp unless one is written in the manifest, so there the larger name decides.
//
// # What it does not do
//
// It reads no files and asks no API server, resolves no names (controller/names does), writes no status and swaps no table.
package controller

import (
	"net/http"
	"net/netip"
	"time"

	"sallyport/certs"
	"sallyport/proxy"
	"sallyport/proxy/feature"
	"sallyport/proxy/stream"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// Options are what a build needs to know beside the objects. The zero Options serve every Ingress whose IngressClass has
// the controller DefaultControllerClass.
type Options struct {
	// ControllerClasses are the values of an IngressClass's spec.controller that are ours. Empty: DefaultControllerClass.
	ControllerClasses []string
	// IngressClass is the value of the annotation kubernetes.io/ingress.class that is ours, and with IngressClassByName
	// the name of an IngressClass that is ours whatever its controller. Empty: none.
	IngressClass       string
	IngressClassByName bool
	// WatchWithoutClass serves Ingresses that name no class.
	WatchWithoutClass bool
	// ServeAllWithoutClasses is for folders of manifests. While there is no IngressClass object, every Ingress is served;
	// when there are some, an Ingress that names none has the default class, as an API server would write it, and one
	// that names a class nobody defines is told so.
	ServeAllWithoutClasses bool
	// DisableCatchAll sets aside Ingresses with a spec.defaultBackend.
	DisableCatchAll bool

	DefaultBackend     Key // Service, by its first port, for what no route takes; zero: the front's own 404
	DefaultCertificate Key // Secret, for names without a certificate; zero: a self-signed one
	ConfigMap          Key // of the controller: defaults of annotations, and settings of the process; zero: none

	// ACMENamespace is where the certificates are that an authority issues for hosts that ask for it. Empty: none are ordered.
	ACMENamespace string

	// TCPServices and UDPServices are ConfigMaps with the Services of further ports; zero: none.
	TCPServices, UDPServices Key
	// OwnPorts are the ports of TCP that the process itself listens on, with the flags that say so.
	OwnPorts map[uint16]string

	// Map replaces the endpoints of Services, also of those that do not exist.
	Map map[MapKey][]netip.AddrPort
	// AllowLoopback takes loopback addresses in EndpointSlices. Leave it false where the slices are anybody's: they could
	// reach what listens on this machine alone.
	AllowLoopback bool

	// DisableExternalName serves no Service of type ExternalName.
	DisableExternalName bool
	// AllowExternalAddresses are taken although the name of such a Service leads to them and they are refused otherwise: see
	// externalname.go.
	AllowExternalAddresses []netip.Prefix
	// APIServers are addresses of the API server, which are refused beside those that the snapshot tells.
	APIServers []netip.Addr

	// Topology keeps the requests of Services that ask for it near: at Node and in Zone, which are where this process runs.
	// Empty: the snapshot may know the zone, the node is not known.
	Topology   bool
	Node, Zone string

	Pools    *upstream.Pools  // nil: pools of the Builder's own
	Settings feature.Settings // facts about the process that features need

	// Retain is called when a route comes into a table and returns its observer, Release when it is in none any more: both
	// before Build returns, so that exchanges under way, and those that still meet the table before, may be told to an
	// observer that was released. Nil: routes have no observer.
	Retain  func(*proxy.RouteInfo) proxy.Observer
	Release func(*proxy.RouteInfo)

	Now func() time.Time // for the dates of certificates; nil: time.Now
}

// DefaultControllerClass is the spec.controller of the IngressClass that comes with the product.
const DefaultControllerClass = "sallyport/ingress-controller"

// A MapKey names a Service and one of its ports, by name or number. An empty Port stands for all of them.
type MapKey struct {
	Service Key
	Port    string
}

// A Result is what a build came to.
type Result struct {
	Table        *router.Table // the same pointer as the time before unless TableChanged
	TableChanged bool          // true for the first build
	Generation   uint64        // counts the tables, from 1
	Certificates certs.Certificates
	Staple       bool // handshakes are to bring what authorities say of the certificates
	// Clients is what the front is to be told of clients: the same pointer as the time before unless it changed. Nil: the
	// controller has no ConfigMap.
	Clients *proxy.Clients
	// Around stands around every answer of the front. Nil: nothing does.
	Around  func(http.Handler) http.Handler
	Streams []stream.Service // that have ports of their own; never written to once it was handed out
	// Passthrough are the hosts whose TLS connections are passed on, by name, wildcards included, and where to: a Service
	// without a pool closes them. A nil Service is that of a host below such a wildcard whose TLS ends here. The same map as
	// the time before unless it changed.
	Passthrough map[string]*stream.Service
	Problems    []Problem // by object and field

	// OnlyEndpoints says that endpoints may be others than after the build before, and nothing else is: neither the
	// Ingresses that are served nor the problems, nor an object that one of these is about.
	OnlyEndpoints bool

	// Again is when a build of the same objects comes to something else, because certificates begin or end. Zero: never.
	Again time.Time

	Ingresses int // that are served, in part at least
	Hosts     int // names in the table; any host counts as one
	Routes    int // of the table, fallbacks included
	Took      time.Duration
}

func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}
