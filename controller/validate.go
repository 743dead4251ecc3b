package controller

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"sallyport/router"
)

// What an API server refuses (pkg/apis/networking/validation of Kubernetes) is found here again, because objects of a
// folder have met none, and because an old object may have been written under older rules. Where the server refuses the
// whole Ingress, only the part that is wrong is set aside.

// checkHost says in words what is wrong with the host of a rule or of a TLS entry; "": nothing.
func checkHost(host string) string {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "is an IP address; a DNS name is expected, or no host for all of them"
	}
	check := validation.IsDNS1123Subdomain
	if strings.Contains(host, "*") {
		check = validation.IsWildcardDNS1123Subdomain
	}
	if len(check(host)) == 0 {
		return ""
	}
	switch {
	case len(check(strings.ToLower(host))) == 0:
		return "has capital letters; write " + strings.ToLower(host)
	case strings.Contains(host, "*"):
		return "is no wildcard host; *. and a DNS name are expected, such as *.example.org"
	case strings.Contains(host, "/"):
		return "is not a host name; scheme and path do not belong here, such as example.org"
	case strings.Contains(host, ":"):
		return "is not a host name; a port does not belong here, such as example.org"
	}
	return "is not a host name; lower-case letters, digits, '-' and '.' are expected, such as example.org"
}

// checkPath returns the path as it is compared and the type it is compared by. A path with a problem of severity Error
// and not usable is to be set aside.
func (t *translation) checkPath(p *networkingv1.HTTPIngressPath, field string) (path string, kind router.PathType, usable bool) {
	const notServed = "the path is not served; a shorter path of the host may take its requests"
	declared := networkingv1.PathTypeImplementationSpecific
	if p.PathType == nil {
		t.problem(Error, ReasonInvalid, field+".pathType", "is missing, and an API server refuses the Ingress without it; Prefix, Exact or ImplementationSpecific is expected; it is served as Prefix")
	} else {
		declared = *p.PathType
	}
	switch declared {
	case networkingv1.PathTypeExact:
		kind = router.Exact
	case networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific:
		kind = router.Prefix // there is no third type here: reference A1
	default:
		t.problem(Error, ReasonInvalid, field+".pathType", "%q is not a path type; Prefix, Exact or ImplementationSpecific is expected; "+notServed, declared)
		return "", 0, false
	}
	specific := declared == networkingv1.PathTypeImplementationSpecific
	path = p.Path
	if path == "" {
		path = "/"
		if !specific {
			t.problem(Error, ReasonInvalid, field+".path", "is missing, and an API server refuses a path of type %s without it; it is served as \"/\"", declared)
		}
	}
	if message := checkPathText(path, specific); message != "" {
		t.problem(Error, ReasonInvalid, field+".path", "%q %s; "+notServed, path, message)
		return "", 0, false
	}
	if decoded, ok := percentDecoded(path); ok {
		t.problem(Warning, ReasonInvalid, field+".path", "%q never matches, because paths are compared decoded; write %q", path, decoded)
	}
	return path, kind, true
}

func checkPathText(path string, specific bool) string {
	if !strings.HasPrefix(path, "/") {
		return "does not begin with '/'"
	}
	if strings.ContainsRune(path, 0) {
		return "has a zero byte in it"
	}
	if specific {
		return ""
	}
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(path, part) {
			return fmt.Sprintf("has %q in it, which no path has when it is compared", part)
		}
	}
	for _, end := range []string{"/..", "/."} {
		if strings.HasSuffix(path, end) {
			return fmt.Sprintf("ends in %q, which no path does when it is compared", end)
		}
	}
	return ""
}

// checkBackend reports everything that keeps a backend from being used, with what becomes of its requests then, and says
// whether it can be.
func (t *translation) checkBackend(b *networkingv1.IngressBackend, field string) bool {
	fate := "its requests are answered 503"
	if field == "spec.defaultBackend" {
		fate = "the Ingress is served as if it had none"
	}
	switch {
	case b.Resource != nil && b.Service != nil:
		t.problem(Error, ReasonInvalid, field, "names both a service and a resource; one of them is expected; %s", fate)
		return false
	case b.Resource != nil:
		t.problem(Error, ReasonUnsupportedBackend, field+".resource", "%s %q: resources as backends are not supported; a service is expected; its requests are answered 404", b.Resource.Kind, b.Resource.Name)
		return true
	case b.Service == nil:
		t.problem(Error, ReasonMissingBackend, field, "names no service; service.name and service.port are expected; %s", fate)
		return false
	}
	named := t.checkServiceName(b.Service.Name, field+".service.name", fate)
	return t.checkServicePort(b.Service.Port, field+".service.port", fate) && named
}

func (t *translation) checkServiceName(name, field, fate string) bool {
	switch {
	case name == "":
		t.problem(Error, ReasonMissingBackend, field, "is missing; the name of a Service is expected; %s", fate)
	case len(validation.IsDNS1123Label(name)) > 0:
		t.problem(Error, ReasonInvalid, field, "%q is not the name of a Service in the Ingress's namespace; lower-case letters, digits and '-' are expected; %s", name, fate)
	default:
		return true
	}
	return false
}

func (t *translation) checkServicePort(port networkingv1.ServiceBackendPort, field, fate string) bool {
	switch {
	case port.Name != "" && port.Number != 0:
		t.problem(Error, ReasonInvalid, field, "has both a name, %q, and a number, %d; one of them is expected; %s", port.Name, port.Number, fate)
	case port.Name == "" && port.Number == 0:
		t.problem(Error, ReasonMissingBackend, field, "is missing; the number or name of a port of the Service is expected; %s", fate)
	case isNumber(port.Name):
		t.problem(Error, ReasonInvalid, field+".name", "%q is a number; write number: %s; %s", port.Name, port.Name, fate)
	case port.Name != "" && len(validation.IsValidPortName(port.Name)) > 0:
		t.problem(Error, ReasonInvalid, field+".name", "%q is not the name of a port; at most 15 lower-case letters, digits and '-' are expected; %s", port.Name, fate)
	case port.Name == "" && (port.Number < 1 || port.Number > 65535):
		t.problem(Error, ReasonInvalid, field+".number", "%d is not a port; 1 to 65535 is expected; %s", port.Number, fate)
	default:
		return true
	}
	return false
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// percentDecoded decodes %XX and says whether there was any.
func percentDecoded(path string) (string, bool) {
	var b strings.Builder
	escaped := false
	for i := 0; i < len(path); i++ {
		if c, ok := escapedByte(path[i:]); ok {
			b.WriteByte(c)
			escaped = true
			i += 2
			continue
		}
		b.WriteByte(path[i])
	}
	return b.String(), escaped
}

func escapedByte(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	c, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(c), err == nil
}
