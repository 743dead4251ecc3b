package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"sallyport/proxy/upstream"
)

// A Service of type ExternalName is a name for a host elsewhere. What the name leads to is part of the snapshot, found out
// by whoever keeps that: a build asks nobody. Its addresses come from a name server that may be anybody's, who could send
// requests to this machine, to the metadata service of a cloud, or to the API server with them; those are refused. They are
// judged here, where they become endpoints, and not as names: a name can be made to lead anywhere a moment later.

// A Resolution is what is known of a host name.
type Resolution struct {
	Addresses []netip.Addr // in order, each once
	// Fault says why there are no addresses, or why they may be old: as in "there is no such name". Empty: they are good.
	Fault string
}

// Equal reports whether two of them say the same.
func (r Resolution) Equal(o Resolution) bool {
	return r.Fault == o.Fault && slices.Equal(r.Addresses, o.Addresses)
}

// SetName puts in what is known of a host name, written as the Services write it, and says whether that is another thing
// than before. Nobody changes the addresses any more.
func (s *Snapshot) SetName(name string, r Resolution) bool {
	if old, ok := s.names[name]; ok && old.Equal(r) {
		return false
	}
	if s.names == nil {
		s.names = make(map[string]Resolution)
	}
	s.names[name] = r
	s.renamed(name)
	return true
}

// ForgetName takes out what is known of a name, and says whether anything was.
func (s *Snapshot) ForgetName(name string) bool {
	if _, ok := s.names[name]; !ok {
		return false
	}
	delete(s.names, name)
	s.renamed(name)
	return true
}

// Name returns what is known of a host name. Not ok: nothing, yet.
func (s *Snapshot) Name(name string) (r Resolution, ok bool) {
	r, ok = s.names[name]
	return r, ok
}

func (s *Snapshot) renamed(name string) {
	s.revision++
	if s.changedNames == nil {
		s.changedNames = make(map[string]struct{})
	}
	s.changedNames[name] = struct{}{}
}

// isExternal reports whether a Service stands for a host elsewhere.
func isExternal(service *corev1.Service) bool {
	return service != nil && service.Spec.Type == corev1.ServiceTypeExternalName
}

// resolveExternal finds the pool of a backend whose Service is of type ExternalName. It needs no port of the Service: a
// number is where to connect (reference A6).
func (o *Options) resolveExternal(key Key, service *corev1.Service, wanted, field string) target {
	if o.DisableExternalName {
		return nowhere(ReasonUnsupportedBackend, "name", "Service %q is of type ExternalName (%s), which --disable-svc-external-name keeps from being served; its requests are answered 503", key.Name, service.Spec.ExternalName)
	}
	if message := checkExternalName(service.Spec.ExternalName); message != "" {
		return nowhere(ReasonUnsupportedBackend, "name", "Service %q stands for %q, which %s; its requests are answered 503", key.Name, service.Spec.ExternalName, message)
	}
	port, byTarget := findPort(service, wanted)
	switch {
	case port != nil && !byTarget && !isTCP(port.Protocol):
		return nowhere(ReasonUnsupportedBackend, field, "port %q of Service %q is %s; an Ingress needs TCP", wanted, key.Name, port.Protocol)
	case port != nil && !byTarget:
		return target{id: poolID(key, portName(port))}.speaking(port).keeping(service)
	}
	if _, err := strconv.ParseUint(wanted, 10, 16); err != nil {
		return nowhere(ReasonPortNotFound, field, "Service %q has no port %q; it has %s, and a port by number needs none", key.Name, wanted, describePorts(service))
	}
	return target{id: poolID(key, wanted)}.keeping(service)
}

// checkExternalName says what is wrong with the name that a Service stands for: what an API server says, and that this
// machine is not elsewhere. Empty: nothing is.
func checkExternalName(name string) string {
	bare := strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case bare == "":
		return "is no name"
	case isAddress(bare):
		return ""
	case slices.Contains(ownNames, bare), strings.HasSuffix(bare, ".localhost"):
		return "is this machine"
	case len(validation.IsDNS1123Subdomain(bare)) > 0:
		return "is not the name of a host; lower-case letters, digits, '-' and '.' are expected"
	}
	return ""
}

// ownNames are what machines call themselves. Other names that end in .localdomain are hosts of a network without a name.
var ownNames = []string{"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// externalPort is where to connect at the host that a Service stands for: the targetPort of its port, where that is a number,
// as with ingress-nginx; else the port. Zero: it has no such port.
func externalPort(service *corev1.Service, id upstream.ID) uint16 {
	if port := poolPort(service, id); port != nil {
		if n := port.TargetPort.IntValue(); port.TargetPort.Type == intstr.Int && n > 0 && n < 1<<16 {
			return uint16(n)
		}
		return uint16(port.Port)
	}
	number, _ := portOf(id)
	n, _ := strconv.ParseUint(number, 10, 16)
	return uint16(n)
}

// externalEndpoints are the endpoints of a pool whose Service is of type ExternalName. Known is false while nobody has found
// out about its name yet: what the pool has stays then, be it nothing or what the name before this one led to.
func (o *Options) externalEndpoints(s *Snapshot, service *corev1.Service, id upstream.ID) (all []netip.AddrPort, problems []Problem, known bool) {
	name, port := service.Spec.ExternalName, externalPort(service, id)
	if o.DisableExternalName || port == 0 || checkExternalName(name) != "" {
		return nil, nil, true // the Ingresses have been told
	}
	tell := func(severity Severity, reason, format string, a ...any) {
		problems = append(problems, Problem{Object: Ref{"Service", service.Namespace, service.Name}, Severity: severity, Reason: reason,
			Field: "spec.externalName", Message: fmt.Sprintf(format, a...)})
	}
	now, ok := s.Name(name)
	if address, err := netip.ParseAddr(strings.TrimSuffix(name, ".")); err == nil {
		now, ok = Resolution{Addresses: []netip.Addr{address}}, true
	}
	if !ok {
		return nil, nil, false
	}
	var refused []string
	api := o.apiServers(s)
	for _, address := range now.Addresses {
		address = address.Unmap()
		if what := refusedAddress(address, api); what != "" && !allowed(o.AllowExternalAddresses, address) {
			refused = append(refused, fmt.Sprintf("%s (%s)", address, what))
			continue
		}
		all = append(all, netip.AddrPortFrom(address, port))
	}
	if len(refused) > 0 {
		rest := "the others are used"
		if len(all) == 0 {
			rest = answered503
		}
		tell(Error, ReasonAddressRefused, "%q leads to %s, which --allow-external-name-addresses does not allow; %s", name, strings.Join(refused, ", "), rest)
	}
	switch {
	case now.Fault != "" && len(now.Addresses) > 0:
		tell(Warning, ReasonNameNotResolved, "%q cannot be resolved now: %s; the addresses it had last are used", name, now.Fault)
	case now.Fault != "":
		tell(Error, ReasonNameNotResolved, "%q cannot be resolved: %s; %s", name, now.Fault, answered503)
	}
	return all, problems, true
}

// apiServers are the addresses at which the API server is reached from inside a cluster, as far as they are known.
func (o *Options) apiServers(s *Snapshot) []netip.Addr {
	key := Key{"default", "kubernetes"}
	all := slices.Clone(o.APIServers)
	add := func(text string) {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address.Unmap())
		}
	}
	if service := s.Service(key); service != nil {
		add(service.Spec.ClusterIP)
		for _, ip := range service.Spec.ClusterIPs {
			add(ip)
		}
	}
	for _, slice := range s.Slices(key) {
		for i := range slice.Endpoints {
			for _, address := range slice.Endpoints[i].Addresses {
				add(address)
			}
		}
	}
	return all
}

// metadata are the addresses at which clouds tell machines their secrets.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // nearly all of them
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud, formerly
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")
	translated4 = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::/96")} // an IPv4 address is in the last 32 bits
)

// RefuseAddress says what is at an address to which nothing is sent because an object of somebody's names it, or leads there:
// neither by a feature (see [feature.Settings]) nor to ask about a certificate. Empty: nothing that would be refused. It may be
// called from any goroutine.
func (b *Builder) RefuseAddress(a netip.Addr) string {
	a = a.Unmap()
	if allowed(b.options.AllowExternalAddresses, a) || b.options.AllowLoopback && a.IsLoopback() {
		return ""
	}
	api := b.options.APIServers
	if known := b.api.Load(); known != nil {
		api = *known
	}
	return refusedAddress(a, api)
}

// refusedAddress says what is at an address to which no name outside may lead; "": nothing of that kind.
func refusedAddress(a netip.Addr, api []netip.Addr) string {
	switch {
	case a.IsUnspecified(), a.Is4() && thisNetwork.Contains(a):
		return "no host at all"
	case a.IsLoopback():
		return "this machine"
	case slices.Contains(metadata, a):
		return "the metadata service of a cloud"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast(), a == broadcast:
		return "no single host"
	case slices.Contains(api, a):
		return "the API server"
	}
	for _, prefix := range translated4 {
		if prefix.Contains(a) {
			bytes := a.As16()
			return refusedAddress(netip.AddrFrom4([4]byte(bytes[12:])), api)
		}
	}
	return ""
}

func allowed(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
