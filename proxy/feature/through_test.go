package feature

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A passage is a front with one route, whose features are made of annotations, and the endpoints behind it: all of them
// on real sockets.
type passage struct {
	annotations map[string]string // without prefix
	config      map[string]string
	objects     objects
	features    []func(*Annotations, *Draft)
	endpoints   []http.Handler // none: the Service has none
	bodyTimeout time.Duration

	plain, secure string // addresses
	client        *http.Client
	pool          *upstream.Pool
	problems      []Problem
	done          chan proxy.Exchange // what became of each request, in order of their ends
}

// objects are what annotations may name.
type objects struct {
	configMaps map[string]map[string]string // by namespace/name
	backends   map[string]*Backend          // by name
	secrets    map[string]map[string][]byte // by namespace/name
}

func (o objects) Secret(namespace, name string) (map[string][]byte, bool) {
	data, ok := o.secrets[namespace+"/"+name]
	return data, ok
}

func (o objects) ConfigMap(namespace, name string) (map[string]string, bool) {
	data, ok := o.configMaps[namespace+"/"+name]
	return data, ok
}

func (o objects) Backend(_, service string) *Backend { return o.backends[service] }

// prefixed are annotations with their prefix.
func prefixed(annotations map[string]string) map[string]string {
	full := make(map[string]string, len(annotations))
	for name, text := range annotations {
		full[NginxPrefix+name] = text
	}
	return full
}

// drafted runs features over annotations.
func (p *passage) drafted() *Draft {
	a := newAnnotations(Input{
		Namespace: "shop", Name: "web", Annotations: prefixed(p.annotations), Config: &Config{values: p.config}, Objects: p.objects,
	})
	d := new(Draft)
	a.run(d, p.features)
	p.problems = a.problems
	return d
}

// open starts everything. It ends with the test.
func (p *passage) open(t testing.TB) *passage {
	t.Helper()
	d := p.drafted()
	p.pool = poolOf(t, p.endpoints...)
	p.done = make(chan proxy.Exchange, 100)
	info := &proxy.RouteInfo{Namespace: "shop", Ingress: "web", Service: "app", Port: "80", Path: "/", Observer: observer(p.done)}
	at := Place{Match: router.Match{Path: "/"}, Info: info, Pool: p.pool}
	handler := proxy.Identify(info, d.Handler(at, upstream.New(p.pool, d.Upstream)))
	config := &tls.Config{Certificates: []tls.Certificate{*newPair(t)}, NextProtos: proxy.Protocols()}
	s := &proxy.Server{
		Log: slog.New(slog.DiscardHandler), BodyTimeout: p.bodyTimeout,
		Handshake: func(*tls.ClientHelloInfo) (*tls.Config, any, error) { return config, nil, nil },
	}
	s.SetAround(d.Around)
	s.SetTable(router.New([]router.Route{{Match: at.Match, Source: "shop/web", Handler: handler}}, nil))
	ended := make(chan error, 2)
	p.plain = serve(t, s.Serve, ended)
	p.secure = serve(t, s.ServeTLS, ended)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	p.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return p
}

func serve(t testing.TB, how func(net.Listener) error, ended chan<- error) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- how(l) }()
	return l.Addr().String()
}

// observer hands on what became of exchanges.
type observer chan proxy.Exchange

func (o observer) Observe(e *proxy.Exchange) {
	copied := *e
	copied.Attempts = slices.Clone(e.Attempts)
	o <- copied
}

// became is what became of the request that ended next.
func (p *passage) became(t testing.TB) proxy.Exchange {
	t.Helper()
	select {
	case e := <-p.done:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no request ended")
		panic("unreachable")
	}
}

// poolOf is the pool of endpoints with these handlers.
func poolOf(t testing.TB, handlers ...http.Handler) *upstream.Pool {
	t.Helper()
	pool := new(upstream.Pools).Get(upstream.ID{Namespace: "shop", Service: "app", Port: "80"})
	var addresses []netip.AddrPort
	for _, handler := range handlers {
		server := httptest.NewServer(handler)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		t.Cleanup(server.Close)
		addresses = append(addresses, netip.MustParseAddrPort(server.Listener.Addr().String()))
	}
	pool.Set(addresses)
	return pool
}

// backendOf is a Backend with endpoints of these handlers.
func backendOf(t testing.TB, handlers ...http.Handler) *Backend {
	t.Helper()
	pool := poolOf(t, handlers...)
	return &Backend{Handler: upstream.New(pool, upstream.Options{}), Pool: pool}
}

// dial connects to the front without TLS.
func (p *passage) dial(t testing.TB) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", p.plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c, bufio.NewReader(c)
}

// do sends a request by HTTP/1.1, or by HTTP/2 where the URL is https.
func (p *passage) do(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	if r.URL.Scheme == "https" {
		r.URL.Host = p.secure
	} else {
		r.URL.Host = p.plain
	}
	answer, err := p.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: read the answer: %v", r.Method, r.URL, err)
	}
	return answer, string(body)
}

// get sends a GET with fields, each "Name: value".
func (p *passage) get(t testing.TB, target string, fields ...string) (*http.Response, string) {
	t.Helper()
	return p.do(t, request(t, "GET", "http://h.test"+target, nil, fields...))
}

func request(t testing.TB, method, url string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "h.test"
	for _, field := range fields {
		name, text, _ := strings.Cut(field, ": ")
		r.Header.Add(name, text)
	}
	return r
}

func newPair(t testing.TB) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"h.test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
