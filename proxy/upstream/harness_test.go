package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are timeouts that a test can wait for.
var quick = Options{
	ConnectTimeout:  200 * time.Millisecond,
	SendTimeout:     200 * time.Millisecond,
	ReadTimeout:     200 * time.Millisecond,
	ContinueTimeout: 100 * time.Millisecond,
}

// A session is what a scripted endpoint sees of one connection.
type session struct {
	net.Conn
	in     *bufio.Reader
	number int           // of the connection, from 1
	done   chan struct{} // closed when the test ends
}

// request reads the next request, with its body unless that is to be left unread.
func (s *session) request() *http.Request {
	r, err := http.ReadRequest(s.in)
	if err != nil {
		return nil
	}
	return r
}

// head reads the next request's head as it came, up to and with the empty line.
func (s *session) head() string {
	var b strings.Builder
	for {
		line, err := s.in.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}

func (s *session) send(text string) { io.WriteString(s.Conn, text) }

// hang keeps the connection open until the other side or the test ends it.
func (s *session) hang() {
	go func() {
		<-s.done
		s.Close()
	}()
	io.Copy(io.Discard, s.in)
	<-s.done
}

// reset makes the connection end with RST.
func (s *session) reset() {
	s.Conn.(*net.TCPConn).SetLinger(0)
	s.Close()
}

// answers is a script that answers every request with the same text and then ends the connection or goes on.
func answers(text string) func(*session) {
	return func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			io.Copy(io.Discard, r.Body)
			s.send(text)
		}
	}
}

// endpoint runs script for every connection it accepts.
func endpoint(t testing.TB, script func(*session)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return endpointOn(t, l, script)
}

// secured is an endpoint that speaks TLS.
func secured(t testing.TB, config *tls.Config, script func(*session)) netip.AddrPort {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	return endpointOn(t, l, script)
}

// identity is a certificate for example.com and 127.0.0.1, and who believes in it.
func identity(t testing.TB) (server *tls.Config, roots *x509.CertPool) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, roots
}

func endpointOn(t testing.TB, l net.Listener, script func(*session)) netip.AddrPort {
	t.Helper()
	done := make(chan struct{})
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for number := 1; ; number++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			s := &session{Conn: c, in: bufio.NewReader(c), number: number, done: done}
			running.Go(func() {
				defer c.Close()
				script(s)
			})
		}
	})
	t.Cleanup(func() {
		close(done)
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// refused is an address where nobody listens.
func refused(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

func poolOf(t testing.TB, addrs ...netip.AddrPort) *Pool {
	t.Helper()
	var pools Pools
	id := ID{Namespace: "ns", Service: "svc", Port: "80"}
	pool := pools.Get(id)
	pool.Set(addrs)
	t.Cleanup(func() { pools.Forget(id) })
	return pool
}

// A frontdoor is a server with a Transport behind it, which hands out the exchanges when they are over.
type frontdoor struct {
	*httptest.Server
	client    *http.Client
	exchanges chan proxy.Exchange
}

// front starts a server that speaks HTTP/1.1, or HTTP/2 over TLS.
func front(t testing.TB, version int, last http.Handler) *frontdoor {
	t.Helper()
	f := &frontdoor{exchanges: make(chan proxy.Exchange, 100)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &proxy.Exchange{ID: "id", Start: time.Now(), Target: r.URL.RequestURI()}
		defer func() {
			select {
			case f.exchanges <- *e:
			default: // a test that asks often looks at few of them
			}
		}()
		last.ServeHTTP(w, proxy.With(r, e))
	})
	f.start(t, version, handler)
	f.client.Transport.(*http.Transport).DisableCompression = true
	f.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return f
}

// start serves a handler until the test is over.
func (f *frontdoor) start(t testing.TB, version int, handler http.Handler) {
	if version == 2 {
		f.Server = httptest.NewUnstartedServer(handler)
		f.EnableHTTP2 = true
		f.StartTLS()
		f.client = f.Server.Client()
		t.Cleanup(f.Close)
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http1.Server{Handler: handler, Panicked: func(fault any) { t.Errorf("panic: %v", fault) }}
	go server.Serve(l)
	f.Server = &httptest.Server{URL: "http://" + l.Addr().String(), Listener: l}
	f.client = &http.Client{Transport: new(http.Transport)}
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		l.Close()
		server.Close()
	})
}

// exchange waits for the next exchange to be over.
func (f *frontdoor) exchange(t testing.TB) proxy.Exchange {
	t.Helper()
	select {
	case e := <-f.exchanges:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("the exchange is not over after 10 s")
		return proxy.Exchange{}
	}
}

// An answer is what the client got.
type answer struct {
	*http.Response
	text string
	err  error // of reading the body; the answer was cut
}

func (f *frontdoor) do(t testing.TB, r *http.Request) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	res, err := f.client.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res, string(b), err}
}

func (f *frontdoor) request(t testing.TB, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, f.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *frontdoor) get(t testing.TB, path string) answer {
	t.Helper()
	return f.do(t, f.request(t, "GET", path, nil))
}

// raw opens a connection to the front, sends text and returns it for reading.
func (f *frontdoor) raw(t testing.TB, text string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, text)
	return c.(*net.TCPConn), bufio.NewReader(c)
}

// bothVersions runs a test with a client of HTTP/1.1 and one of HTTP/2.
func bothVersions(t *testing.T, test func(t *testing.T, version int)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, 1) })
	t.Run("HTTP2", func(t *testing.T) { test(t, 2) })
}

func bufioReader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }
