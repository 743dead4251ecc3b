package acme

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"
)

// A certificate whose host is gone is kept: the host may come back, and has it at once then. When it has ended it is of no use
// to anybody, and some time after that it is removed; a cluster where hosts come and go would fill with them.

const (
	keepEnded  = 14 * 24 * time.Hour // how long one is kept that has ended
	cleanEvery = 24 * time.Hour
)

// clean removes what is of no use any more.
func (m *Manager) clean(ctx context.Context) {
	err := m.options.Store.Clean(ctx, func(name string, data map[string][]byte) bool {
		host, useless := m.useless(name, data)
		if useless {
			m.log.Info("remove a certificate that has ended; no host has asked for it since", "host", host, "name", name)
		}
		return useless
	})
	if err != nil && ctx.Err() == nil {
		m.log.Warn("certificates that have ended are not removed; it is tried again tomorrow", "err", err)
	}
}

// useless reports whether what is kept under a name is a certificate from here, of a host that nobody has any more, and ended
// long ago. What is not as this package would have written it is somebody's own.
func (m *Manager) useless(name string, data map[string][]byte) (host string, useless bool) {
	block, _ := pem.Decode(data[CertificateKey])
	if block == nil || len(data[DirectoryKey]) == 0 {
		return "", false
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || len(leaf.DNSNames) != 1 || CertificateName(leaf.DNSNames[0]) != name {
		return "", false
	}
	host = leaf.DNSNames[0]
	m.mu.Lock()
	defer m.mu.Unlock()
	return host, m.wanted != nil && !m.wanted[host] && m.hosts[host] == nil && time.Since(leaf.NotAfter) > keepEnded
}
