// Package acme is a certificate authority for tests: a real Pebble, with a name server that it asks and a door in front of it
// that counts orders and can be closed, slow or in trouble.
//
//	func TestMain(m *testing.M) { acme.Prepare(); os.Exit(e2e.Main(m)) }
//
//	func TestACertificateIsThere(t *testing.T) {
//		authority := acme.Start(t, acme.Options{})
//		authority.Knows("a.test")
//		s := e2e.Start(t, folder, authority.Flags()...)
//		authority.Finds(s)
//		...
//		authority.Orders("a.test") // 1
//	}
//
// The source of Pebble comes from the Go module proxy, at the version in e2e/pebble/go.mod; Go keeps the built program in its
// cache, where it takes seconds to come to.
package acme

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/e2e"
)

const pebbleVariable = "E2E_PEBBLE" // where the program is

// Prepare builds Pebble. Call it first in TestMain, while there is a network to fetch it from.
func Prepare() {
	if os.Getenv(pebbleVariable) != "" {
		return
	}
	folder := filepath.Join("..", "pebble")
	// -n builds the tool of go.mod and prints where it is, and does not run it.
	build := exec.Command("go", "tool", "-n", "pebble")
	build.Dir, build.Env, build.Stderr = folder, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := build.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/acme: build Pebble: go tool -n pebble in e2e/pebble:", err)
		os.Exit(2)
	}
	os.Setenv(pebbleVariable, strings.TrimSpace(string(out)))
}

// Options make an authority different from others.
type Options struct {
	// Life is how long certificates are valid. Zero: 90 days.
	Life time.Duration
	// RejectedNonces is the percentage of good nonces that are rejected.
	RejectedNonces int
	// Slow is how many seconds at most pass before a host is looked at.
	Slow int
	// Blocked are names for which nothing is issued.
	Blocked []string
	// Keys are those of external account binding, by their IDs, in base64url. Empty: none is asked for.
	Keys map[string]string
}

// An Authority is one that runs.
type Authority struct {
	// Names is what the authority asks for addresses.
	Names *e2e.NameServer

	folder   string
	door     *httptest.Server
	manage   string // URL
	pebble   *exec.Cmd
	roots    *x509.CertPool
	http     *entrance
	https    *entrance
	insecure *http.Client

	mu      sync.Mutex
	down    bool
	trouble int // requests that are still to be answered 500
	path    string
	held    map[string]chan struct{}
	waiting int // at a held path
	orders  map[string]int
	times   []time.Time
}

// Start runs an authority until the test ends.
func Start(t testing.TB, o Options) *Authority {
	t.Helper()
	a := &Authority{
		Names: e2e.ServeNames(t, "127.0.0.1:"+e2e.FreePort(t)), folder: t.TempDir(),
		orders: make(map[string]int), held: make(map[string]chan struct{}),
		insecure: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: time.Minute},
	}
	t.Cleanup(a.insecure.CloseIdleConnections)
	a.http, a.https = enter(t), enter(t)
	listen, manage := "127.0.0.1:"+e2e.FreePort(t), "127.0.0.1:"+e2e.FreePort(t)
	a.manage = "https://" + manage
	certificate := a.issueDoor(t)
	a.startPebble(t, o, listen, manage)
	a.openDoor(t, listen, certificate)
	e2e.Eventually(t, "Pebble answers", func() error {
		answer, err := a.insecure.Get(a.manage + "/roots/0")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		a.roots = x509.NewCertPool()
		if !a.roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("no root: %s %v", text, err)
		}
		return nil
	})
	return a
}

func (a *Authority) startPebble(t testing.TB, o Options, listen, manage string) {
	life := o.Life
	if life == 0 {
		life = 90 * 24 * time.Hour
	}
	config := map[string]any{
		"listenAddress": listen, "managementListenAddress": manage,
		"certificate": filepath.Join(a.folder, "door.pem"), "privateKey": filepath.Join(a.folder, "door.key"),
		"httpPort": a.http.port(), "tlsPort": a.https.port(),
		"domainBlocklist": o.Blocked, "retryAfter": map[string]int{"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
		"externalAccountBindingRequired": len(o.Keys) > 0, "externalAccountMACKeys": o.Keys,
		"profiles": map[string]any{"default": map[string]any{"description": "the only one", "validityPeriod": int(life.Seconds())}},
	}
	text, err := json.Marshal(map[string]any{"pebble": config})
	if err != nil {
		t.Fatal(err)
	}
	e2e.WriteFile(t, filepath.Join(a.folder, "pebble.json"), string(text))
	a.pebble = exec.Command(os.Getenv(pebbleVariable), "-config", filepath.Join(a.folder, "pebble.json"), "-dnsserver", a.Names.Addr)
	a.pebble.Env = append(os.Environ(), fmt.Sprintf("PEBBLE_WFE_NONCEREJECT=%d", o.RejectedNonces), "PEBBLE_AUTHZREUSE=0")
	if o.Slow > 0 {
		a.pebble.Env = append(a.pebble.Env, fmt.Sprintf("PEBBLE_VA_SLEEPTIME=%d", o.Slow))
	} else {
		a.pebble.Env = append(a.pebble.Env, "PEBBLE_VA_NOSLEEP=1")
	}
	said, err := os.Create(filepath.Join(a.folder, "pebble.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	a.pebble.Stdout, a.pebble.Stderr = said, said
	if err := a.pebble.Start(); err != nil {
		t.Fatalf("start Pebble: %v", err)
	}
	t.Cleanup(func() {
		a.pebble.Process.Kill()
		a.pebble.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(said.Name())
			t.Logf("Pebble's last words:\n%s", text[max(0, len(text)-6000):])
		}
	})
}

// issueDoor makes the certificate of the door and of Pebble itself, and the file that says whose it is.
func (a *Authority) issueDoor(t testing.TB) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "door"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	e2e.WriteFile(t, filepath.Join(a.folder, "door.pem"), string(chain))
	e2e.WriteFile(t, filepath.Join(a.folder, "door.key"), string(secret))
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// openDoor stands in front of Pebble, which names its pages by the host that it is asked as.
func (a *Authority) openDoor(t testing.TB, to string, certificate tls.Certificate) {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: to})
			r.Out.Host = r.In.Host
		},
		Transport: a.insecure.Transport,
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	a.door = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.admit(w, r) {
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	a.door.Config.ErrorLog = proxy.ErrorLog
	a.door.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	a.door.StartTLS()
	t.Cleanup(func() {
		a.mu.Lock()
		for path, free := range a.held {
			close(free)
			delete(a.held, path)
		}
		a.mu.Unlock()
		a.door.CloseClientConnections()
		a.door.Close()
	})
}

// admit counts a request and says whether Pebble is to have it.
func (a *Authority) admit(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	if a.down {
		a.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	if a.trouble > 0 && strings.HasPrefix(r.URL.Path, a.path) {
		a.trouble--
		a.mu.Unlock()
		http.Error(w, "trouble", http.StatusInternalServerError)
		return false
	}
	var free chan struct{}
	for path, channel := range a.held {
		if strings.HasPrefix(r.URL.Path, path) {
			free = channel
			a.waiting++
		}
	}
	a.mu.Unlock()
	if free != nil && !a.wait(r, free) {
		return false
	}
	if r.URL.Path == OrderPath && r.Method == http.MethodPost {
		a.count(r)
	}
	return true
}

// wait returns false when the client left meanwhile, which is seen once its request has been read.
func (a *Authority) wait(r *http.Request, free chan struct{}) bool {
	text, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if err == nil {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	return r.Context().Err() == nil
}

// The paths of Pebble that a test may want to hold or trouble.
const (
	OrderPath     = "/order-plz"
	ChallengePath = "/chalZ/"
	FinalizePath  = "/finalize-order/"
)

// count notes for which host an order is.
func (a *Authority) count(r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	var message struct{ Payload string }
	var order struct{ Identifiers []struct{ Value string } }
	if json.Unmarshal(text, &message) != nil {
		return
	}
	payload, _ := base64.RawURLEncoding.DecodeString(message.Payload)
	if json.Unmarshal(payload, &order) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
	for _, identifier := range order.Identifiers {
		a.orders[identifier.Value]++
	}
}

// Flags have a process order here.
func (a *Authority) Flags(more ...string) []string {
	return append([]string{"--acme-accept-terms", "--acme-directory=" + a.door.URL + "/dir", "--acme-ca-bundle=" + filepath.Join(a.folder, "door.pem")}, more...)
}

// Knows has hosts lead here.
func (a *Authority) Knows(hosts ...string) {
	for _, host := range hosts {
		a.Names.Set(host, e2e.Records{Addresses: []string{"127.0.0.1"}})
	}
}

// Finds says which processes the hosts that lead here lead to, in turn.
func (a *Authority) Finds(processes ...*e2e.Process) {
	var plain, secure []string
	for _, p := range processes {
		plain, secure = append(plain, p.HTTP), append(secure, p.HTTPS)
	}
	a.http.lead(plain)
	a.https.lead(secure)
}

// Orders is how many orders there were for a host; every one that was sent counts, whatever came of it but a nonce that was
// not taken.
func (a *Authority) Orders(host string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orders[host]
}

// AllOrders is how many there were for all hosts.
func (a *Authority) AllOrders() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

// Down has the authority break every connection, or answer again.
func (a *Authority) Down(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// Trouble has the next requests for paths that begin like path be answered 500.
func (a *Authority) Trouble(path string, requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.path, a.trouble = path, requests
}

// Hold has requests for paths that begin like path wait until free is called, and says how many do. One whose client leaves is
// dropped.
func (a *Authority) Hold(path string) (waiting func() int, free func()) {
	channel := make(chan struct{})
	a.mu.Lock()
	a.held[path], a.waiting = channel, 0
	a.mu.Unlock()
	waiting = func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.waiting
	}
	return waiting, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.held[path] == channel {
			close(channel)
			delete(a.held, path)
		}
	}
}

// AskRenewal has the authority want a certificate renewed at once.
func (a *Authority) AskRenewal(t testing.TB, leaf *x509.Certificate) {
	t.Helper()
	now := time.Now().UTC()
	window, err := json.Marshal(map[string]any{"suggestedWindow": map[string]any{"start": now.Add(-time.Hour), "end": now.Add(-time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{
		"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})), "ariResponse": string(window),
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.insecure.Post(a.manage+"/set-renewal-info/", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Fatalf("set the renewal of a certificate: %s\n%s", answer.Status, text)
	}
}

// Shown is the certificate that an address shows for a host, or why that is none of this authority's.
func (a *Authority) Shown(address, host string) (*x509.Certificate, error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, &tls.Config{ServerName: host, RootCAs: a.roots})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// An entrance is a port that connections to hosts lead to: they are passed on to processes in turn.
type entrance struct {
	listener net.Listener
	mu       sync.Mutex
	to       []string
	next     int
	open     sync.WaitGroup
}

func enter(t testing.TB) *entrance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+e2e.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	e := &entrance{listener: l}
	e.open.Go(e.accept)
	t.Cleanup(func() {
		l.Close()
		e.open.Wait()
	})
	return e
}

func (e *entrance) port() int { return e.listener.Addr().(*net.TCPAddr).Port }

func (e *entrance) lead(to []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.to = to
}

func (e *entrance) accept() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.mu.Lock()
		to := ""
		if len(e.to) > 0 {
			to = e.to[e.next%len(e.to)]
			e.next++
		}
		e.mu.Unlock()
		e.open.Go(func() { pass(c, to) })
	}
}

func pass(c net.Conn, to string) {
	defer c.Close()
	other, err := net.DialTimeout("tcp", to, 10*time.Second)
	if err != nil {
		return
	}
	defer other.Close()
	deadline := time.Now().Add(30 * time.Second)
	c.SetDeadline(deadline)
	other.SetDeadline(deadline)
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(c, other)
		c.Close()
	})
	io.Copy(other, c)
	other.(*net.TCPConn).CloseWrite()
	back.Wait()
}
