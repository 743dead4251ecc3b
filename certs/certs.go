// Package certs answers one question: how is a handshake made for a server name?
//
//	var store certs.Store
//	store.Set(certs.Certificates{ByHost: map[string]*certs.Host{"a.test": {Pairs: []*tls.Certificate{pair}}}})
//	config := &tls.Config{GetConfigForClient: store.GetConfigForClient}
//
// # The order in which hosts are tried
//
// The exact name, else the wildcard that takes its first label ("*.example.org" serves a.example.org, neither
// example.org nor a.b.example.org), else the first regular expression that matches, else the default. A client that sends no name gets the default. This is the order in
// which package router finds the host of a request.
//
// A [Store] is swapped whole: a handshake that begins after [Store.Set] returned sees the new certificates, connections
// stay as they are.
//
// # Policies
//
// Hosts differ in more than their certificates: some ask clients for one of theirs, or take fewer cipher suites. That is a
// [Policy], and hosts with the same share one. A connection has met the policy of the name that it shook hands for, so a
// request on it for a host of another policy must not be served: [Store.Admits] tells. Sessions are resumed within a policy
// and never across.
//
// # What it does not do
//
// It knows nothing of Kubernetes, reads no files and asks no certificate authority. Whether a certificate is valid today
// or covers the name it is stored under is for the caller to check, with [Covers] and its Leaf, and to tell somebody. It
// verifies no client's certificate: that is for whoever serves the request, who can answer.
package certs

import (
	"bytes"
	"crypto/tls"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Certificates are all there are. Do not change one that was given to a Store; make another.
type Certificates struct {
	// ByHost has the hosts that have something of their own: by lower-case names, or wildcards such as "*.example.org". A nil
	// Host has the default certificate, and not that of the wildcard above it.
	ByHost map[string]*Host
	// Patterns have names that ByHost does not list.
	Patterns []Pattern
	// Default is for every other name and for none. Nil means a self-signed one, made once and kept.
	Default *tls.Certificate
	// Protocol is what holds for every handshake.
	Protocol Protocol
	// Known says which names are somebody's though ByHost has them not; it is asked where Protocol.Reject is set. Nil: none.
	Known func(name string) bool
}

// A Pattern is the names in which a regular expression matches. They are tried in order.
type Pattern struct {
	Name       string // for whoever made it
	Expression *regexp.Regexp
	Host       *Host
}

// A Host is how handshakes for a name are made. It never changes.
type Host struct {
	// Pairs are its certificates, the best first: of several kinds of keys the client has the first that it can check. Empty:
	// the default one.
	Pairs []*tls.Certificate
	// Policy is what handshakes are held to beside. Nil: what holds for every host.
	Policy *Policy
	// Below has the certificates of the wildcard above the name shown, if Pairs are empty and there is one with some.
	Below bool
	// Covering leaves out the Pairs that do not cover the name that is asked for.
	Covering bool
	// Owner is whose the certificates are: the namespace, as it were. Empty: nobody's in particular.
	Owner string
}

// Equal reports whether both are the same in all they have.
func (h *Host) Equal(o *Host) bool {
	return slices.Equal(h.Pairs, o.Pairs) && h.Policy.same(o.Policy) && h.Below == o.Below && h.Covering == o.Covering && h.Owner == o.Owner
}

// A Store finds the certificate for a handshake, and makes its configuration. The zero Store has the self-signed default
// only.
type Store struct {
	// Base is what every configuration begins with: the protocols above TLS and whatever else does not change. Set it before
	// the first handshake. Nil: nothing.
	Base *tls.Config

	// Local makes a certificate for a name, which is in the one form of hosts or empty for none, where there would be none
	// but the self-signed one. Nil, or where it returns nil: that one. Set it before the first handshake.
	Local func(name string) *tls.Certificate
	// Stapler has what authorities say of certificates. Nil: handshakes go without.
	Stapler *Stapler

	current atomic.Pointer[state]
	tickets tickets
	configs configs

	once       sync.Once // makes what follows, when it is first asked for
	selfSigned *Host
	failure    error
}

// state is Certificates as they are looked at.
type state struct {
	Certificates
	usual *Host // for names that have none
}

var nothing = &state{usual: new(Host)}

func (s *Store) now() *state {
	if c := s.current.Load(); c != nil {
		return c
	}
	return nothing
}

// Set puts other certificates in place of all there were.
func (s *Store) Set(c Certificates) {
	next := &state{Certificates: c, usual: nothing.usual}
	if was := s.now(); c.Default != nil && len(was.usual.Pairs) == 1 && was.usual.Pairs[0] == c.Default {
		next.usual = was.usual
	} else if c.Default != nil {
		next.usual = &Host{Pairs: []*tls.Certificate{c.Default}}
	}
	s.current.Store(next)
}

// GetConfigForClient is for [tls.Config].GetConfigForClient. It fails only where there is no randomness.
func (s *Store) GetConfigForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	config, _, err := s.Handshake(hello)
	return config, err
}

// Handshake returns how to shake hands with a client, and what the connection is for then: see [Store.Admits].
func (s *Store) Handshake(hello *tls.ClientHelloInfo) (*tls.Config, *Host, error) {
	now := s.now()
	host, listed := now.find(hello.ServerName)
	if !listed && now.Protocol.Reject && !now.knows(hello.ServerName) {
		return refusing, host, nil
	}
	config, err := s.config(now, host.Policy)
	return config, host, err
}

// GetCertificate is for [tls.Config].GetCertificate, where policies do not matter. It fails only where the self-signed
// default is asked for and the machine has no randomness to make it from.
func (s *Store) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := s.now()
	host, _ := now.find(hello.ServerName)
	pairs := host.Pairs
	if host.Covering {
		pairs = covering(pairs, hello.ServerName)
	}
	if len(pairs) == 0 && host.Below {
		if above, _ := now.above(hello.ServerName); above != nil {
			pairs = above.Pairs
		}
	}
	if len(pairs) == 0 {
		pairs = now.usual.Pairs
	}
	if len(pairs) == 0 && s.Local != nil {
		name, _ := normal(hello.ServerName)
		if pair := s.Local(name); pair != nil {
			return pair, nil
		}
	}
	if len(pairs) == 0 {
		s.once.Do(s.makeDefault)
		if s.failure != nil {
			return nil, s.failure
		}
		pairs = s.selfSigned.Pairs
	}
	if len(pairs) > 1 {
		for _, pair := range pairs {
			if hello.SupportsCertificate(pair) == nil {
				return s.Stapler.of(pair), nil
			}
		}
	}
	return s.Stapler.of(pairs[0]), nil
}

// covering are those of the pairs that cover a name.
func covering(pairs []*tls.Certificate, name string) (some []*tls.Certificate) {
	name, _ = normal(name)
	for _, pair := range pairs {
		if Covers(pair, name) {
			some = append(some, pair)
		}
	}
	return some
}

func (s *Store) makeDefault() {
	pair, err := SelfSigned()
	s.selfSigned, s.failure = &Host{Pairs: []*tls.Certificate{pair}}, err
}

// Admits reports whether requests for a host may come over a connection that was made for another: whether both are held
// to the same policy, and their certificates are one owner's. name is in lower case and without a dot at its end, empty
// for no host. Names without certificates of their own are anybody's.
//
// What the host is held to now counts: a connection that has met what was asked before does not do.
func (s *Store) Admits(met *Host, name string) bool {
	host, _ := s.now().find(name)
	if met == host {
		return true
	}
	return met.Policy.same(host.Policy) && sameOwner(met, host)
}

// sameOwner is about clients that use one connection for every name its certificate covers (RFC 9113 section 9.1.1): what
// belongs to another owner is not to be read with this one's key. Owners that show the same certificate keep nothing from
// each other.
func sameOwner(a, b *Host) bool {
	if a.Owner == b.Owner || len(a.Pairs) == 0 || len(b.Pairs) == 0 || a.Owner == "" || b.Owner == "" {
		return true
	}
	for _, one := range a.Pairs {
		for _, other := range b.Pairs {
			if bytes.Equal(one.Certificate[0], other.Certificate[0]) {
				return true
			}
		}
	}
	return false
}

// find returns the host for a name, never nil, and whether it is listed.
func (c *state) find(name string) (host *Host, listed bool) {
	name, ok := normal(name)
	if !ok {
		return c.usual, false
	}
	host, listed = c.ByHost[name]
	if !listed {
		host, listed = c.above(name)
	}
	for i := 0; i < len(c.Patterns) && !listed; i++ {
		if c.Patterns[i].Expression.MatchString(name) {
			host, listed = c.Patterns[i].Host, true
		}
	}
	if host == nil {
		host = c.usual
	}
	return host, listed
}

// above is what is listed for the wildcard that takes the first label of a name.
func (c *state) above(name string) (host *Host, listed bool) {
	name, ok := normal(name)
	dot := strings.IndexByte(name, '.')
	if !ok || dot < 0 {
		return nil, false
	}
	var room [256]byte
	wildcard := append(append(room[:0], '*'), name[dot:]...)
	host, listed = c.ByHost[string(wildcard)]
	return host, listed
}

func (c *state) knows(name string) bool {
	name, ok := normal(name)
	return ok && c.Known != nil && c.Known(name)
}

// normal is the one form that names are compared in, that of package proxy for hosts: lower case, without the dot of a fully
// qualified name. ok is false for what no host can be, which is nobody's: a wildcard is no name to ask for.
func normal(name string) (form string, ok bool) {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return "", false
	}
	start := 0
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '.' {
			if i == start || i-start > 63 {
				return "", false
			}
			start = i + 1
			continue
		}
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return "", false
		}
	}
	return strings.ToLower(name), true
}
