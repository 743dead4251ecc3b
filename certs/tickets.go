package certs

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"sync"
)

// TicketKey is a secret that keys of session tickets are derived from, one for each policy: a session that began under one
// cannot be resumed under another, on whatever replica, because there is no key that opens both.
type TicketKey [32]byte

// tickets are the keys in use. Lock order: configs.mu, then mu.
type tickets struct {
	mu   sync.Mutex
	keys []TicketKey // guarded by mu; empty until somebody needs some
}

// SetTicketKeys puts other keys in place: the first makes tickets, all open them. Without a call each process has a key of
// its own.
func (s *Store) SetTicketKeys(keys []TicketKey) error {
	s.configs.mu.Lock()
	defer s.configs.mu.Unlock()
	s.tickets.set(keys)
	set := s.configs.current.Load()
	if set == nil {
		return nil
	}
	for id, config := range set.byID {
		if err := s.tickets.give(config, id); err != nil {
			return err
		}
	}
	return nil
}

func (t *tickets) set(keys []TicketKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append([]TicketKey(nil), keys...)
}

// give sets the keys of a configuration.
func (t *tickets) give(config *tls.Config, policy string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.keys) == 0 {
		key, err := NewTicketKey()
		if err != nil {
			return err
		}
		t.keys = []TicketKey{key}
	}
	derived := make([][32]byte, len(t.keys))
	for i, key := range t.keys {
		text, err := hkdf.Key(sha256.New, key[:], nil, "sallyport session tickets "+policy, 32)
		if err != nil {
			return fmt.Errorf("derive a key for session tickets: %w", err)
		}
		copy(derived[i][:], text)
	}
	config.SetSessionTicketKeys(derived)
	return nil
}

// NewTicketKey makes a key.
func NewTicketKey() (TicketKey, error) {
	var key TicketKey
	if _, err := rand.Read(key[:]); err != nil {
		return key, fmt.Errorf("make a key for session tickets: %w", err)
	}
	return key, nil
}
