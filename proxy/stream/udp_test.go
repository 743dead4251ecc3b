package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"sallyport/proxy/upstream"
)

// datagrams answers each datagram by a function's answers, and says where it listens.
func datagrams(t *testing.T, answer func(from netip.AddrPort, datagram string) []string) string {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			for _, one := range answer(from, string(b[:n])) {
				c.WriteToUDPAddrPort([]byte(one), from)
			}
		}
	}()
	return c.LocalAddr().String()
}

// echo answers with a name and what it got.
func echo(name string) func(netip.AddrPort, string) []string {
	return func(_ netip.AddrPort, datagram string) []string { return []string{name + " " + datagram} }
}

// A caller is a client's socket, connected to the server: it takes answers from nowhere else.
type caller struct {
	*net.UDPConn
	t *testing.T
}

func call(t *testing.T, to string) *caller {
	t.Helper()
	c, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &caller{c.(*net.UDPConn), t}
}

func at(p Port) string { return fmt.Sprintf("127.0.0.1:%d", p.Number) }

func (c *caller) says(text string) {
	c.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) hears() string {
	c.t.Helper()
	b := make([]byte, 64<<10)
	n, err := c.Read(b)
	if err != nil {
		c.t.Fatalf("wait for an answer: %v", err)
	}
	return string(b[:n])
}

func (c *caller) asks(text, want string) {
	c.t.Helper()
	c.says(text)
	if got := c.hears(); got != want {
		c.t.Fatalf("%.40q was answered %.40q, want %.40q", text, got, want)
	}
}

func TestDatagramsAreAnswered(t *testing.T) {
	port := freePort(t, "udp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(datagrams(t, echo("a")))})
	one, two := call(t, at(port)), call(t, at(port))
	for i := range 100 {
		one.says(fmt.Sprint("one ", i))
		two.asks(fmt.Sprint("two ", i), fmt.Sprint("a two ", i))
		if got := one.hears(); got != fmt.Sprint("a one ", i) {
			t.Fatalf("the first client heard %q", got)
		}
	}
	one.asks("", "a ")
	long := string(make([]byte, 60000))
	one.asks(long, "a "+long)
	eventually(t, "all flows have had their answers", func() bool { return h.Counts().OpenFlows == 0 })
	if held := h.files.held.Load(); held != 0 {
		t.Errorf("%d descriptors are held by nobody", held)
	}
}

func TestAFlowStaysWithItsEndpointUntilItHasItsAnswers(t *testing.T) {
	three := func(name string) func(netip.AddrPort, string) []string {
		return func(_ netip.AddrPort, datagram string) []string { return []string{name, name, name}[:len(datagram)] }
	}
	port := freePort(t, "udp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(datagrams(t, three("a")), datagrams(t, three("b"))), Options: upstream.StreamOptions{Responses: 2}})
	c := call(t, at(port))
	c.says("x") // one answer of two
	first := c.hears()
	c.asks("xxx", first) // three of the two times two
	c.hears()
	c.hears()
	eventually(t, "the flow has its answers", func() bool { return h.Counts().OpenFlows == 0 })
	c.says("xx")
	if next := c.hears(); next == first {
		t.Errorf("the next flow went to %q again", next)
	}
}

func TestDatagramsThatNobodyAnswersKeepNothing(t *testing.T) {
	got := make(chan string, 10)
	addr := datagrams(t, func(_ netip.AddrPort, datagram string) []string { got <- datagram; return nil })
	oneWay, silent := freePort(t, "udp"), freePort(t, "udp")
	h := newHouse(t, Service{Port: oneWay, Pool: poolOf(addr), Options: upstream.StreamOptions{Responses: -1}},
		Service{Port: silent, Pool: poolOf(addr), Options: upstream.StreamOptions{Idle: 100 * time.Millisecond}})
	c := call(t, at(oneWay))
	for i := range 5 {
		c.says(fmt.Sprint(i))
		if word := <-got; word != fmt.Sprint(i) {
			t.Errorf("the endpoint got %q", word)
		}
	}
	eventually(t, "nothing is kept of who wants no answer", func() bool { return h.Counts().OpenFlows == 0 })
	if c := h.Counts(); c.Flows != 5 {
		t.Errorf("there were %d flows, want 5", c.Flows)
	}
	begun := time.Now()
	call(t, at(silent)).says("hello?")
	<-got
	eventually(t, "the flow has ended", func() bool { return h.Counts().OpenFlows == 0 })
	if took := time.Since(begun); took < 100*time.Millisecond {
		t.Errorf("the flow ended after %v", took)
	}
}

// TestADatagramThatIsRefusedGoesElsewhere: a client that asks once is answered although the endpoint that it was sent to is
// not there.
func TestADatagramThatIsRefusedGoesElsewhere(t *testing.T) {
	var dead []string
	for range 3 {
		dead = append(dead, at(freePort(t, "udp")))
	}
	port, only, once := freePort(t, "udp"), freePort(t, "udp"), freePort(t, "udp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(append(dead, datagrams(t, echo("alive")))...)},
		Service{Port: only, Pool: poolOf(dead[0])},
		Service{Port: once, Pool: poolOf(dead[0], dead[1]), Options: upstream.StreamOptions{NoRetry: true}})
	for i := range 20 {
		call(t, at(port)).asks(fmt.Sprint(i), fmt.Sprint("alive ", i))
	}
	call(t, at(only)).says("nobody")
	call(t, at(once)).says("nobody")
	eventually(t, "the flows to nobody have ended", func() bool { return h.Counts().OpenFlows == 0 && h.Counts().Refused == 2 })
}

func TestWithoutEndpointsDatagramsAreDropped(t *testing.T) {
	port := freePort(t, "udp")
	pool := poolOf()
	h := newHouse(t, Service{Port: port, Pool: pool})
	c := call(t, at(port))
	c.says("anybody?")
	eventually(t, "the datagram is counted", func() bool { return h.Counts().Refused == 1 })
	setEndpoints(pool, datagrams(t, echo("here")))
	c.asks("anybody?", "here anybody?")
}

func TestTheFlowThatWasSilentLongestMakesRoom(t *testing.T) {
	got := make(chan netip.AddrPort, 10)
	addr := datagrams(t, func(from netip.AddrPort, datagram string) []string {
		got <- from
		if datagram == "again" {
			return []string{"yes", "yes"}
		}
		return nil
	})
	port := freePort(t, "udp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(addr)})
	l := h.listeners[port].(*udpListener)
	l.mu.Lock()
	l.most = 2
	l.mu.Unlock()
	old, busy, late := call(t, at(port)), call(t, at(port)), call(t, at(port))
	var from [2]netip.AddrPort
	busy.says("a")
	from[0] = <-got
	old.says("b")
	from[1] = <-got
	busy.says("c")
	if again := <-got; again != from[0] {
		t.Fatalf("the flow moved from %v to %v", from[0], again)
	}
	late.says("d")
	<-got
	if c := h.Counts(); c.OpenFlows != 2 || c.Flows != 3 {
		t.Fatalf("%d of %d flows are open, want 2 of 3", c.OpenFlows, c.Flows)
	}
	old.says("again")
	if again := <-got; again == from[1] {
		t.Errorf("the flow of who was silent longest was kept")
	}
	if got := old.hears(); got != "yes" {
		t.Errorf("heard %q", got)
	}
}

// TestAnswersComeFromTheAddressThatWasAsked: the callers take answers from nowhere else.
func TestAnswersComeFromTheAddressThatWasAsked(t *testing.T) {
	addr := datagrams(t, echo("a"))
	for _, bind := range []string{"", "0.0.0.0"} {
		port := freePort(t, "udp")
		h := newHouse(t)
		h.Address, _ = netip.ParseAddr(bind)
		h.Set([]Service{{Port: port, Pool: poolOf(addr)}}, Trust{})
		hosts := []string{"127.0.0.1", "127.0.0.2"}
		if bind == "" && hasIPv6() {
			hosts = append(hosts, "::1")
		}
		for _, host := range hosts {
			call(t, net.JoinHostPort(host, fmt.Sprint(port.Number))).asks("x", "a x")
		}
	}
}

func hasIPv6() bool {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestChangesOfDatagramPorts(t *testing.T) {
	port := freePort(t, "udp")
	asked := make(chan string, 10)
	release := make(chan struct{})
	slow := poolOf(datagrams(t, func(_ netip.AddrPort, datagram string) []string {
		asked <- datagram
		<-release
		return []string{"slow " + datagram}
	}))
	quick := poolOf(datagrams(t, echo("quick")))
	h := newHouse(t, Service{Port: port, Pool: slow})
	early := call(t, at(port))
	early.says("x")
	<-asked
	h.Set([]Service{{Port: port, Pool: quick}}, Trust{})
	call(t, at(port)).asks("y", "quick y")
	close(release)
	if got := early.hears(); got != "slow x" {
		t.Errorf("the flow from before the change heard %q", got)
	}

	h.Set(nil, Trust{})
	late := call(t, at(port))
	late.says("z")
	if n, err := late.Read(make([]byte, 10)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v; want that the port is closed", n, err)
	}
	h.Set([]Service{{Port: port, Pool: quick}}, Trust{})
	call(t, at(port)).asks("y", "quick y")
}

func TestShutdownWaitsForAnswers(t *testing.T) {
	asked, release := make(chan string, 10), make(chan struct{})
	addr := datagrams(t, func(_ netip.AddrPort, datagram string) []string {
		asked <- datagram
		<-release
		return []string{"at last"}
	})
	port := freePort(t, "udp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(addr)})
	c := call(t, at(port))
	c.says("x")
	<-asked
	over := make(chan error, 1)
	go func() { over <- h.Shutdown(context.Background()) }()
	eventually(t, "nobody is let in any more", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.ended
	})
	close(release)
	if got := c.hears(); got != "at last" {
		t.Errorf("heard %q", got)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}
