package acme

import (
	"crypto/tls"

	"sallyport/certs"
)

// ChallengePath begins the paths that an authority asks for (RFC 8555 section 8.3).
const ChallengePath = "/.well-known/acme-challenge/"

// alpn is the protocol of TLS-ALPN-01 (RFC 8737).
const alpn = "acme-tls/1"

// answers are those to the challenges that are open, wherever they were made. They are never written to.
type answers struct {
	tokens map[string]answer
	shown  map[string]*tls.Config // by host
}

type answer struct{ host, text string }

// Answer is what is answered to a request for a token at a host: to those that an authority gave us for it, and to no other,
// so that whoever else solves challenges for the host can.
func (m *Manager) Answer(host, token string) (string, bool) {
	all := m.answers.Load()
	if all == nil {
		return "", false
	}
	a, ok := all.tokens[token]
	if !ok || a.host != host {
		return "", false
	}
	return a.text, true
}

// Handshake is what TLS is to be spoken with in a handshake of TLS-ALPN-01, after which the connection has served its
// purpose. It is nil in all others.
func (m *Manager) Handshake(hello *tls.ClientHelloInfo) *tls.Config {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != alpn { // RFC 8737 section 3: this one and no other
		return nil
	}
	if all := m.answers.Load(); all != nil {
		return all.shown[hello.ServerName]
	}
	return nil
}

// See takes what the process that leads has kept under OrdersName.
func (m *Manager) See(data map[string][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leading {
		return // it is this one, whose own words are newer
	}
	m.seen = parseRecords(data)
	for name, h := range m.hosts {
		h.record = m.seen[name]
	}
	m.showLocked()
}

// showLocked makes the answers that are given from now on.
func (m *Manager) showLocked() {
	last := m.answers.Load()
	now := &answers{tokens: make(map[string]answer), shown: make(map[string]*tls.Config)}
	add := func(host string, r record) {
		switch r.Kind {
		case HTTP01:
			now.tokens[r.Token] = answer{host, r.Answer}
		case TLSALPN01:
			pair, err := certs.Parse([]byte(r.Shown), []byte(r.Shown))
			if err != nil {
				return
			}
			if last != nil && last.shown[host] != nil && last.shown[host].Certificates[0].Leaf.Equal(pair.Leaf) {
				now.shown[host] = last.shown[host]
				return
			}
			now.shown[host] = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{alpn}, Certificates: []tls.Certificate{*pair}, SessionTicketsDisabled: true}
		}
	}
	if m.leading {
		for name, h := range m.hosts {
			add(name, h.record)
		}
	} else {
		for name, r := range m.seen {
			add(name, r)
		}
	}
	m.answers.Store(now)
}
