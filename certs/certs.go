// Package certs answers one question: which certificate does a server name get?
//
//	var store certs.Store
//	store.Set(certs.Certificates{ByHost: map[string]*tls.Certificate{"a.test": pair}})
//	config := &tls.Config{GetCertificate: store.GetCertificate}
//
// # The order in which certificates are tried
//
// The exact name, else the wildcard that takes its first label ("*.example.org" serves a.example.org, neither
// example.org nor a.b.example.org), else the default. A client that sends no name gets the default. This is the order in
// which package router finds the host of a request.
//
// A [Store] is swapped whole: a handshake that begins after [Store.Set] returned sees the new certificates, connections
// stay as they are.
//
// # What it does not do
//
// It knows nothing of Kubernetes, reads no files and asks no certificate authority. Whether a certificate is valid today
// or covers the name it is stored under is for the caller to check, with [Covers] and its Leaf, and to tell somebody.
package certs

import (
	"crypto/tls"
	"strings"
	"sync"
	"sync/atomic"
)

// Certificates are all there are. Do not change one that was given to a Store; make another.
type Certificates struct {
	// ByHost has the certificates of hosts: lower-case names, or wildcards such as "*.example.org". Nil means that the
	// host has the default one, and not that of the wildcard above it.
	ByHost map[string]*tls.Certificate
	// Default is for every other name and for none. Nil means a self-signed one, made once and kept.
	Default *tls.Certificate
}

// A Store finds the certificate for a handshake. The zero Store has the self-signed default only.
type Store struct {
	current atomic.Pointer[Certificates]

	once       sync.Once // makes what follows, when it is first asked for
	selfSigned *tls.Certificate
	failure    error
}

// Set puts other certificates in place of all there were.
func (s *Store) Set(c Certificates) { s.current.Store(&c) }

// GetCertificate is for [tls.Config].GetCertificate. It fails only where the self-signed default is asked for and the
// machine has no randomness to make it from.
func (s *Store) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.current.Load(); c != nil {
		if pair := c.find(hello.ServerName); pair != nil {
			return pair, nil
		}
		if c.Default != nil {
			return c.Default, nil
		}
	}
	s.once.Do(func() { s.selfSigned, s.failure = SelfSigned() })
	return s.selfSigned, s.failure
}

// find returns nil for the default.
func (c *Certificates) find(name string) *tls.Certificate {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if pair, listed := c.ByHost[name]; listed {
		return pair
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 {
		return c.ByHost["*"+name[dot:]]
	}
	return nil
}
