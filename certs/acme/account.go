package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/crypto/acme"
)

// authority is what is known of the one that is asked.
type authority struct {
	client   *acme.Client // with an account; nil: there is none yet
	failures int          // one after the other, to reach it at all
	trouble  string       // the last of them; empty: none
	paused   time.Time    // it is left alone until then
	good     time.Time    // when it issued a certificate last
}

// The keys of what is kept of the account.
const (
	accountKeyKey       = "key"
	accountURLKey       = "account"
	accountDirectoryKey = "directory"
)

func (m *Manager) httpClient() *http.Client {
	if m.options.Client != nil {
		return m.options.Client
	}
	return http.DefaultClient
}

// mostNonces bounds how often a request is repeated because its nonce was not taken.
const mostNonces = 20

// account is a client with an account at the authority: the one that is kept, or else a new one, which is kept first.
func (m *Manager) account(ctx context.Context) (*acme.Client, error) {
	m.accounts.Lock()
	defer m.accounts.Unlock()
	m.mu.Lock()
	client := m.client
	m.mu.Unlock()
	if client != nil {
		return client, nil
	}
	data, err := m.options.Store.Load(ctx, accountName)
	if err != nil && !errors.Is(err, ErrNotKept) {
		return nil, storeError{fmt.Errorf("read the account: %w", err)}
	}
	if string(data[accountDirectoryKey]) != m.options.directory() {
		data = map[string][]byte{accountDirectoryKey: []byte(m.options.directory())}
	}
	key, err := parseKey(data[accountKeyKey])
	if err != nil {
		text, made, err := newKey()
		if err != nil {
			return nil, err
		}
		data[accountKeyKey], key = text, made
		delete(data, accountURLKey)
		if err := m.options.Store.Save(ctx, accountName, data); err != nil {
			return nil, storeError{fmt.Errorf("keep the account: %w", err)}
		}
	}
	client = &acme.Client{
		Key: key, HTTPClient: m.httpClient(), DirectoryURL: m.options.directory(), UserAgent: "sallyport",
		KID: acme.KeyID(data[accountURLKey]),
		RetryBackoff: func(n int, _ *http.Request, answer *http.Response) time.Duration {
			if answer.StatusCode != http.StatusBadRequest || n > mostNonces {
				return -1 // backoff.go knows better
			}
			return time.Duration(n) * 10 * time.Millisecond // the nonce was not taken
		},
	}
	if client.KID == "" {
		if err := m.register(ctx, client); err != nil {
			return nil, err
		}
		data[accountURLKey] = []byte(client.KID)
		if err := m.options.Store.Save(ctx, accountName, data); err != nil {
			return nil, storeError{fmt.Errorf("keep the account: %w", err)}
		}
	}
	m.mu.Lock()
	m.client = client
	m.mu.Unlock()
	return client, nil
}

func (m *Manager) register(ctx context.Context, client *acme.Client) error {
	account := &acme.Account{}
	if m.options.Email != "" {
		account.Contact = []string{"mailto:" + m.options.Email}
	}
	if m.options.KeyID != "" {
		account.ExternalAccountBinding = &acme.ExternalAccountBinding{KID: m.options.KeyID, Key: m.options.MACKey}
	}
	_, err := client.Register(ctx, account, acme.AcceptTOS)
	var refused *acme.Error
	switch {
	case err == nil, errors.Is(err, acme.ErrAccountAlreadyExists):
	case errors.As(err, &refused) && !isTheirs(refused):
		return accountError{err}
	default:
		return err
	}
	m.log.Info("have an account at the certificate authority", "directory", m.options.directory(), "account", string(client.KID))
	return nil
}

// forgetAccount has the account opened once more, with the same key: the authority knows it no longer.
func (m *Manager) forgetAccount(ctx context.Context) {
	m.accounts.Lock()
	defer m.accounts.Unlock()
	m.mu.Lock()
	m.client = nil
	m.mu.Unlock()
	data, err := m.options.Store.Load(ctx, accountName)
	if err != nil || len(data[accountURLKey]) == 0 {
		return
	}
	delete(data, accountURLKey)
	if err := m.options.Store.Save(ctx, accountName, data); err != nil {
		m.log.Error("an account that the authority does not know cannot be forgotten", "err", err)
	}
}

// newKey makes a key, and its PEM.
func newKey() ([]byte, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), key, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T signs nothing", key)
	}
	return signer, nil
}
