package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Each type here is the value of a flag: where it is written to, how it is read, and what a wrong one is told.

// port is a TCP port, 0 included.
type port struct{ to *uint16 }

func (port) Type() string     { return "PORT" }
func (p port) String() string { return strconv.Itoa(int(deref(p.to))) }

func (p port) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not a port, a whole number from 0 to 65535", s)
	}
	*p.to = uint16(n)
	return nil
}

// bound is how many of something there may be; 0 means any number.
type bound struct{ to *int }

func (bound) Type() string     { return "NUMBER" }
func (b bound) String() string { return strconv.Itoa(deref(b.to)) }

func (b bound) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a whole number from 0 to 2147483647", s)
	}
	*b.to = int(n)
	return nil
}

// address is an IP address, or nothing for every address.
type address struct{ to *netip.Addr }

func (address) Type() string { return "ADDRESS" }

func (a address) String() string {
	if addr := deref(a.to); addr.IsValid() {
		return addr.String()
	}
	return ""
}

func (a address) Set(s string) error {
	if s == "" {
		*a.to = netip.Addr{}
		return nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return fmt.Errorf("%q is not an IP address, as in 127.0.0.1 or ::1", s)
	}
	*a.to = addr
	return nil
}

// bind is an address and a port in one, as in ":8080" or "127.0.0.1:8080".
type bind struct {
	address *netip.Addr
	port    *uint16
}

func (bind) Type() string { return "ADDRESS:PORT" }

func (b bind) String() string {
	if b.port == nil {
		return ""
	}
	return address{b.address}.String() + ":" + port{b.port}.String()
}

func (b bind) Set(s string) error {
	host, number, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address and a port, as in :10254 or 127.0.0.1:10254", s)
	}
	if err := (address{b.address}).Set(host); err != nil {
		return err
	}
	return port{b.port}.Set(number)
}

// duration is a length of time that is not negative. A number alone counts seconds, as ingress-nginx's flags do.
type duration struct{ to *time.Duration }

func (duration) Type() string     { return "DURATION" }
func (d duration) String() string { return deref(d.to).String() }

func (d duration) Set(s string) error {
	length, err := time.ParseDuration(s)
	if seconds, notNumber := strconv.ParseUint(s, 10, 32); notNumber == nil {
		length, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || length < 0 {
		return fmt.Errorf("%q is not a length of time, as in 10s or 1m30s", s)
	}
	*d.to = length
	return nil
}

// timeout is a length of time that is not zero either: zero would be read as the default, by whoever means no limit.
type timeout struct{ duration }

func (t timeout) Set(s string) error {
	before := *t.to
	if err := t.duration.Set(s); err != nil || *t.to > 0 {
		return err
	}
	*t.to = before
	return fmt.Errorf("%q is not a length of time above zero, as in 10s or 1m30s", s)
}

// leaseTime is a length of time that leaves the holder of a Lease time to renew it.
type leaseTime struct{ duration }

const shortestLease = 3 * time.Second

func (l leaseTime) Set(s string) error {
	before := *l.to
	if err := l.duration.Set(s); err != nil || *l.to >= shortestLease {
		return err
	}
	*l.to = before
	return fmt.Errorf("%q is not a length of time of %v or more, as in 15s", s, shortestLease)
}

// lease is the name of a Lease.
type lease struct{ to *string }

func (lease) Type() string     { return "NAME" }
func (l lease) String() string { return deref(l.to) }

func (l lease) Set(s string) error {
	if !isSubdomain(s) {
		return fmt.Errorf("%q is not the name of a Lease: small letters, digits, dashes and dots", s)
	}
	*l.to = s
	return nil
}

// place is the name of a zone or of a node, or nothing where it is not known.
type place struct {
	to    *string
	label string
}

func (p place) Type() string   { return p.label }
func (p place) String() string { return deref(p.to) }

func (p place) Set(s string) error {
	if s != "" && !isSubdomain(strings.ToLower(strings.ReplaceAll(s, "_", "-"))) {
		return fmt.Errorf("%q is not the name of a zone or a node, as in eu-west-1a", s)
	}
	*p.to = s
	return nil
}

// toggle is true or false; the flag alone means true.
type toggle struct{ to *bool }

func (toggle) Type() string     { return "bool" }
func (t toggle) String() string { return strconv.FormatBool(deref(t.to)) }

func (t toggle) Set(s string) error {
	switch s {
	case "true":
		*t.to = true
	case "false":
		*t.to = false
	default:
		return fmt.Errorf("%q is not true or false", s)
	}
	return nil
}

// reverse is a toggle that says the opposite.
type reverse struct{ to *bool }

func (reverse) Type() string     { return "bool" }
func (r reverse) String() string { return strconv.FormatBool(!deref(r.to)) }

func (r reverse) Set(s string) error {
	var yes bool
	if err := (toggle{&yes}).Set(s); err != nil {
		return err
	}
	*r.to = !yes
	return nil
}

// choice is one of a few words.
type choice struct {
	to    *string
	words []string
}

func (c choice) Type() string   { return strings.Join(c.words, "|") }
func (c choice) String() string { return deref(c.to) }

func (c choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(c.words, ", "))
	}
	*c.to = s
	return nil
}

// level is a level of the log.
type level struct{ to *slog.Level }

func (level) Type() string     { return "debug|info|warn|error" }
func (l level) String() string { return strings.ToLower(deref(l.to).String()) }

func (l level) Set(s string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	value, ok := levels[s]
	if !ok {
		return fmt.Errorf("%q is not one of debug, info, warn, error", s)
	}
	*l.to = value
	return nil
}

// verbosity is a level of the log as ingress-nginx writes it.
type verbosity struct{ to *slog.Level }

func (verbosity) Type() string { return "NUMBER" }

func (v verbosity) String() string {
	if deref(v.to) <= slog.LevelDebug {
		return "3"
	}
	return "2"
}

func (v verbosity) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a whole number from 0 to %d", s, math.MaxInt32)
	case n >= 3:
		*v.to = slog.LevelDebug
	default:
		*v.to = slog.LevelInfo
	}
	return nil
}

// count is a whole number above zero.
type count struct{ to *int }

func (count) Type() string     { return "NUMBER" }
func (c count) String() string { return strconv.Itoa(deref(c.to)) }

func (c count) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a whole number above zero", s)
	}
	*c.to = int(n)
	return nil
}

// webAddress is a URL of HTTPS, or nothing.
type webAddress struct{ to *string }

func (webAddress) Type() string     { return "URL" }
func (u webAddress) String() string { return deref(u.to) }

func (u webAddress) Set(s string) error {
	if at, err := url.Parse(s); s != "" && (err != nil || at.Scheme != "https" || at.Host == "") {
		return fmt.Errorf("%q is not a URL that begins with https://", s)
	}
	*u.to = s
	return nil
}

// name is "namespace/name", or nothing.
type name struct{ to *Name }

func (name) Type() string     { return "NAMESPACE/NAME" }
func (n name) String() string { return deref(n.to).String() }

func (n name) Set(s string) error {
	if s == "" {
		*n.to = Name{}
		return nil
	}
	namespace, object, ok := strings.Cut(s, "/")
	if !ok || !isLabel(namespace) || !isSubdomain(object) {
		return fmt.Errorf("%q is not a namespace and a name, as in default/web", s)
	}
	*n.to = Name{namespace, object}
	return nil
}

var (
	labelForm     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	pathForm      = regexp.MustCompile(`^[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$`)
)

// isLabel reports whether s may name a namespace or a Service (RFC 1123 label).
func isLabel(s string) bool { return len(s) <= 63 && labelForm.MatchString(s) }

// isSubdomain reports whether s may name a Secret or an Ingress (RFC 1123 subdomain).
func isSubdomain(s string) bool { return len(s) <= 253 && subdomainForm.MatchString(s) }

// isControllerClass reports whether s may stand in an IngressClass's spec.controller: a domain, a slash, a path.
func isControllerClass(s string) bool {
	domain, path, ok := strings.Cut(s, "/")
	return ok && isSubdomain(domain) && pathForm.MatchString(path)
}

// deref reads through a pointer that is nil when pflag asks a type's zero value for its text.
func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}
