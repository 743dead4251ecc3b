package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// list is a flag that may be given several times, and may hold several values with commas between them. Given at all,
// it replaces the default: the first Set empties the list.
type list[T any] struct {
	to     *[]T
	label  string
	parse  func(string) (T, error)
	format func(T) string
	whole  bool // a value is not split at commas
	given  bool
}

func (l *list[T]) Type() string { return l.label }

func (l *list[T]) String() string {
	var all []string
	for _, value := range deref(l.to) {
		all = append(all, l.format(value))
	}
	return strings.Join(all, ",")
}

func (l *list[T]) Set(s string) error {
	var added []T
	for _, text := range l.split(s) {
		value, err := l.parse(text)
		if err != nil {
			return err
		}
		added = append(added, value)
	}
	if !l.given {
		*l.to, l.given = nil, true
	}
	*l.to = append(*l.to, added...)
	return nil
}

// split returns the values of a list without the blanks around them; none of an empty list.
func (l *list[T]) split(s string) []string {
	switch {
	case l.whole:
		return []string{s}
	case strings.TrimSpace(s) == "":
		return nil
	}
	all := strings.Split(s, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// folders is a list of folders. Their names are not split at commas, which may stand in them.
func folders(to *[]string) *list[string] {
	return &list[string]{to: to, label: "DIR", whole: true, format: verbatim, parse: func(s string) (string, error) {
		if s == "" {
			return "", fmt.Errorf("%q is not the name of a folder", s)
		}
		return s, nil
	}}
}

// namespaces is a list of names of namespaces.
func namespaces(to *[]string) *list[string] {
	return &list[string]{to: to, label: "NAMESPACE", format: verbatim, parse: func(s string) (string, error) {
		if !isLabel(s) {
			return "", fmt.Errorf("%q is not the name of a namespace: small letters, digits and dashes, 63 at most", s)
		}
		return s, nil
	}}
}

// controllerClasses is a list of values of an IngressClass's spec.controller.
func controllerClasses(to *[]string) *list[string] {
	return &list[string]{to: to, label: "NAME", format: verbatim, parse: func(s string) (string, error) {
		if !isControllerClass(s) {
			return "", fmt.Errorf("%q is not the name of a controller, as in example.org/controller", s)
		}
		return s, nil
	}}
}

// prefixes is a list of networks; an address alone is a network of one.
func prefixes(to *[]netip.Prefix) *list[netip.Prefix] {
	return &list[netip.Prefix]{to: to, label: "CIDR", format: netip.Prefix.String, parse: func(s string) (netip.Prefix, error) {
		if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
			return netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return prefix, fmt.Errorf("%q is not an address or a network, as in 192.0.2.7 or 10.0.0.0/8", s)
		}
		return prefix.Masked(), nil
	}}
}

// hosts is a list of IP addresses and names of hosts, as the status of an Ingress may have them.
func hosts(to *[]string) *list[string] {
	return &list[string]{to: to, label: "ADDRESS", format: verbatim, parse: func(s string) (string, error) {
		if addr, err := netip.ParseAddr(s); (err != nil || addr.Zone() != "") && !isSubdomain(s) {
			return "", fmt.Errorf("%q is not an IP address or the name of a host, as in 192.0.2.7 or lb.example.org", s)
		}
		return s, nil
	}}
}

// challenges is a list of kinds of challenges of ACME.
func challenges(to *[]string) *list[string] {
	return &list[string]{to: to, label: "http-01|tls-alpn-01", format: verbatim, parse: func(s string) (string, error) {
		if s != "http-01" && s != "tls-alpn-01" {
			return "", fmt.Errorf("%q is not one of http-01, tls-alpn-01", s)
		}
		return s, nil
	}}
}

// mappings is a list of [Mapping]s.
func mappings(to *[]Mapping) *list[Mapping] {
	return &list[Mapping]{to: to, label: "SERVICE=HOST:PORT", format: Mapping.String, parse: func(s string) (Mapping, error) {
		m, ok := parseMapping(s)
		if !ok {
			return m, fmt.Errorf("%q is not a Service and where to send its traffic, as in default/web:80=localhost:3000", s)
		}
		return m, nil
	}}
}

func verbatim(s string) string { return s }

// String is the mapping as the flag takes it.
func (m Mapping) String() string {
	from := m.Service.String()
	if m.Port != "" {
		from += ":" + m.Port
	}
	return from + "=" + net.JoinHostPort(m.Host, strconv.Itoa(int(m.HostPort)))
}

// parseMapping reads [namespace/]service[:port]=host:port. The namespace is default when it is not given.
func parseMapping(s string) (m Mapping, ok bool) {
	from, to, ok := strings.Cut(s, "=")
	if !ok {
		return m, false
	}
	from, m.Port, ok = strings.Cut(from, ":")
	if ok && !isPortName(m.Port) {
		return m, false
	}
	namespace, service, ok := strings.Cut(from, "/")
	if !ok {
		namespace, service = "default", from
	}
	m.Service = Name{namespace, service}
	host, number, err := net.SplitHostPort(to)
	if err != nil || !isHost(host) || !isLabel(namespace) || !isLabel(service) {
		return m, false
	}
	hostPort, err := strconv.ParseUint(number, 10, 16)
	m.Host, m.HostPort = host, uint16(hostPort)
	return m, err == nil && hostPort > 0
}

// isPortName reports whether s is a port's number or may be its name (RFC 6335 service name, as the API server has it).
func isPortName(s string) bool {
	if n, err := strconv.Atoi(s); err == nil {
		return n > 0 && n <= 65535
	}
	return len(s) <= 15 && isLabel(s)
}

func isHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || isSubdomain(strings.ToLower(s))
}
