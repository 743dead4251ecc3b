package acme

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"sallyport/certs"
)

// obtain has a certificate for a host, or keeps why there is none.
func (m *Manager) obtain(ctx context.Context, h *host) {
	defer m.ended(h)
	ordering, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	pair, found, err := m.certificate(ordering, h)
	if ctx.Err() != nil {
		return // somebody else leads, and goes on with what is kept
	}
	if err != nil {
		m.failed(ctx, h, err, ordering.Err() != nil)
		return
	}
	m.mu.Lock()
	h.have(pair, m.options.directory())
	if !found {
		m.good = time.Now()
	}
	m.mu.Unlock()
	if !found {
		m.counts.issued.Add(1)
		m.log.Info("have a certificate", "host", h.name, "until", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	m.reached()
	if err := m.note(ctx, h, func(r *record) { *r = record{} }); err != nil {
		m.log.Error("what is known of certificates cannot be kept", "err", err) // it is written with the next
	}
	m.changed()
}

// certificate is the one that is kept, where somebody else has ordered it meanwhile, or else a new one.
func (m *Manager) certificate(ctx context.Context, h *host) (pair *tls.Certificate, found bool, err error) {
	pair, err = m.kept(ctx, h)
	if err != nil || pair != nil {
		return pair, true, err
	}
	client, err := m.account(ctx)
	if err != nil {
		return nil, false, err
	}
	order, err := m.open(ctx, client, h)
	if err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	key := []byte(h.Key)
	m.mu.Unlock()
	chain, err := m.finish(ctx, client, order, h, key)
	if err != nil {
		return nil, false, err
	}
	pair, err = certs.Parse(chain, key)
	switch {
	case err != nil:
		return nil, false, uselessError{fmt.Errorf("what it sent is no use: %w", err)}
	case !certs.Covers(pair, h.name):
		return nil, false, uselessError{fmt.Errorf("what it sent does not cover %s", h.name)}
	}
	err = m.options.Store.Save(ctx, CertificateName(h.name), map[string][]byte{
		CertificateKey: chain, PrivateKeyKey: key, DirectoryKey: []byte(m.options.directory()),
	})
	if err != nil {
		return nil, false, storeError{fmt.Errorf("keep the certificate: %w", err)}
	}
	return pair, false, nil
}

// kept is the certificate that is in the Store, when it is as good as a new one: nobody may have told of it yet.
func (m *Manager) kept(ctx context.Context, h *host) (*tls.Certificate, error) {
	data, err := m.options.Store.Load(ctx, CertificateName(h.name))
	if errors.Is(err, ErrNotKept) {
		return nil, nil
	}
	if err != nil {
		return nil, storeError{fmt.Errorf("look for a certificate: %w", err)}
	}
	pair, err := certs.Parse(data[CertificateKey], data[PrivateKeyKey])
	if err != nil || !certs.Covers(pair, h.name) || string(data[DirectoryKey]) != m.options.directory() {
		return nil, nil // it is replaced
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if h.pair != nil && h.pair.Leaf.Equal(pair.Leaf) || !(renewal{}).at(pair.Leaf).After(now) {
		return nil, nil
	}
	return pair, nil
}

// open is the order that is kept, where it is good for anything still, or else a new one, which is kept.
func (m *Manager) open(ctx context.Context, client *acme.Client, h *host) (*acme.Order, error) {
	m.mu.Lock()
	url, key := h.Order, h.Key
	m.mu.Unlock()
	if url != "" && key != "" {
		order, err := client.GetOrder(ctx, url)
		var refused *acme.Error
		switch {
		case err == nil && order.Status != acme.StatusInvalid:
			m.log.Info("go on with an order", "host", h.name, "status", order.Status)
			return order, nil
		case err != nil && (!errors.As(err, &refused) || isTheirs(refused)):
			return nil, err
		}
	}
	text, _, err := newKey()
	if err != nil {
		return nil, err
	}
	m.counts.orders.Add(1)
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(h.name))
	if err != nil {
		return nil, err
	}
	err = m.note(ctx, h, func(r *record) {
		r.Order, r.Key = order.URI, string(text)
		r.Kind, r.Token, r.Answer, r.Shown = "", "", "", ""
	})
	if err != nil {
		return nil, storeError{fmt.Errorf("keep an order: %w", err)}
	}
	return order, nil
}

// finish brings an order to its certificate, from wherever it is.
func (m *Manager) finish(ctx context.Context, client *acme.Client, order *acme.Order, h *host, key []byte) (chain []byte, err error) {
	if order.Status == acme.StatusPending {
		for _, url := range order.AuthzURLs {
			if err := m.authorize(ctx, client, url, h); err != nil {
				return nil, err
			}
		}
	}
	url := order.URI
	if order.Status != acme.StatusReady && order.Status != acme.StatusValid {
		if order, err = client.WaitOrder(ctx, url); err != nil {
			return nil, err
		}
	}
	var ders [][]byte
	if order.Status == acme.StatusValid { // it had been sent the request before
		ders, err = client.FetchCert(ctx, order.CertURL, true)
	} else {
		ders, err = finalize(ctx, client, order, h.name, key)
	}
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, der := range ders {
		pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return text.Bytes(), nil
}

func finalize(ctx context.Context, client *acme.Client, order *acme.Order, name string, key []byte) ([][]byte, error) {
	signer, err := parseKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the key of an order: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, signer)
	if err != nil {
		return nil, fmt.Errorf("make a request for a certificate: %w", err)
	}
	ders, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	return ders, err
}

// authorize shows the authority that the host is here.
func (m *Manager) authorize(ctx context.Context, client *acme.Client, url string, h *host) error {
	z, err := client.GetAuthorization(ctx, url)
	if err != nil || z.Status == acme.StatusValid {
		return err
	}
	m.mu.Lock()
	failures := h.Failures
	m.mu.Unlock()
	challenge := m.choose(z.Challenges, failures)
	if challenge == nil {
		return unansweredError{strings.Join(m.options.challenges(), " or ")}
	}
	r := record{Kind: challenge.Type, Token: challenge.Token}
	switch challenge.Type {
	case HTTP01:
		r.Answer, err = client.HTTP01ChallengeResponse(challenge.Token)
	default:
		r.Shown, err = shownTo(client, challenge.Token, h.name)
	}
	if err != nil {
		return fmt.Errorf("make the answer to a challenge: %w", err)
	}
	err = m.note(ctx, h, func(to *record) { to.Kind, to.Token, to.Answer, to.Shown = r.Kind, r.Token, r.Answer, r.Shown })
	if err != nil {
		return storeError{fmt.Errorf("keep the answer to a challenge: %w", err)}
	}
	if !sleep(ctx, m.options.Settle) {
		return ctx.Err()
	}
	if challenge.Status == acme.StatusPending {
		if _, err := client.Accept(ctx, challenge); err != nil {
			var refused *acme.Error
			if !errors.As(err, &refused) || isTheirs(refused) || refused.StatusCode == 429 {
				return err
			}
			// It may have been told before, by a process that is no more; what came of that is seen below.
		}
	}
	_, err = client.WaitAuthorization(ctx, url)
	return err
}

// choose is the challenge that is answered: after each failure the next kind's turn comes.
func (m *Manager) choose(offered []*acme.Challenge, failures int) *acme.Challenge {
	kinds := m.options.challenges()
	for i := range kinds {
		kind := kinds[(failures+i)%len(kinds)]
		if at := slices.IndexFunc(offered, func(c *acme.Challenge) bool { return c.Type == kind }); at >= 0 {
			return offered[at]
		}
	}
	return nil
}

// shownTo is the certificate for a handshake of TLS-ALPN-01, with its key, in PEM.
func shownTo(client *acme.Client, token, name string) (string, error) {
	pair, err := client.TLSALPN01ChallengeCert(token, name)
	if err != nil {
		return "", err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})), nil
}
