package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
)

// Clients is what is asked of clients about a certificate of theirs.
type Clients struct {
	// ID is the same for those who ask the same: it is made of everything that decides whether a client is let in. Empty:
	// nobody else asks the same.
	ID string
	// Auth is what the handshake asks. What a client is told at the handshake it understands badly: prefer to ask only
	// (tls.RequestClientCert) and to answer requests.
	Auth tls.ClientAuthType
	// CAs are named to clients, so that they can choose a certificate, and trusted where Auth has the handshake verify. Nil:
	// none are.
	CAs *x509.CertPool
	// Verify has a say on every handshake, resumed ones too; an error ends it. Nil: it has none.
	Verify func(tls.ConnectionState) error
}

// A Policy is what handshakes are held to beside which certificate is shown. It never changes.
type Policy struct {
	name    string   // the same for policies that are the same; never empty
	clients *Clients // nil: clients are asked for nothing
	suites  []uint16 // of TLS 1.2; nil: those of the Protocol
}

// Clients is what is asked of clients; nil: nothing.
func (p *Policy) Clients() *Clients {
	if p == nil {
		return nil
	}
	return p.clients
}

// NewPolicy makes one of what is asked of clients, nil for nothing, and of cipher suites, nil for those of the [Protocol].
// It returns nil where both are, which is what holds for every host.
func NewPolicy(clients *Clients, suites []uint16) *Policy {
	if clients == nil && suites == nil {
		return nil
	}
	sum := sha256.New()
	p := &Policy{clients: clients, suites: suites}
	if clients != nil {
		id := clients.ID
		if id == "" {
			id = fmt.Sprintf("%p", clients)
		}
		write(sum, "clients", id, fmt.Sprint(clients.Auth))
	}
	if suites != nil {
		ordered := slices.Clone(suites) // of which crypto/tls chooses by itself
		slices.Sort(ordered)
		write(sum, "suites", fmt.Sprint(slices.Compact(ordered)))
	}
	p.name = hex.EncodeToString(sum.Sum(nil))
	return p
}

// write writes words so that no others read alike.
func write(sum hash.Hash, words ...string) {
	for _, word := range words {
		fmt.Fprintf(sum, "%d:%s,", len(word), word)
	}
}

func (p *Policy) id() string {
	if p == nil {
		return ""
	}
	return p.name
}

func (p *Policy) same(o *Policy) bool { return p == o || p.id() == o.id() }

// Protocol is what holds for every handshake.
type Protocol struct {
	// Min and Max are versions of TLS; zero: 1.2 and 1.3.
	Min, Max uint16
	// Suites are those of TLS 1.2; nil: the usual ones, which encrypt with authentication and keep secrets forward.
	Suites []uint16
	// Reject refuses handshakes for names that are nobody's, and for none.
	Reject bool
}

func (p *Protocol) same(o *Protocol) bool {
	return p.Min == o.Min && p.Max == o.Max && slices.Equal(p.Suites, o.Suites)
}

// Suites are the usual ones of TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has no others.
var Suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// refusing has no certificate and resumes no session: the client is told that the name is unrecognized (RFC 6066 section 3).
var refusing = &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}

// configs are the configurations in use, one a policy. A handshake finds one; it is made when a policy is first met, and
// again when the Protocol has changed.
type configs struct {
	current atomic.Pointer[configSet]
	mu      sync.Mutex // held by who makes another set
}

// A configSet never changes, but for the ticket keys of its configurations.
type configSet struct {
	protocol Protocol
	byID     map[string]*tls.Config
}

// config is how to shake hands under a policy.
func (s *Store) config(now *state, p *Policy) (*tls.Config, error) {
	if set := s.configs.current.Load(); set != nil && set.protocol.same(&now.Protocol) {
		if config := set.byID[p.id()]; config != nil {
			return config, nil
		}
	}
	return s.makeConfig(now, p)
}

func (s *Store) makeConfig(now *state, p *Policy) (*tls.Config, error) {
	s.configs.mu.Lock()
	defer s.configs.mu.Unlock()
	set := s.configs.current.Load()
	next := &configSet{protocol: now.Protocol, byID: make(map[string]*tls.Config)}
	if set != nil && set.protocol.same(&now.Protocol) {
		if config := set.byID[p.id()]; config != nil {
			return config, nil // somebody else made it meanwhile
		}
		used := map[string]bool{"": true} // and nobody asks for the others any more
		for _, host := range now.ByHost {
			if host != nil {
				used[host.Policy.id()] = true
			}
		}
		for _, pattern := range now.Patterns {
			used[pattern.Host.Policy.id()] = true
		}
		for id, config := range set.byID {
			if used[id] {
				next.byID[id] = config
			}
		}
	}
	config := s.newConfig(&now.Protocol, p)
	if err := s.tickets.give(config, p.id()); err != nil {
		return nil, err
	}
	next.byID[p.id()] = config
	s.configs.current.Store(next)
	return config, nil
}

func (s *Store) newConfig(protocol *Protocol, p *Policy) *tls.Config {
	config := new(tls.Config)
	if s.Base != nil {
		config = s.Base.Clone()
	}
	config.GetCertificate = s.GetCertificate
	config.MinVersion, config.MaxVersion = protocol.Min, protocol.Max
	if config.MinVersion < tls.VersionTLS12 {
		config.MinVersion = tls.VersionTLS12
	}
	if config.CipherSuites = protocol.Suites; config.CipherSuites == nil {
		config.CipherSuites = Suites
	}
	if p == nil {
		return config
	}
	if p.suites != nil {
		config.CipherSuites = p.suites
	}
	if c := p.clients; c != nil {
		config.ClientAuth, config.ClientCAs, config.VerifyConnection = c.Auth, c.CAs, c.Verify
	}
	return config
}
