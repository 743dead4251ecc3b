package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"sallyport/router"
)

// front starts a server whose every host has one route with the handler, over HTTP and HTTPS, and returns their
// addresses.
func front(t testing.TB, s *Server, handler http.Handler) (plain, secure string) {
	t.Helper()
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	config := &tls.Config{Certificates: []tls.Certificate{*newPair(t)}, NextProtos: Protocols()}
	if s.Handshake == nil {
		s.Handshake = func(*tls.ClientHelloInfo) (*tls.Config, any, error) { return config, nil, nil }
	}
	info := &RouteInfo{Namespace: "default", Ingress: "web", Service: "app", Port: "80", Path: "/"}
	s.SetTable(router.New([]router.Route{{Match: router.Match{Path: "/"}, Source: "default/web", Handler: Identify(info, handler)}}, nil))
	var addresses [2]string
	done := make(chan error, 2)
	for i, serve := range []func(net.Listener) error{s.Serve, s.ServeTLS} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		go func() { done <- serve(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return addresses[0], addresses[1]
}

// raw sends bytes on a fresh connection and returns the first answer with its body.
func raw(t testing.TB, addr, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, request)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("answer to %q: %v", request, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("body of the answer to %q: %v", request, err)
	}
	return answer, string(body)
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, From(r).Target) })

func TestRefusesWhatHasNoSingleReading(t *testing.T) {
	plain, _ := front(t, new(Server), ok)
	for _, c := range []struct {
		request string
		status  int
		reason  Reason
	}{
		{"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", 200, ""},
		{"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", 200, ""},
		{"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", 200, ""},
		{"PROPFIND / HTTP/1.1\r\nHost: a.test\r\n\r\n", 200, ""},
		{"GET / HTTP/1.0\r\n\r\n", 200, ""},
		{"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", 405, MethodNotAllowed},
		{"CONNECT / HTTP/1.1\r\nHost: a.test\r\n\r\n", 405, MethodNotAllowed},
		{"TRACE / HTTP/1.1\r\nHost: a.test\r\n\r\n", 405, MethodNotAllowed},
		{"get / HTTP/1.1\r\nHost: a.test\r\n\r\n", 501, BadRequest},
		{"GET * HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET http://u:p@a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET ftp://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET https://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET x:admin HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET /a#b HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET /a%00b HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET /pub\\..\\admin HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, BadRequest},
		{"GET /pub/..;/admin HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, AmbiguousPath},
		{"GET /" + strings.Repeat("a", 20000) + " HTTP/1.1\r\nHost: a.test\r\n\r\n", 414, TargetTooLong},
		{"GET / HTTP/1.1\r\nHost: \r\n\r\n", 400, BadRequest},
		{"GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", 400, ""},
		{"GET / HTTP/1.1\r\nHost: a.test:x\r\n\r\n", 400, BadRequest},
		{"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, BadRequest},
		{"GET / HTTP/1.1\r\nHost: a%2etest\r\n\r\n", 400, BadRequest},
		{"GET / HTTP/1.1\r\nHost: *.a.test\r\n\r\n", 400, BadRequest},
		{"GET / HTTP/1.1\r\nHost: a.test\r\n" + strings.Repeat("X: y\r\n", 300) + "\r\n", 431, BadRequest},
	} {
		answer, body := raw(t, plain, c.request)
		if answer.StatusCode != c.status || c.reason != "" && !strings.Contains(body, "reason: "+string(c.reason)+"\n") {
			t.Errorf("%.100q: %s\n%s\nwant %d %s", c.request, answer.Status, body, c.status, c.reason)
		}
		if c.reason == BadRequest && !answer.Close {
			t.Errorf("%.100q: the connection stays open, where another message may hide", c.request)
		}
	}
}

// TestHTTP10WithoutHostIsForAnyHost asks as a client of HTTP/1.0 may: no rule that names a host takes it, unless the target
// names that.
func TestHTTP10WithoutHostIsForAnyHost(t *testing.T) {
	s := new(Server)
	plain, _ := front(t, s, ok)
	named := router.Route{Match: router.Match{Host: "a.test", Path: "/"}, Source: "default/named", Handler: ok}
	any := router.Route{Match: router.Match{Path: "/any"}, Source: "default/any", Handler: ok}
	s.SetTable(router.New([]router.Route{named, any}, nil))
	for target, want := range map[string]int{"/any": 200, "/": 404, "http://a.test/": 200, "http://b.test/": 404, "http://b.test/any": 200} {
		if answer, _ := raw(t, plain, "GET "+target+" HTTP/1.0\r\n\r\n"); answer.StatusCode != want {
			t.Errorf("%s without Host: %s, want %d", target, answer.Status, want)
		}
	}
}

func TestAnswersWithoutATableOrARoute(t *testing.T) {
	s := new(Server)
	plain, _ := front(t, s, ok)
	s.SetTable(nil)
	if answer, body := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); answer.StatusCode != 503 || !strings.Contains(body, "not_ready") {
		t.Errorf("without a table: %s %s, want 503 not_ready", answer.Status, body)
	}
	s.SetTable(router.New(nil, nil))
	answer, body := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\nAccept: application/json\r\nX-Request-ID: id-1\r\n\r\n")
	const want = `{"status":404,"error":"Not Found","reason":"no_route","requestId":"id-1"}` + "\n"
	if answer.StatusCode != 404 || body != want || answer.Header.Get("X-Request-Id") != "id-1" {
		t.Errorf("without a route: %s %s, want 404 %s", answer.Status, body, want)
	}
}

// seen answers with the fields of the request as a handler sees them, one a line.
var seen = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { r.Header.Write(w) })

func TestClientsCannotSayWhoTheyAre(t *testing.T) {
	plain, _ := front(t, new(Server), seen)
	_, port, _ := net.SplitHostPort(plain)
	_, body := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test:99\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\n"+
		"X-Forwarded-Host: evil\r\nForwarded: for=9.9.9.9\r\nX-Real-Ip: 9.9.9.9\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /x\r\n"+
		"X-Original-Url: /admin\r\nX-Forwarded-Server: s\r\nX-Scheme: https\r\nX-Auth-Request-User: root\r\nSsl-Client-Verify: SUCCESS\r\n"+
		"Proxy: http://evil\r\nX_Real_IP: 9.9.9.9\r\nX.Real.IP: 9.9.9.9\r\nX-Request-ID: bad id\r\nX-Own: 1\r\n"+
		"Connection: X-Hop, X-Real-IP, Authorization\r\nX-Hop: 1\r\nAuthorization: Basic eDp5\r\n\r\n")
	want := map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Scheme": "http",
		"X-Scheme": "http", "X-Forwarded-Host": "a.test:99", "X-Forwarded-Port": port, "X-Original-Forwarded-For": "9.9.9.9",
		"X-Original-Forwarded-Host": "evil", "X-Own": "1", "Authorization": "Basic eDp5", "Connection": "X-Hop, X-Real-IP, Authorization",
	}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "X-Request-Id" && len(value) == 32 {
			continue
		}
		if want[name] != value {
			t.Errorf("%s: %q passes, want %q", name, value, want[name])
		}
		delete(want, name)
	}
	for name, value := range want {
		t.Errorf("%s: %s is missing", name, value)
	}
}

func TestTrustedPeersAreBelieved(t *testing.T) {
	s := &Server{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}}
	plain, _ := front(t, s, seen)
	for chain, client := range map[string]string{
		"9.9.9.9, 1.1.1.1, 10.0.0.1": "1.1.1.1",
		"1.1.1.1":                    "1.1.1.1",
		"10.0.0.2, 10.0.0.1":         "10.0.0.2",
		"1.1.1.1, unknown, 10.0.0.1": "10.0.0.1",
		"::ffff:1.1.1.1":             "1.1.1.1",
		"1.1.1.1:4711, 10.0.0.1:80":  "1.1.1.1",
		"[2001:db8::1]:4711":         "2001:db8::1",
		"":                           "127.0.0.1",
	} {
		_, body := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: "+chain+"\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\n\r\n")
		for _, want := range []string{"X-Real-Ip: " + client, "X-Forwarded-For: " + client, "X-Forwarded-Proto: https", "X-Forwarded-Host: b.test", "X-Forwarded-Port: 443"} {
			if !strings.Contains(body, want+"\r\n") {
				t.Errorf("X-Forwarded-For: %q: no %q among\n%s", chain, want, body)
			}
		}
	}
}

// TestHostThatATrustedPeerNamesIsSeenBehindTheRoute: the route is found by Host, which the peer has sent itself.
func TestHostThatATrustedPeerNamesIsSeenBehindTheRoute(t *testing.T) {
	for _, c := range []struct{ trusted, want string }{{"127.0.0.0/8", "b.test:8443 a.test"}, {"10.0.0.0/8", "a.test a.test"}} {
		s := &Server{Trusted: []netip.Prefix{netip.MustParsePrefix(c.trusted)}}
		plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+" "+From(r).Host) }))
		if _, got := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Host: b.test:8443, c.test\r\n\r\n"); got != c.want {
			t.Errorf("with %s trusted the handler sees %q, want %q", c.trusted, got, c.want)
		}
	}
}

func TestAnswersToHEADSendNoBody(t *testing.T) {
	observer := make(told, 1)
	s := new(Server)
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Fail(w, r, 503, NoEndpoints) }))
	InfoOf(s.Table().Lookup("a.test", "/").Handler).Observer = observer
	answer, err := http.Head("http://" + plain + "/")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if e := <-observer; e.Status != 503 || e.Sent != 0 || answer.StatusCode != 503 {
		t.Errorf("status %d, told as %d with %d bytes; want 503 and none", answer.StatusCode, e.Status, e.Sent)
	}
}

// client speaks HTTP/2 to the front's TLS listener.
func client(t testing.TB) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func TestHTTP2OverTLS(t *testing.T) {
	_, secure := front(t, new(Server), seen)
	answer, err := client(t).Get("https://" + secure + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.ProtoMajor != 2 || !strings.Contains(string(body), "X-Forwarded-Port: 443\r\n") || !strings.Contains(string(body), "X-Forwarded-Proto: https\r\n") {
		t.Errorf("%s over %s\n%s\nwant HTTP/2 and https on 443", answer.Status, answer.Proto, body)
	}
	if _, err := tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

func TestPanicCostsOneRequest(t *testing.T) {
	var log bytes.Buffer
	s := &Server{Log: slog.New(slog.NewTextHandler(&log, nil))}
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/before":
			panic("a fault")
		case "/after":
			io.WriteString(w, strings.Repeat("x", 10000))
			panic("a fault")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
	}))
	if answer, body := raw(t, plain, "GET /before HTTP/1.1\r\nHost: a.test\r\n\r\n"); answer.StatusCode != 500 || !strings.Contains(body, "reason: panic") {
		t.Errorf("a panic before the answer: %s %s, want 500 panic", answer.Status, body)
	}
	for _, path := range []string{"/after", "/abort"} {
		if answer, err := http.Get("http://" + plain + path); err == nil {
			if _, err := io.ReadAll(answer.Body); err == nil {
				t.Errorf("%s: the answer looks whole", path)
			}
			answer.Body.Close()
		}
	}
	if answer, _ := raw(t, plain, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); answer.StatusCode != 200 {
		t.Errorf("after the panics: %s", answer.Status)
	}
	if got := strings.Count(log.String(), "panic while serving"); got != 2 {
		t.Errorf("%d panics are logged, want 2:\n%s", got, log.String())
	}
}

// told collects finished exchanges.
type told chan Exchange

func (c told) Observe(e *Exchange) { c <- *e }

func TestClientThatLeavesIs499(t *testing.T) {
	observer := make(told, 1)
	s := new(Server)
	left := make(chan struct{})
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(left)
		<-r.Context().Done()
	}))
	route := s.Table().Lookup("a.test", "/")
	InfoOf(route.Handler).Observer = observer
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	<-left
	c.Close()
	if e := <-observer; e.Status != StatusClientClosed || e.Reason != ClientClosed {
		t.Errorf("status %d %s, want 499 client_closed", e.Status, e.Reason)
	}
}

func TestSilentBodyIsGivenUp(t *testing.T) {
	got := make(chan error, 1)
	plain, _ := front(t, &Server{BodyTimeout: 50 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}))
	c, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhel")
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading a body that stalls: %v, want a deadline exceeded", err)
	}
}

// nobody is a ResponseWriter that goes nowhere.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header         { return n.header }
func (n nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n nobody) WriteHeader(int)             {}

// quick is a front with one route that answers 204, a request for it, and where the answer goes.
func quick(log *AccessLog) (d *door, w http.ResponseWriter, r *http.Request) {
	s := &Server{AccessLog: log}
	s.SetTable(router.New([]router.Route{{Match: router.Match{Host: "a.test", Path: "/"}, Handler: Identify(&RouteInfo{}, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }))}}, nil))
	r, _ = http.NewRequestWithContext(withSeat(context.Background(), nil), "GET", "http://a.test/some/where?x=1", http.NoBody)
	r.RequestURI, r.RemoteAddr = "/some/where?x=1", "192.0.2.1:4711"
	r.Header = http.Header{"User-Agent": {"benchmark"}, "Accept": {"*/*"}, "Cookie": {"session=0123456789"}}
	return &door{server: s, scheme: "http", port: "80"}, nobody{make(http.Header)}, r
}

// TestFrontAllocatesOnce: a request without a body that has come over HTTP/1 costs its id. Lines of the log are a test of
// their own.
func TestFrontAllocatesOnce(t *testing.T) {
	d, w, r := quick(nil)
	d.ServeHTTP(w, r) // the map of fields grows once
	if n := testing.AllocsPerRun(1000, func() {
		delete(r.Header, xRequestID)
		d.ServeHTTP(w, r)
	}); n > 1 {
		t.Errorf("the front allocates %v times a request, want 1", n)
	}
}

// BenchmarkServeHTTP is what the front itself costs a request, without the wire and without a handler.
func BenchmarkServeHTTP(b *testing.B) {
	log := NewAccessLog(io.Discard, TextLog)
	defer log.Close()
	d, w, r := quick(log)
	b.ReportAllocs()
	for b.Loop() {
		delete(r.Header, xRequestID)
		d.ServeHTTP(w, r)
	}
}
