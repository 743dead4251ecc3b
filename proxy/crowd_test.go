package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// openFrom is open from an address of this machine.
func openFrom(t testing.TB, from, addr string) *spoken {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return &spoken{t, c, bufio.NewReader(c)}
}

// refused fails unless the front closes a new connection, on which say is said, without a word: sometimes before its client
// knows that it is open.
func refused(t testing.TB, addr, say, what string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, say)
	(&spoken{t, c, nil}).closed(what)
}

// settles waits until clients have n connections.
func settles(t testing.TB, s *Server, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.Connections().Open != n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open, want %d", s.Connections().Open, n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestConnectionsBeyondTheLimitAreReset(t *testing.T) {
	s := &Server{MaxConnections: 2}
	plain, secure := front(t, s, ok)
	kept := open(t, plain)
	kept.ask(get)
	silent := open(t, secure) // no handshake yet
	settles(t, s, 2)
	for _, addr := range []string{plain, secure} {
		refused(t, addr, "", "the third connection")
	}
	kept.ask(get) // the others are left alone
	silent.secure().ask(get)
	if c := s.Connections(); c.Refused != 2 || c.RefusedPerAddress != 0 {
		t.Errorf("counted %+v, want 2 refused", c)
	}
	kept.Close()
	settles(t, s, 1)
	open(t, secure).secure().ask(get)
}

func TestOneAddressCannotTakeAllConnections(t *testing.T) {
	s := &Server{MaxConnectionsPerAddress: 2}
	plain, secure := front(t, s, ok)
	kept := open(t, plain)
	kept.ask(get)
	silent := open(t, secure)
	settles(t, s, 2)
	refused(t, plain, "", "the third connection")
	refused(t, secure, "", "the third connection, over TLS")
	openFrom(t, "127.0.0.2", plain).ask(get)
	if c := s.Connections(); c.RefusedPerAddress != 2 || c.Refused != 0 {
		t.Errorf("counted %+v, want 2 refused for their address", c)
	}
	silent.Close()
	settles(t, s, 2)
	open(t, plain).ask(get)
}

func TestAnnouncedClientsAreCountedByTheirOwnAddresses(t *testing.T) {
	s := &Server{MaxConnectionsPerAddress: 1}
	s.SetClients(&Clients{ProxyProtocol: true})
	plain, secure := front(t, s, ok)
	const first, second = "PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n", "PROXY TCP4 192.0.2.9 192.0.2.8 1 80\r\n"
	kept := open(t, plain).say(first)
	kept.ask(get)
	for _, addr := range []string{plain, secure} {
		refused(t, addr, first, "the second connection of a client")
	}
	open(t, plain).say(second).ask(get)
	kept.Close()
	settles(t, s, 1)
	open(t, secure).say(first).secure().ask(get)
}

func TestNetworksOfIPv6AreOneClient(t *testing.T) {
	client := func(s string) string { return clientOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s))).String() }
	for addr, want := range map[string]string{
		"[2001:db8:0:1::7]:1": "2001:db8:0:1::/64", "[2001:db8:0:1:8::]:2": "2001:db8:0:1::/64", "[fe80::1%eth0]:3": "fe80::/64",
		"192.0.2.7:4": "192.0.2.7/32", "[::ffff:192.0.2.7]:5": "192.0.2.7/32",
	} {
		if got := client(addr); got != want {
			t.Errorf("%s is counted for %s, want %s", addr, got, want)
		}
	}
}

// TestEveryEndOfAConnectionIsCounted: however a connection ends, it is not counted any more, for its client neither.
func TestEveryEndOfAConnectionIsCounted(t *testing.T) {
	s := &Server{MaxConnectionsPerAddress: 100}
	plain, secure := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tunnel" {
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		io.Copy(io.Discard, c)
	}))
	tunnel := "GET /tunnel HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
	for name, connect := range map[string]func() io.Closer{
		"silent":           func() io.Closer { return open(t, plain) },
		"kept":             func() io.Closer { c := open(t, plain); c.ask(get); return c },
		"refused":          func() io.Closer { return open(t, plain).say("nonsense") },
		"no handshake":     func() io.Closer { return open(t, secure) },
		"failed handshake": func() io.Closer { return open(t, secure).say("GET / HTTP/1.1\r\n\r\n") },
		"kept over TLS":    func() io.Closer { c := open(t, secure).secure(); c.ask(get); return c },
		"a tunnel":         func() io.Closer { c := open(t, plain); c.ask(tunnel); return c },
		"a tunnel in TLS":  func() io.Closer { c := open(t, secure).secure(); c.ask(tunnel); return c },
		"HTTP/2": func() io.Closer {
			c := tls.Client(open(t, secure), &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"h2"}})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			return c
		},
	} {
		c := connect()
		if name != "refused" && name != "failed handshake" {
			settles(t, s, 1)
		}
		c.Close()
		settles(t, s, 0)
		s.crowd.mu.Lock()
		if n := len(s.crowd.from); n != 0 {
			t.Errorf("%s: %d clients have connections, want none", name, n)
		}
		s.crowd.mu.Unlock()
	}
}

func TestAsManyConnectionsAsAskedForAreServed(t *testing.T) {
	for _, n := range []int{1, 7} {
		s := &Server{MaxConnections: n, MaxConnectionsPerAddress: n}
		plain, _ := front(t, s, ok)
		for i := range n {
			if got := open(t, plain).ask("GET /" + strconv.Itoa(i) + " HTTP/1.1\r\nHost: a.test\r\n\r\n"); got != "/"+strconv.Itoa(i) {
				t.Errorf("connection %d of %d got %q", i+1, n, got)
			}
		}
		refused(t, plain, "", "one more")
	}
}
