//go:build controlplane

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Gate is a way to the API server on which a replica can have another API server than the rest of the cluster: one that is
// slow, that says nothing, or that is older. See [Cluster.LaunchVia].
type Gate struct {
	url string

	mu    sync.Mutex
	open  chan struct{} // closed while answers pass
	delay time.Duration
	old   bool
}

// Gate opens one. It ends with the test.
func (c *Cluster) Gate(t testing.TB) *Gate {
	t.Helper()
	to, err := url.Parse(c.server)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(c.read(t, "ca.crt")))
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // a client that leaves, an API server that ends
	}
	g := &Gate{open: make(chan struct{})}
	close(g.open)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.pass(r.Context()) || g.refuse(w, r) {
			return
		}
		proxy.ServeHTTP(&gated{w, r.Context(), g}, r)
	}))
	server.Config.ErrorLog = proxy.ErrorLog
	c.keys.issueServer(t, "gate", "gate", net.IPv4(127, 0, 0, 1))
	certificate, err := tls.LoadX509KeyPair(filepath.Join(c.folder, "gate.crt"), filepath.Join(c.folder, "gate.key"))
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		g.Thaw()
		server.CloseClientConnections()
		server.Close()
	})
	g.url = server.URL
	return g
}

// Freeze has every request wait, and every watch be silent, until Thaw.
func (g *Gate) Freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Thaw lets everything pass again.
func (g *Gate) Thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// Delay has every request, and every piece of an answer, take so much longer.
func (g *Gate) Delay(by time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = by
}

// Old has the API server not send at the beginning of a watch what there is, as it has learned to do lately: clients list then.
func (g *Gate) Old() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.old = true
}

// pass waits until something may pass. It returns false when nobody waits for it any more.
func (g *Gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	open, delay := g.open, time.After(g.delay)
	g.mu.Unlock()
	for range 2 {
		select {
		case <-open:
			open = nil
		case <-delay:
			delay = nil
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (g *Gate) refuse(w http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.old || r.URL.Query().Get("sendInitialEvents") == "" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "sendInitialEvents is forbidden for watch",
	})
	return true
}

// gated is an answer on its way through a gate.
type gated struct {
	http.ResponseWriter
	ctx  context.Context
	gate *Gate
}

func (g *gated) Write(p []byte) (int, error) {
	if !g.gate.pass(g.ctx) {
		return 0, g.ctx.Err()
	}
	return g.ResponseWriter.Write(p)
}

// Unwrap lets answers be flushed.
func (g *gated) Unwrap() http.ResponseWriter { return g.ResponseWriter }
