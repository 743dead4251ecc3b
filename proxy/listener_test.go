package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy/proxyprotocol"
)

// A spoken is a connection to the front that a test writes itself.
type spoken struct {
	t testing.TB
	net.Conn
	reader *bufio.Reader
}

func open(t testing.TB, addr string) *spoken {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return &spoken{t, c, bufio.NewReader(c)}
}

func (c *spoken) say(text string) *spoken {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// secure shakes hands.
func (c *spoken) secure() *spoken {
	c.t.Helper()
	over := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
	if err := over.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return &spoken{c.t, over, bufio.NewReader(over)}
}

// ask sends a request and returns the body of its answer.
func (c *spoken) ask(request string) string {
	c.t.Helper()
	c.say(request)
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatalf("answer to %q: %v", request, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatalf("body of the answer to %q: %v", request, err)
	}
	return string(body)
}

// closed fails unless the front closes the connection without a word.
func (c *spoken) closed(what string) {
	c.t.Helper()
	said, err := io.ReadAll(c.Conn)
	if timeout := net.Error(nil); len(said) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Errorf("%s: the front says %q, %v; want the end of the connection alone", what, said, err)
	}
}

const get = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"

// announcing is a front that wants PROXY headers, with what its handlers see as body.
func announcing(t testing.TB, c Clients) (s *Server, plain, secure string) {
	s = new(Server)
	c.ProxyProtocol = true
	s.SetClients(&c)
	plain, secure = front(t, s, seen)
	return s, plain, secure
}

func TestThePROXYHeaderSaysWhoTheClientIs(t *testing.T) {
	_, plain, secure := announcing(t, Clients{})
	_, port, _ := net.SplitHostPort(plain)
	said := proxyprotocol.Header{Source: netip.MustParseAddrPort("192.0.2.7:4711"), Destination: netip.MustParseAddrPort("198.51.100.1:8080")}
	six := proxyprotocol.Header{Source: netip.MustParseAddrPort("[2001:db8::7]:4711"), Destination: netip.MustParseAddrPort("[2001:db8::1]:443")}
	behindTLS := said
	behindTLS.Destination = netip.MustParseAddrPort("198.51.100.1:443")
	datagram := said
	datagram.Datagram = true
	for _, c := range []struct {
		name   string
		header []byte
		tls    bool
		want   string // client, scheme and port
	}{
		{"version 1", said.AppendV1(nil), false, "192.0.2.7 http 8080"},
		{"version 2", said.AppendV2(nil), false, "192.0.2.7 http 8080"},
		{"a load balancer that takes the TLS off", behindTLS.AppendV2(nil), false, "192.0.2.7 https 443"},
		{"IPv6", six.AppendV1(nil), false, "2001:db8::7 https 443"},
		{"over TLS", six.AppendV2(nil), true, "2001:db8::7 https 443"},
		{"over TLS, another port", said.AppendV2(nil), true, "192.0.2.7 https 8080"},
		{"UNKNOWN", []byte("PROXY UNKNOWN\r\n"), false, "127.0.0.1 http " + port},
		{"LOCAL", proxyprotocol.Header{}.AppendV2(nil), false, "127.0.0.1 http " + port},
		{"LOCAL over TLS", proxyprotocol.Header{}.AppendV2(nil), true, "127.0.0.1 https 443"},
		{"a client of UDP", datagram.AppendV2(nil), false, "127.0.0.1 http " + port},
	} {
		addr := plain
		if c.tls {
			addr = secure
		}
		conn := open(t, addr).say(string(c.header))
		if c.tls {
			conn = conn.secure()
		}
		for range 2 { // the connection stays the client's
			got := fieldsOf(conn.ask("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\n\r\n"))
			if is := got[xRealIP] + " " + got[xForwardedProto] + " " + got[xForwardedPort]; is != c.want || got[xForwardedFor] != got[xRealIP] {
				t.Errorf("%s: the request is from %q (X-Forwarded-For %q), want %q", c.name, is, got[xForwardedFor], c.want)
			}
		}
	}
}

func TestOneSegmentMayHoldHeaderAndRequest(t *testing.T) {
	_, plain, _ := announcing(t, Clients{})
	if got := fieldsOf(open(t, plain).ask("PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n" + get))[xRealIP]; got != "192.0.2.7" {
		t.Errorf("the client is %q, want 192.0.2.7", got)
	}
	if got := fieldsOf(open(t, plain).say("PROXY TC").say("P4 192.0.2.7 192.0.2.8 1 80\r").ask("\n" + get))[xRealIP]; got != "192.0.2.7" {
		t.Errorf("in pieces: the client is %q, want 192.0.2.7", got)
	}
}

// TestForwardedFieldsCountIfTheAnnouncedPeerIsTrusted: A11 (c) of the reference.
func TestForwardedFieldsCountIfTheAnnouncedPeerIsTrusted(t *testing.T) {
	_, plain, _ := announcing(t, Clients{Forwarded: true, FullForwardedFor: true, Trusted: cidrs("127.0.0.0/8", "10.0.0.0/8")})
	for source, want := range map[string]string{
		"10.0.0.9":  "1.1.1.1 https 9.9.9.9, 1.1.1.1, 10.0.0.1, 10.0.0.9",
		"192.0.2.7": "192.0.2.7 http 192.0.2.7",
	} {
		got := fieldsOf(open(t, plain).ask("PROXY TCP4 " + source + " 192.0.2.8 1 80\r\nGET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 9.9.9.9, 1.1.1.1, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n\r\n"))
		if is := got[xRealIP] + " " + got[xForwardedProto] + " " + got[xForwardedFor]; is != want {
			t.Errorf("announced as %s: %q, want %q", source, is, want)
		}
	}
}

// TestConnectionsWithoutAGoodPROXYHeaderAreClosed: golden row 50 of the reference.
func TestConnectionsWithoutAGoodPROXYHeaderAreClosed(t *testing.T) {
	_, plain, secure := announcing(t, Clients{})
	for _, sent := range []string{
		get, "\x16\x03\x01\x00\x05hello", "PROXY TCP4 192.0.2.7 192.0.2.8 1 80\n" + get, "PROXY TCP4 192.0.2.7 192.0.2.8 1\r\n" + get,
		"proxy TCP4 192.0.2.7 192.0.2.8 1 80\r\n" + get, "PROXY UNKNOWN" + strings.Repeat(" ", 200), "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff",
	} {
		open(t, plain).say(sent).closed("plain, " + sent)
		open(t, secure).say(sent).closed("TLS, " + sent)
	}
	halfway := open(t, plain).say("PROXY TCP4 192")
	halfway.Conn.(*net.TCPConn).CloseWrite()
	halfway.closed("half a header")
}

func TestPeersThatAreNotTrustedMayNotAnnounce(t *testing.T) {
	s, plain, _ := announcing(t, Clients{Trusted: cidrs("10.0.0.0/8")})
	c := open(t, plain)
	io.WriteString(c.Conn, "PROXY TCP4 10.0.0.1 192.0.2.8 1 80\r\n"+get) // the front may be gone already
	c.closed("a peer that is not trusted")
	s.SetClients(&Clients{ProxyProtocol: true, Trusted: cidrs("10.0.0.0/8", "127.0.0.1/32")})
	if got := fieldsOf(open(t, plain).ask("PROXY TCP4 10.0.0.1 192.0.2.8 1 80\r\n" + get))[xRealIP]; got != "10.0.0.1" {
		t.Errorf("a peer that is trusted: the client is %q, want 10.0.0.1", got)
	}
}

func TestHeadersAreWantedOfNewConnectionsOnly(t *testing.T) {
	s := new(Server)
	plain, _ := front(t, s, seen)
	before := open(t, plain)
	before.ask(get)
	s.SetClients(&Clients{ProxyProtocol: true})
	if got := fieldsOf(before.ask(get))[xRealIP]; got != "127.0.0.1" {
		t.Errorf("a connection from before: the client is %q, want 127.0.0.1", got)
	}
	announced := open(t, plain).say("PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n")
	announced.ask(get)
	s.SetClients(nil)
	if got := fieldsOf(open(t, plain).ask(get))[xRealIP]; got != "127.0.0.1" {
		t.Errorf("a connection from after: the client is %q, want 127.0.0.1", got)
	}
	if got := fieldsOf(announced.ask(get))[xRealIP]; got != "192.0.2.7" {
		t.Errorf("an announced connection: the client is %q, want 192.0.2.7 as before", got)
	}
}

// TestSilentConnectionsKeepNobodyWaiting opens connections that send no header, over which others must be served.
func TestSilentConnectionsKeepNobodyWaiting(t *testing.T) {
	_, plain, secure := announcing(t, Clients{ProxyTimeout: time.Hour})
	for range 20 {
		open(t, plain).say("PROXY ")
		open(t, secure).say("PROXY ")
	}
	open(t, plain).say("PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n").ask(get)
	open(t, secure).say("PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n").secure().ask(get)
}

// piped is an announced connection over a pipe, and its other end.
func piped(c Clients) (*announced, net.Conn) {
	client, server := net.Pipe()
	return &announced{Conn: server, server: &Server{Log: slog.New(slog.DiscardHandler)}, patience: c.proxyTimeout()}, client
}

func TestConnectionsHaveFiveSecondsForTheHeader(t *testing.T) {
	for _, trickle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, client := piped(Clients{})
			if trickle { // a sign of life a second does not help
				go func() {
					for _, b := range []byte("PROXY TCP4 192.0.2.7") {
						if _, err := client.Write([]byte{b}); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
			}
			start := time.Now()
			n, err := c.Read(make([]byte, 1))
			if took := time.Since(start); n != 0 || err != io.EOF || took != 5*time.Second {
				t.Errorf("%d bytes, error %v after %v; want the end after 5s", n, err, took)
			}
			if _, err := client.Write([]byte("x")); err != io.ErrClosedPipe {
				t.Errorf("the client may still write: %v", err)
			}
			time.Sleep(time.Second) // the last sign of life has failed
		})
	}
}

// TestTheTimeForTheHeaderEndsWithIt: what comes behind has the deadlines that others set.
func TestTheTimeForTheHeaderEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := piped(Clients{ProxyTimeout: time.Second})
		go func() {
			io.WriteString(client, "PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\nGE")
			time.Sleep(time.Hour)
			io.WriteString(client, "T")
			client.Close()
		}()
		if got, err := io.ReadAll(c); string(got) != "GET" || err != nil {
			t.Errorf("behind the header is %q, %v; want GET", got, err)
		}
	})
}

func TestTunnelsOfAnnouncedConnectionsWork(t *testing.T) {
	s := new(Server)
	s.SetClients(&Clients{ProxyProtocol: true})
	plain, _ := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, buffered)
		if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			t.Error("the connection cannot end one direction")
		}
	}))
	c := open(t, plain).say("PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\nGET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello")
	c.Conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c.reader)
	if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello") {
		t.Errorf("the tunnel says %q, %v; want what went in", got, err)
	}
}

// TestShutdownEndsConnectionsThatSaidNothing: they are no requests, and nobody waits for them.
func TestShutdownEndsConnectionsThatSaidNothing(t *testing.T) {
	s, plain, _ := announcing(t, Clients{ProxyTimeout: time.Hour})
	c := open(t, plain).say("PROXY ")
	open(t, plain).say("PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n").ask(get) // so that c was taken before
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v, want that nothing was cut", err)
	}
	c.closed("a connection without a word")
}

// diary collects what is logged.
type diary struct {
	mu  sync.Mutex
	all []string
}

func (l *diary) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func TestRefusalsAreToldOnceInAWhile(t *testing.T) {
	logged := new(diary)
	s := &Server{Log: slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	s.SetClients(&Clients{ProxyProtocol: true})
	plain, _ := front(t, s, seen)
	open(t, plain).Conn.(*net.TCPConn).CloseWrite() // a health check that only connects
	for range 5 {
		open(t, plain).say(get).closed("no header")
	}
	logged.mu.Lock()
	defer logged.mu.Unlock()
	if len(logged.all) != 1 || !strings.Contains(logged.all[0], "does not begin with a PROXY header") || !strings.Contains(logged.all[0], "use-proxy-protocol") {
		t.Errorf("logged %q, want one line that says why", logged.all)
	}
	if n := s.refusals.untold.Load(); n != 4 {
		t.Errorf("%d refusals are still to be told, want 4", n)
	}
}

// TestWhatIsWrongWithTheTLSOfEndpointsIsTold: once in a while, since any client can have it happen.
func TestWhatIsWrongWithTheTLSOfEndpointsIsTold(t *testing.T) {
	lines := new(diary)
	s := &Server{Log: slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	for _, what := range []string{"", "certificate has expired", "hostname mismatch"} {
		_, e := logged()
		e.Attempts[0].TLS = "of an attempt before another that was better"
		e.Attempts[1].TLS = what
		s.complain(e)
	}
	lines.mu.Lock()
	defer lines.mu.Unlock()
	if len(lines.all) != 1 || !strings.Contains(lines.all[0], `endpoint=10.0.0.2:80 why="certificate has expired"`) {
		t.Errorf("logged %q, want one line that says why", lines.all)
	}
}
