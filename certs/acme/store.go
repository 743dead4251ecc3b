package acme

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// A Store keeps what outlives a process: the account, the orders that are open, and certificates. One process at a time
// writes, the one that runs [Manager.Run]; others may read what it wrote.
type Store interface {
	// Load returns what was saved under a name, or ErrNotKept.
	Load(ctx context.Context, name string) (map[string][]byte, error)
	// Save replaces what was saved under a name, as a whole or not at all. It fails where another process has saved since this
	// one has loaded or saved it.
	Save(ctx context.Context, name string, data map[string][]byte) error
	// Clean asks about every certificate that was saved here and removes those that are of no use, unless another process has
	// saved one since it was asked about.
	Clean(ctx context.Context, useless func(name string, data map[string][]byte) bool) error
}

// ErrNotKept says that nothing was saved under a name.
var ErrNotKept = errors.New("nothing is kept under this name")

// The names under which something is kept, beside those of CertificateName. All are names that a Secret may have.
const (
	accountName = "acme-account"
	ordersName  = "acme-orders"
)

// OrdersName is the name under which the orders are kept that are for [Manager.See].
func OrdersName() string { return ordersName }

// The keys of a certificate: those of a Secret of type kubernetes.io/tls, and where it was ordered.
const (
	CertificateKey = "tls.crt"
	PrivateKeyKey  = "tls.key"
	DirectoryKey   = "acme-directory"
)

const certificatePrefix = "acme."

// CertificateName is the name under which the certificate of a host is kept.
func CertificateName(host string) string {
	if name := certificatePrefix + host; len(name) <= 253 {
		return name
	}
	sum := sha256.Sum256([]byte(host))
	return certificatePrefix + hex.EncodeToString(sum[:])
}

// A record is what is kept of a host beside its certificate: the order that is open, and what failed last.
type record struct {
	Order string `json:"order,omitempty"` // URL; empty: none is open
	Key   string `json:"key,omitempty"`   // PEM, of the certificate that is ordered

	Kind   string `json:"kind,omitempty"`   // of the challenge that is answered; empty: none yet
	Token  string `json:"token,omitempty"`  // for HTTP01
	Answer string `json:"answer,omitempty"` // for HTTP01: the key authorization
	Shown  string `json:"shown,omitempty"`  // for TLSALPN01: the certificate and its key in PEM

	Failures int       `json:"failures,omitempty"` // one after the other
	Reason   string    `json:"reason,omitempty"`   // of the last
	Failed   time.Time `json:"failed,omitzero"`
	Retry    time.Time `json:"retry,omitzero"` // not before
}

// mostFailures bounds the hosts whose failures are kept: a Secret takes a megabyte.
const mostFailures = 1000

func parseRecords(data map[string][]byte) map[string]record {
	all := make(map[string]record, len(data))
	for name, text := range data {
		var r record
		if json.Unmarshal(text, &r) == nil {
			all[name] = r
		}
	}
	return all
}

// recordsLocked are the records that are worth to be kept.
func (m *Manager) recordsLocked() map[string][]byte {
	data := make(map[string][]byte)
	failures := 0
	for name, h := range m.hosts {
		if h.record == (record{}) || h.Order == "" && (!m.wanted[name] || failures >= mostFailures) {
			continue
		}
		if h.Order == "" {
			failures++
		}
		if text, err := json.Marshal(h.record); err == nil {
			data[name] = text
		}
	}
	return data
}

// note changes what is known of a host and keeps it. Changes of several hosts are written together.
func (m *Manager) note(ctx context.Context, h *host, change func(*record)) error {
	m.mu.Lock()
	change(&h.record)
	m.version++
	mine := m.version
	m.showLocked()
	m.mu.Unlock()
	return m.save(ctx, mine)
}

// save writes the records, unless a version that is as new as this one was written meanwhile.
func (m *Manager) save(ctx context.Context, version uint64) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	now, data, done := m.version, m.recordsLocked(), m.saved >= version
	m.mu.Unlock()
	if done {
		return nil
	}
	if err := m.options.Store.Save(ctx, ordersName, data); err != nil {
		return err
	}
	m.mu.Lock()
	m.saved = now
	m.mu.Unlock()
	return nil
}
