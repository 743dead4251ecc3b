package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"sallyport/proxy/stream"
	"sallyport/proxy/upstream"
)

// Two ConfigMaps give Services ports of their own, over TCP and over UDP (reference C2). A key is the port, and its value
// the Service:
//
//	"5432": db/postgres:5432
//	"3306": db/mysql:mysql:PROXY         connections begin with a PROXY header
//	"9000": apps/log:9000::PROXY         the endpoint is sent one
//	"9001": apps/log:9000:PROXY:PROXY    both
//
// Whoever may write these ConfigMaps opens ports of this machine and chooses among the Services of all namespaces: they are
// the operator's, as the flags are that name them.

// streams are what was made of the ConfigMaps last.
type streams struct {
	made     bool
	of       [2]*corev1.ConfigMap
	services map[Key]*corev1.Service // that they name
	options  upstream.StreamOptions  // that hold for all of them

	list     []stream.Service
	pools    []upstream.ID // one a Service of the list
	problems []Problem
}

// users is how many ports lead to a pool.
func (s *streams) users(id upstream.ID) (n int) {
	for _, of := range s.pools {
		if of == id {
			n++
		}
	}
	return n
}

// streamMaps are the ConfigMaps, by network.
func (o *Options) streamMaps() [2]struct {
	network string
	key     Key
} {
	return [2]struct {
		network string
		key     Key
	}{{"tcp", o.TCPServices}, {"udp", o.UDPServices}}
}

// updateStreams reads the ConfigMaps again where they, a Service they name, or what holds for all of them is another.
func (b *Builder) updateStreams(s *Snapshot, w *work) {
	old := b.streams
	now := streams{made: true, services: make(map[Key]*corev1.Service), options: b.config.Streams()}
	for i, m := range b.options.streamMaps() {
		now.of[i] = s.ConfigMap(m.key)
	}
	same := old.made && old.of == now.of && old.options == now.options
	for key, service := range old.services {
		same = same && s.Service(key) == service
	}
	if same {
		return
	}
	for i, m := range b.options.streamMaps() {
		if m.key == (Key{}) {
			continue
		}
		if now.of[i] == nil {
			now.problems = append(now.problems, Problem{Object: Ref{"ConfigMap", m.key.Namespace, m.key.Name}, Severity: Warning, Reason: ReasonConfigMapNotFound,
				Message: fmt.Sprintf("the ConfigMap of --%s-services-configmap does not exist; no Service is served over %s", m.network, strings.ToUpper(m.network))})
			continue
		}
		for _, port := range slices.Sorted(maps.Keys(now.of[i].Data)) {
			entry := streamEntry{options: &b.options, snapshot: s, streams: &now, of: m.key, network: m.network, port: port}
			entry.read(now.of[i].Data[port])
		}
	}
	for i, id := range now.pools {
		b.usePool(id, w)
		if id != (upstream.ID{}) {
			now.list[i].Pool = b.options.Pools.Get(id)
		}
	}
	for _, id := range old.pools {
		b.leavePool(id, w)
	}
	slices.SortFunc(now.list, func(a, b stream.Service) int {
		return cmp.Or(strings.Compare(a.Network, b.Network), int(a.Number)-int(b.Number))
	})
	b.streams = now
}

// A streamEntry is one key of such a ConfigMap, as it is read.
type streamEntry struct {
	options  *Options
	snapshot *Snapshot
	streams  *streams
	of       Key
	network  string
	port     string
}

// problem tells what is wrong with the entry.
func (e *streamEntry) problem(severity Severity, reason, format string, a ...any) {
	e.streams.problems = append(e.streams.problems, Problem{
		Object: Ref{"ConfigMap", e.of.Namespace, e.of.Name}, Severity: severity, Reason: reason,
		Field: fmt.Sprintf("data[%s]", e.port), Message: fmt.Sprintf(format, a...),
	})
}

// read adds the Service of the entry to the list, unless the entry is no good. A Service that is not there has its port all
// the same: it may be there a moment later, and clients who are turned away know more than those whom nothing answers.
func (e *streamEntry) read(value string) {
	number, err := strconv.ParseUint(e.port, 10, 16)
	if err != nil || number == 0 || strconv.FormatUint(number, 10) != e.port {
		e.problem(Error, ReasonInvalid, "the key %q is not a port: expected a number from 1 to 65535", e.port)
		return
	}
	if flag := e.options.OwnPorts[uint16(number)]; flag != "" && e.network == "tcp" {
		e.problem(Error, ReasonInvalid, "port %d is taken by this process itself (--%s)", number, flag)
		return
	}
	key, wanted, words, ok := parseStream(value)
	if !ok {
		e.problem(Error, ReasonInvalid, "%q is not a Service and its port: expected namespace/service:port, with :PROXY behind it where connections begin with a PROXY header, and another :PROXY where the endpoint is to be sent one", value)
		return
	}
	if words != [2]bool{} && e.network == "udp" {
		e.problem(Warning, ReasonInvalid, "%q: there are no PROXY headers over UDP; the Service is served without", value)
		words = [2]bool{}
	}
	service := e.snapshot.Service(key)
	e.streams.services[key] = service
	id, t := e.options.streamTarget(service, key, wanted, protocolOf(e.network))
	if t.reason != "" {
		e.problem(t.severity, t.reason, "%s", t.message)
	}
	options := e.streams.options
	options.ConnectTimeout = e.options.Settings.Upstream.ConnectTimeout
	if t.stay > 0 {
		options.Balance = upstream.Balance{Policy: upstream.ClientIP, Stay: t.stay}
	}
	e.streams.pools = append(e.streams.pools, id)
	e.streams.list = append(e.streams.list, stream.Service{
		Port: stream.Port{Network: e.network, Number: uint16(number)}, Name: key.String() + ":" + wanted, Options: options,
		Expect: words[0], Send: words[1],
	})
}

// parseStream reads namespace/service:port[:PROXY][:PROXY]. A word that is empty is no PROXY; case does not count.
func parseStream(value string) (service Key, port string, words [2]bool, ok bool) {
	parts := strings.Split(strings.TrimSpace(value), ":")
	if len(parts) < 2 || len(parts) > 4 || parts[1] == "" {
		return Key{}, "", words, false
	}
	for i, word := range parts[2:] {
		if words[i] = strings.EqualFold(word, "PROXY"); !words[i] && word != "" {
			return Key{}, "", words, false
		}
	}
	namespace, name, ok := strings.Cut(parts[0], "/")
	return Key{namespace, name}, parts[1], words, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// streamTarget finds the pool of a Service's port by its number or name. Nowhere has the zero ID.
func (o *Options) streamTarget(service *corev1.Service, key Key, wanted string, protocol corev1.Protocol) (upstream.ID, target) {
	if service == nil {
		if o.mapped(key, wanted) != nil {
			return streamID(key, wanted, protocol), target{}
		}
		return upstream.ID{}, nowhere(ReasonServiceNotFound, "", "no Service is named %q in namespace %q; its clients are turned away", key.Name, key.Namespace)
	}
	port := firstPort(service, func(p *corev1.ServicePort) bool {
		return sameProtocol(&p.Protocol, protocol) && (p.Name == wanted || strconv.Itoa(int(p.Port)) == wanted)
	})
	_, err := strconv.ParseUint(wanted, 10, 16)
	external := isExternal(service) && o.mapped(key, wanted) == nil
	switch {
	case external && o.DisableExternalName:
		return upstream.ID{}, nowhere(ReasonUnsupportedBackend, "", "Service %q is of type ExternalName (%s), which --disable-svc-external-name keeps from being served; its clients are turned away", key.Name, service.Spec.ExternalName)
	case external && checkExternalName(service.Spec.ExternalName) != "":
		return upstream.ID{}, nowhere(ReasonUnsupportedBackend, "", "Service %q stands for %q, which %s; its clients are turned away", key.Name, service.Spec.ExternalName, checkExternalName(service.Spec.ExternalName))
	case port != nil:
		return streamID(key, portName(port), protocol), target{}.keeping(service)
	case o.mapped(key, wanted) != nil, external && err == nil: // a host elsewhere needs no port of the Service, as with Ingresses
		return streamID(key, wanted, protocol), target{}
	}
	return upstream.ID{}, nowhere(ReasonPortNotFound, "", "Service %q has no port %q over %s; it has %s; its clients are turned away", key.Name, wanted, protocol, describePorts(service))
}

// udpMark ends the port of a pool of UDP, as metrics and pages show it: a Service may have a port over TCP of the same name.
const udpMark = "/UDP"

// streamID is the pool of a Service's port over a protocol.
func streamID(service Key, port string, protocol corev1.Protocol) upstream.ID {
	if protocol == corev1.ProtocolUDP {
		port += udpMark
	}
	return poolID(service, port)
}

// portOf is the name of the Service port that a pool belongs to, or its number where it has none, and its protocol.
func portOf(id upstream.ID) (name string, protocol corev1.Protocol) {
	if name, ok := strings.CutSuffix(id.Port, udpMark); ok {
		return name, corev1.ProtocolUDP
	}
	return id.Port, corev1.ProtocolTCP
}

func protocolOf(network string) corev1.Protocol {
	if network == "udp" {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// sameProtocol compares protocols of ports. None is TCP.
func sameProtocol(a *corev1.Protocol, b corev1.Protocol) bool {
	if a == nil || isTCP(*a) {
		return isTCP(b)
	}
	return *a == b
}
