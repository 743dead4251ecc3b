// Package certs stands in for certs.
package certs

import (
	"crypto/tls"
	"errors"
)

type Certificates struct {
	ByHost  map[string]*tls.Certificate
	Default *tls.Certificate
}

func Parse(cert, key []byte) (*tls.Certificate, error) {
	if len(cert) == 0 {
		return nil, errors.New("empty")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}
func Covers(c *tls.Certificate, host string) bool { return c.Leaf.VerifyHostname(host) == nil }
