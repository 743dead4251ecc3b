package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/certs"
)

// A fakeAuthority is an authority inside a bubble of synctest, where no socket can be: it is asked by being an
// http.RoundTripper. It believes signatures, and what it is told of challenges as far as accept does.
type fakeAuthority struct {
	key  *ecdsa.PrivateKey
	root *x509.Certificate
	life time.Duration

	mu      sync.Mutex
	down    bool
	accept  func(host string) string // what is wrong with a host; empty: nothing
	refuse  func(host string) *http.Response
	issued  map[string]string // hosts in whose place a certificate for another is issued
	orders  []fakeOrder
	asked   int // requests, whatever came of them
	window  [2]time.Time
	attempt []time.Time // of orders
}

type fakeOrder struct {
	host   string
	status string
	chain  string
	wrong  string
}

func newFakeAuthority(t *testing.T) *fakeAuthority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake"}, IsCA: true, BasicConstraintsValid: true, SubjectKeyId: []byte{1, 2, 3},
		NotBefore: time.Now(), NotAfter: time.Now().AddDate(10, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeAuthority{key: key, root: root, life: 90 * 24 * time.Hour}
}

// ordered returns the host of each order that there is, oldest first.
func (f *fakeAuthority) ordered() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hosts []string
	for _, o := range f.orders {
		hosts = append(hosts, o.host)
	}
	return hosts
}

// attempts returns when an order was asked for, whatever came of it, oldest first.
func (f *fakeAuthority) attempts() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.attempt)
}

const fakeHost = "https://ca.test"

func (f *fakeAuthority) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.down {
		return nil, errors.New("connection refused")
	}
	payload := readPayload(r)
	var number int
	fmt.Sscanf(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], "%d", &number)
	switch path, _, _ := strings.Cut(r.URL.Path[1:], "/"); path {
	case "dir":
		return reply(200, "", map[string]string{
			"newNonce": fakeHost + "/nonce", "newAccount": fakeHost + "/account", "newOrder": fakeHost + "/new", "renewalInfo": fakeHost + "/ari",
			"revokeCert": fakeHost + "/revoke", "keyChange": fakeHost + "/change",
		}), nil
	case "nonce":
		return reply(200, "", nil), nil
	case "account":
		return reply(201, fakeHost+"/accounts/1", map[string]string{"status": "valid"}), nil
	case "new":
		var order struct{ Identifiers []struct{ Value string } }
		json.Unmarshal(payload, &order)
		host := order.Identifiers[0].Value
		f.attempt = append(f.attempt, time.Now())
		if f.refuse != nil {
			if refused := f.refuse(host); refused != nil {
				return refused, nil
			}
		}
		f.orders = append(f.orders, fakeOrder{host: host, status: "pending"})
		return f.order(201, len(f.orders)-1), nil
	case "order":
		return f.order(200, number), nil
	case "authz":
		o := &f.orders[number]
		status := map[string]string{"pending": "pending", "invalid": "invalid"}[o.status]
		if status == "" {
			status = "valid"
		}
		challenge := map[string]any{"type": "http-01", "url": fmt.Sprintf("%s/challenge/%d", fakeHost, number), "token": fmt.Sprintf("token-%d", number), "status": status}
		if o.wrong != "" {
			challenge["error"] = map[string]any{"type": "urn:ietf:params:acme:error:connection", "detail": o.wrong, "status": 400}
		}
		return reply(200, "", map[string]any{"status": status, "identifier": map[string]string{"type": "dns", "value": o.host}, "challenges": []any{challenge}}), nil
	case "challenge":
		o := &f.orders[number]
		if o.status = "ready"; f.accept != nil {
			if o.wrong = f.accept(o.host); o.wrong != "" {
				o.status = "invalid"
			}
		}
		return reply(200, "", map[string]string{"type": "http-01", "url": r.URL.String(), "token": "x", "status": "processing"}), nil
	case "finalize":
		var request struct{ CSR string }
		json.Unmarshal(payload, &request)
		f.issue(number, request.CSR)
		return f.order(200, number), nil
	case "cert":
		answer := reply(200, "", nil)
		answer.Body = io.NopCloser(strings.NewReader(f.orders[number].chain))
		return answer, nil
	case "ari":
		return reply(200, "", map[string]any{"suggestedWindow": map[string]time.Time{"start": f.window[0], "end": f.window[1]}}), nil
	}
	return reply(404, "", map[string]string{"type": "urn:ietf:params:acme:error:malformed", "detail": "no such page"}), nil
}

func (f *fakeAuthority) order(status, number int) *http.Response {
	at := func(what string) string { return fmt.Sprintf("%s/%s/%d", fakeHost, what, number) }
	body := map[string]any{"status": f.orders[number].status, "authorizations": []string{at("authz")}, "finalize": at("finalize")}
	if f.orders[number].chain != "" {
		body["certificate"] = at("cert")
	}
	return reply(status, at("order"), body)
}

func (f *fakeAuthority) issue(number int, csr string) {
	der, _ := base64.RawURLEncoding.DecodeString(csr)
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		panic(err)
	}
	names := request.DNSNames
	if other := f.issued[f.orders[number].host]; other != "" {
		names = []string{other}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(1000 + number)), DNSNames: names, AuthorityKeyId: f.root.SubjectKeyId,
		NotBefore: time.Now(), NotAfter: time.Now().Add(f.life), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	leaf, err := x509.CreateCertificate(rand.Reader, template, f.root, request.PublicKey, f.key)
	if err != nil {
		panic(err)
	}
	f.orders[number].status = "valid"
	f.orders[number].chain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.root.Raw}))
}

func readPayload(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	text, _ := io.ReadAll(r.Body)
	var message struct{ Payload string }
	json.Unmarshal(text, &message)
	payload, _ := base64.RawURLEncoding.DecodeString(message.Payload)
	return payload
}

func reply(status int, location string, body any) *http.Response {
	text, _ := json.Marshal(body)
	header := http.Header{"Replay-Nonce": {"n"}, "Content-Type": {"application/json"}}
	if location != "" {
		header.Set("Location", location)
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: io.NopCloser(bytes.NewReader(text))}
}

// A memory is a Store that can fail.
type memory struct {
	mu    sync.Mutex
	kept  map[string]map[string][]byte
	wrong error
}

func (m *memory) Load(_ context.Context, name string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong != nil {
		return nil, m.wrong
	}
	data, ok := m.kept[name]
	if !ok {
		return nil, ErrNotKept
	}
	copied := make(map[string][]byte)
	for key, value := range data {
		copied[key] = value
	}
	return copied, nil
}

func (m *memory) Save(_ context.Context, name string, data map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong != nil {
		return m.wrong
	}
	if m.kept == nil {
		m.kept = make(map[string]map[string][]byte)
	}
	m.kept[name] = data
	return nil
}

func (m *memory) Clean(_ context.Context, useless func(string, map[string][]byte) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, data := range m.kept {
		if data[CertificateKey] != nil && useless(name, data) {
			delete(m.kept, name)
		}
	}
	return m.wrong
}

func (m *memory) pair(t *testing.T, host string) *tls.Certificate {
	t.Helper()
	data, err := m.Load(t.Context(), CertificateName(host))
	if err != nil {
		return nil
	}
	pair, err := certs.Parse(data[CertificateKey], data[PrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func newManager(t *testing.T, f *fakeAuthority, store Store) *Manager {
	t.Helper()
	m, err := New(Options{Directory: fakeHost + "/dir", Client: &http.Client{Transport: f}, Store: store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs a Manager until stop is called.
func run(m *Manager) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func hosts(names ...string) (all []Host) {
	for _, name := range names {
		all = append(all, Host{Name: name})
	}
	return all
}
