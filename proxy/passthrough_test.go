package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy/proxyprotocol"
)

// A passedOn is a Passage whose endpoint ends TLS itself and says, on each line, what the front knew of the connection.
type passedOn struct {
	t    testing.TB
	name string
	pair *tls.Certificate
}

func (p *passedOn) Take(c Passed) {
	go func() {
		defer c.Ended()
		defer c.Conn.Close()
		over := tls.Server(&begun{Conn: c.Conn, early: c.Early}, &tls.Config{Certificates: []tls.Certificate{*p.pair}})
		over.SetDeadline(time.Now().Add(10 * time.Second))
		if over.Handshake() != nil {
			return
		}
		fmt.Fprintf(over, "%s %s from %s to %s: %s\n", p.name, c.Host, c.From.Addr(), c.To, over.ConnectionState().ServerName)
		io.Copy(over, over)
	}()
}

// passing is a front that passes the connections of some hosts on.
func passing(t testing.TB, s *Server, hosts map[string]string) (plain, secure string) {
	pair := newPair(t)
	p := &Passthrough{ByHost: make(map[string]Passage)}
	for host, name := range hosts {
		p.ByHost[host] = nil
		if name != "" {
			p.ByHost[host] = &passedOn{t, name, pair}
		}
	}
	s.SetPassthrough(p)
	return front(t, s, seen)
}

// line is the first line of what comes to a client that asks for a name, over TLS.
func line(t testing.TB, c net.Conn, name string, more ...func(*tls.Config)) string {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, ServerName: name}
	for _, m := range more {
		m(config)
	}
	over := tls.Client(c, config)
	if _, err := io.WriteString(over, get); err != nil {
		return err.Error()
	}
	first, err := bufio.NewReader(over).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(first)
}

func TestTheConnectionsOfAHostArePassedOn(t *testing.T) {
	_, secure := passing(t, new(Server), map[string]string{
		"pass.test": "one", "*.apps.test": "wild", "own.apps.test": "", "xn--bcher-kva.test": "idn",
	})
	const served = "HTTP/1.1 200 OK"
	for _, test := range []struct{ name, want string }{
		{"pass.test", "one pass.test from 127.0.0.1 to " + secure + ": pass.test"},
		{"PASS.Test", "one pass.test from 127.0.0.1 to " + secure + ": PASS.Test"},
		{"a.apps.test", "wild a.apps.test from 127.0.0.1 to " + secure + ": a.apps.test"},
		{"XN--Bcher-kva.test", "idn xn--bcher-kva.test from 127.0.0.1 to " + secure + ": XN--Bcher-kva.test"},
		{"own.apps.test", served}, // the TLS of this one ends here
		{"a.b.apps.test", served}, // a wildcard is for one label
		{"apps.test", served},
		{"pass.test.evil", served},
		{"a.test", served},
		{"192.0.2.7", served}, // which clients send no name for
	} {
		if got := line(t, open(t, secure).Conn, test.name); got != test.want {
			t.Errorf("%s: the first line is %q, want %q", test.name, got, test.want)
		}
	}
}

func TestHTTP2IsServedBesideWhatIsPassedOn(t *testing.T) {
	_, secure := passing(t, new(Server), map[string]string{"pass.test": "one"})
	c := tls.Client(open(t, secure).Conn, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"h2"}})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("the protocol is %q, want h2", got)
	}
}

// TestConnectionsThatArePassedOnAreCounted has one client hold such a connection, with room for one.
func TestConnectionsThatArePassedOnAreCounted(t *testing.T) {
	for _, s := range []*Server{{MaxConnections: 1}, {MaxConnectionsPerAddress: 1}} {
		_, secure := passing(t, s, map[string]string{"pass.test": "one"})
		held := tls.Client(open(t, secure).Conn, &tls.Config{InsecureSkipVerify: true, ServerName: "pass.test"})
		if err := held.Handshake(); err != nil {
			t.Fatal(err)
		}
		if n := s.Connections().Open; n != 1 {
			t.Errorf("%d connections are open, want the one that is passed on", n)
		}
		for _, name := range []string{"pass.test", "a.test"} {
			c, err := net.Dial("tcp", secure)
			if err != nil {
				continue // it was reset as soon as it was there
			}
			defer c.Close()
			if got := line(t, c, name); strings.HasPrefix(got, "one ") || strings.HasPrefix(got, "HTTP/") {
				t.Errorf("with one connection too many, %s says %q", name, got)
			}
		}
		held.Close()
		for began := time.Now(); s.Connections().Open > 0; runtime.Gosched() {
			if time.Since(began) > 10*time.Second {
				t.Fatal("a connection that has ended is counted still")
			}
		}
		if got := line(t, open(t, secure).Conn, "pass.test"); !strings.HasPrefix(got, "one ") {
			t.Errorf("after the one has ended, pass.test says %q", got)
		}
	}
}

// trickle writes a byte at a time, each in a segment of its own.
type trickle struct{ net.Conn }

func (c trickle) Write(b []byte) (int, error) {
	for i := range b {
		if n, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i + n, err
		}
	}
	return len(b), nil
}

// shredded cuts the first record into records of a few bytes.
type shredded struct {
	net.Conn
	done *bool
}

func (c shredded) Write(b []byte) (int, error) {
	if *c.done {
		return c.Conn.Write(b)
	}
	*c.done = true
	var all bytes.Buffer
	for rest := b[5 : 5+int(binary.BigEndian.Uint16(b[3:]))]; len(rest) > 0; {
		part := rest[:min(7, len(rest))]
		rest = rest[len(part):]
		all.Write([]byte{22, 3, 1, 0, byte(len(part))})
		all.Write(part)
	}
	_, err := c.Conn.Write(all.Bytes())
	return len(b), err
}

func TestAHelloIsHandedOnUnharmedHoweverItCame(t *testing.T) {
	_, secure := passing(t, new(Server), map[string]string{"pass.test": "one"})
	for _, test := range []struct{ name, want string }{
		{"pass.test", "one pass.test from 127.0.0.1 to " + secure + ": pass.test"},
		{"a.test", "HTTP/1.1 200 OK"},
	} {
		if got := line(t, trickle{open(t, secure).Conn}, test.name); got != test.want {
			t.Errorf("%s, a byte at a time: the first line is %q, want %q", test.name, got, test.want)
		}
		if got := line(t, shredded{open(t, secure).Conn, new(bool)}, test.name); got != test.want {
			t.Errorf("%s, in records of 7 bytes: the first line is %q, want %q", test.name, got, test.want)
		}
	}
}

func TestWhatIsNoTLSIsToldSoBesideWhatIsPassedOn(t *testing.T) {
	_, alone := front(t, new(Server), seen)
	_, secure := passing(t, new(Server), map[string]string{"pass.test": "one"})
	for _, at := range []string{alone, secure} {
		for _, request := range []string{get, "POST / HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n"} {
			c := open(t, at).say(request[:5]) // whatever came behind it unread would reset the connection
			if answer, err := c.reader.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
				t.Errorf("%q in the clear is answered %q, %v; want 400", request, answer, err)
			}
		}
	}
	for what, text := range map[string]string{
		"a hello that is too long": "\x16\x03\x01\x00\x04\x01\x00\x80\x00",
		"an alert before it":       "\x15\x03\x01\x00\x02\x01\x70",
	} {
		open(t, secure).say(text).closed(what)
	}
}

func TestAHostThatIsPassedOnIsNotServedOverTLSEndedHere(t *testing.T) {
	plain, secure := passing(t, new(Server), map[string]string{"pass.test": "one"})
	const request = "GET / HTTP/1.1\r\nHost: Pass.Test.:443\r\n\r\n"
	over := open(t, secure).secure()
	over.say(request)
	if answer, err := over.reader.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 421 ") {
		t.Errorf("over the TLS of another host the answer is %q, %v; want 421", answer, err)
	}
	c := open(t, plain).say(request)
	if answer, err := c.reader.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("in the clear the answer is %q, %v; want 200", answer, err)
	}
}

func TestTheClientOfAPROXYHeaderIsPassedOn(t *testing.T) {
	s := new(Server)
	s.SetClients(&Clients{ProxyProtocol: true})
	_, secure := passing(t, s, map[string]string{"pass.test": "one"})
	header := proxyprotocol.Header{Source: netip.MustParseAddrPort("192.0.2.7:4711"), Destination: netip.MustParseAddrPort("198.51.100.1:443")}
	for _, head := range []string{string(header.AppendV1(nil)), string(header.AppendV2(nil))} {
		c := open(t, secure)
		together := &joinedWrite{Conn: c.Conn, before: head}
		if got, want := line(t, together, "pass.test"), "one pass.test from 192.0.2.7 to 198.51.100.1:443: pass.test"; got != want {
			t.Errorf("behind %q the first line is %q, want %q", head, got, want)
		}
		if got := line(t, &joinedWrite{Conn: open(t, secure).Conn, before: head}, "a.test"); got != "HTTP/1.1 200 OK" {
			t.Errorf("behind %q another host's first line is %q", head, got)
		}
	}
}

// joinedWrite sends something in one segment with the first that is written.
type joinedWrite struct {
	net.Conn
	before string
}

func (c *joinedWrite) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(append([]byte(c.before), b...))
	n -= len(c.before)
	c.before = ""
	return n, err
}

// TestAHelloThatNeverEndsIsClosedInTime has the front's clock in its hand.
func TestAHelloThatNeverEndsIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Server)
		s.SetPassthrough(&Passthrough{ByHost: map[string]Passage{"pass.test": &passedOn{}}})
		client, server := net.Pipe()
		sec := s.newSecure(newDoor(s, "https", 443), server.LocalAddr())
		s.life.open.Add(1)
		begun := time.Now()
		go sec.shake(server)
		client.Write([]byte("\x16\x03\x01\x02\x00\x01"))
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the front says something, or %v; want the end of the connection", err)
		}
		if took := time.Since(begun); took != headTimeout {
			t.Errorf("it ends after %v, want %v", took, headTimeout)
		}
	})
}

func TestNothingIsReadBeforeTLSWhereNoHostAsks(t *testing.T) {
	s := new(Server)
	s.SetPassthrough(&Passthrough{ByHost: map[string]Passage{}})
	if s.passthrough.Load() != nil {
		t.Error("a Passthrough without hosts is kept, want none: every connection would be looked into")
	}
	p := &Passthrough{ByHost: map[string]Passage{"pass.test": &passedOn{}, "*.apps.test": &passedOn{}}}
	if n := testing.AllocsPerRun(1000, func() { p.passage("a.apps.test"); p.passage("pass.test"); p.passage("a.test") }); n > 1 {
		t.Errorf("looking hosts up allocates %v times, want once at most, for the wildcard", n)
	}
}
