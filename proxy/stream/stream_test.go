package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport/proxy/proxyprotocol"
	"sallyport/proxy/upstream"
)

// patience is how long a test waits for what should happen soon.
const patience = 20 * time.Second

// poolOf is a pool of endpoints.
func poolOf(endpoints ...string) *upstream.Pool {
	pool := new(upstream.Pools).Get(upstream.ID{Namespace: "default", Service: "s", Port: "p"})
	setEndpoints(pool, endpoints...)
	return pool
}

func setEndpoints(pool *upstream.Pool, endpoints ...string) {
	var all []netip.AddrPort
	for _, e := range endpoints {
		all = append(all, netip.MustParseAddrPort(e))
	}
	pool.Set(all)
}

// A house is a Server under test.
type house struct {
	*Server
	t   *testing.T
	log *safeBuffer
}

func newHouse(t *testing.T, services ...Service) *house {
	log := new(safeBuffer)
	h := &house{&Server{Address: netip.MustParseAddr("127.0.0.1"), Log: slog.New(slog.NewTextHandler(log, nil))}, t, log}
	h.Set(services, Trust{})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.Shutdown(ctx)
	})
	return h
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// freePort is a port that nobody has.
func freePort(t *testing.T, network string) Port {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return Port{"udp", c.LocalAddr().(*net.UDPAddr).AddrPort().Port()}
	}
	l := listenTCP(t)
	l.Close()
	return Port{"tcp", addrPort(l.Addr()).Port()}
}

func listenTCP(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// endpoint serves each connection with a function, and closes it afterwards.
func endpoint(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l := listenTCP(t)
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// named says its name, then echoes.
func named(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		io.WriteString(c, name+"\n")
		io.Copy(c, c)
	}
}

// A line is a client's connection.
type line struct {
	*net.TCPConn
	*bufio.Reader
	t *testing.T
}

func (l *line) Read(p []byte) (int, error) { return l.Reader.Read(p) }

func dial(t *testing.T, port Port) *line {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port.Number))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &line{c.(*net.TCPConn), bufio.NewReader(c), t}
}

func (l *line) wants(want string) {
	l.t.Helper()
	got, err := l.ReadString('\n')
	if got != want+"\n" || err != nil {
		l.t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func (l *line) says(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l.TCPConn, text); err != nil {
		l.t.Fatal(err)
	}
}

// wantsReset wants the connection to be broken off before another byte.
func (l *line) wantsReset() {
	l.t.Helper()
	if got, err := io.ReadAll(l); len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		l.t.Fatalf("read %q, then %v; want that the connection is reset", got, err)
	}
}

// wantTurnedAway wants a connection to be broken off before a byte, which may be as soon as it is made.
func wantTurnedAway(t *testing.T, port Port) {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port.Number))
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(c); len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %q, then %v; want that the connection is reset", got, err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	await(ctx, is)
	if !is() {
		t.Fatalf("waited in vain until %s", what)
	}
}

func TestEndsOfBothDirectionsArePassedOn(t *testing.T) {
	addr := endpoint(t, func(c *net.TCPConn) {
		io.WriteString(c, "first\n")
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d\n", len(all))
		c.CloseWrite()
	})
	last := make(chan string, 1)
	other := endpoint(t, func(c *net.TCPConn) {
		io.WriteString(c, "all there is\n")
		c.CloseWrite()
		all, err := io.ReadAll(c)
		last <- fmt.Sprint(string(all), err)
	})
	up, down := freePort(t, "tcp"), freePort(t, "tcp")
	h := newHouse(t, Service{Port: up, Pool: poolOf(addr)}, Service{Port: down, Pool: poolOf(other)})

	c := dial(t, up)
	c.wants("first")
	c.says(string(make([]byte, 1<<20)))
	c.CloseWrite()
	c.wants(fmt.Sprint(1 << 20))

	c = dial(t, down)
	if all, err := io.ReadAll(c); string(all) != "all there is\n" || err != nil {
		t.Fatalf("read %q, %v", all, err)
	}
	c.says("later")
	c.Close()
	if got := <-last; got != "later<nil>" {
		t.Errorf("the endpoint that had said all got %q, want %q", got, "later<nil>")
	}
	eventually(t, "both connections have ended", func() bool { return h.Counts().OpenConnections == 0 })
	if held := h.files.held.Load(); held != 0 {
		t.Errorf("%d descriptors are held by nobody", held)
	}
}

func TestAResetIsPassedOn(t *testing.T) {
	got := make(chan error, 1)
	addr := endpoint(t, func(c *net.TCPConn) {
		word, _ := bufio.NewReader(c).ReadString('\n')
		if word == "reset\n" {
			abort(c)
			return
		}
		io.WriteString(c, "go on\n")
		_, err := io.ReadAll(c)
		got <- err
	})
	port := freePort(t, "tcp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(addr)})
	c := dial(t, port)
	c.says("reset\n")
	c.wantsReset()

	c = dial(t, port)
	c.says("stay\n")
	c.wants("go on")
	abort(c.TCPConn)
	if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client's reset came to the endpoint as %v", err)
	}
	eventually(t, "both connections have ended", func() bool { return h.Counts().OpenConnections == 0 })
}

func TestEndpointsThatRefuseArePassedOver(t *testing.T) {
	dead := fmt.Sprintf("127.0.0.1:%d", freePort(t, "tcp").Number)
	dead2 := fmt.Sprintf("127.0.0.1:%d", freePort(t, "tcp").Number)
	port := freePort(t, "tcp")
	newHouse(t, Service{Port: port, Pool: poolOf(dead, dead2, endpoint(t, named("alive")))})
	for range 20 {
		c := dial(t, port)
		c.wants("alive")
		c.Close()
	}
}

func TestWithoutEndpointsClientsAreTurnedAway(t *testing.T) {
	port, nowhere := freePort(t, "tcp"), freePort(t, "tcp")
	pool := poolOf()
	h := newHouse(t, Service{Port: port, Pool: pool, Name: "default/s:1"}, Service{Port: nowhere})
	wantTurnedAway(t, port)
	wantTurnedAway(t, nowhere)
	eventually(t, "both are counted", func() bool { return h.Counts().Refused == 2 })
	setEndpoints(pool, fmt.Sprintf("127.0.0.1:%d", freePort(t, "tcp").Number)) // refuses
	wantTurnedAway(t, port)
	setEndpoints(pool, endpoint(t, named("here")))
	dial(t, port).wants("here")
}

func TestOnlySilentConnectionsEnd(t *testing.T) {
	beat := time.NewTicker(10 * time.Millisecond)
	defer beat.Stop()
	addr := endpoint(t, func(c *net.TCPConn) {
		word, _ := bufio.NewReader(c).ReadString('\n')
		for word == "talk\n" {
			<-beat.C
			if _, err := io.WriteString(c, "beat\n"); err != nil {
				return
			}
		}
		io.Copy(io.Discard, c)
	})
	port := freePort(t, "tcp")
	newHouse(t, Service{Port: port, Pool: poolOf(addr), Options: upstream.StreamOptions{Idle: 500 * time.Millisecond}})
	busy, silent := dial(t, port), dial(t, port)
	busy.says("talk\n")
	begun := time.Now()
	silent.says("be still\n")
	silent.wantsReset()
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("the silent connection ended after %v", took)
	}
	for time.Since(begun) < 1500*time.Millisecond {
		busy.wants("beat")
	}
}

func TestAStalledReaderEndsItsConnection(t *testing.T) {
	addr := endpoint(t, func(c *net.TCPConn) { io.Copy(c, endless{}) })
	port := freePort(t, "tcp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(addr), Options: upstream.StreamOptions{Idle: 200 * time.Millisecond}})
	dial(t, port)
	eventually(t, "the connection is open", func() bool { return h.Counts().Connections == 1 })
	eventually(t, "the connection has ended, since nobody reads", func() bool { return h.Counts().OpenConnections == 0 })
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestPROXYHeadersAreReadAndSent(t *testing.T) {
	seen := make(chan string, 1)
	addr := endpoint(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		seen <- string(all)
	})
	pool := poolOf(addr)
	expect, send, both := freePort(t, "tcp"), freePort(t, "tcp"), freePort(t, "tcp")
	h := newHouse(t, Service{Port: expect, Pool: pool, Expect: true}, Service{Port: send, Pool: pool, Send: true}, Service{Port: both, Pool: pool, Expect: true, Send: true})

	said := proxyprotocol.Header{Source: netip.MustParseAddrPort("192.0.2.7:1234"), Destination: netip.MustParseAddrPort("198.51.100.1:5432")}
	v1, v2 := string(said.AppendV1(nil)), string(said.AppendV2(nil))
	for _, c := range []struct {
		port       Port
		sent, want string
	}{
		{expect, v1 + "hello", "hello"},
		{expect, v2 + "hello", "hello"},
		{send, v1 + "hello", "PROXY TCP4 127.0.0.1 127.0.0.1 {client} {port}\r\n" + v1 + "hello"},
		{both, v1 + "hello", v1 + "hello"},
		{both, v2 + "hello", v1 + "hello"},
		{both, string(proxyprotocol.Header{}.AppendV2(nil)) + "probe", "PROXY TCP4 127.0.0.1 127.0.0.1 {client} {port}\r\nprobe"},
	} {
		l := dial(t, c.port)
		l.says(c.sent)
		l.CloseWrite()
		want := bytes.ReplaceAll([]byte(c.want), []byte("{client} {port}"), fmt.Appendf(nil, "%d %d", addrPort(l.LocalAddr()).Port(), c.port.Number))
		if got := <-seen; got != string(want) {
			t.Errorf("%q: the endpoint saw %q, want %q", c.sent, got, want)
		}
	}
	l := dial(t, expect)
	l.says("GET / HTTP/1.1\r\n\r\n")
	l.wantsReset()

	services := []Service{{Port: both, Pool: pool, Expect: true}}
	h.Set(services, Trust{Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Patience: patience})
	begun := time.Now()
	wantTurnedAway(t, both)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("a peer that is not trusted was turned away after %v", took)
	}
	h.Set(services, Trust{Peers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Patience: 50 * time.Millisecond})
	wantTurnedAway(t, both) // says nothing in time
	l = dial(t, both)
	l.says(v1 + "hello")
	l.CloseWrite()
	if got := <-seen; got != "hello" {
		t.Errorf("a trusted peer's endpoint saw %q", got)
	}
}

func TestChangesLeaveConnectionsAlone(t *testing.T) {
	one, two := poolOf(endpoint(t, named("one"))), poolOf(endpoint(t, named("two")))
	port, added := freePort(t, "tcp"), freePort(t, "tcp")
	h := newHouse(t, Service{Port: port, Pool: one})
	first := dial(t, port)
	first.wants("one")

	h.Set([]Service{{Port: port, Pool: two}, {Port: added, Pool: one}}, Trust{})
	second, third := dial(t, port), dial(t, added)
	second.wants("two")
	third.wants("one")

	h.Set(nil, Trust{})
	for _, p := range []Port{port, added} {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.Number)); err == nil {
			c.Close()
			t.Errorf("port %s is still open", p)
		}
	}
	for _, c := range []*line{first, second, third} {
		c.says("still here?\n")
		c.wants("still here?")
	}

	h.Set([]Service{{Port: port, Pool: one}}, Trust{})
	dial(t, port).wants("one")
}

func TestAPortThatIsTakenIsOpenedLater(t *testing.T) {
	taken := listenTCP(t)
	port := Port{"tcp", addrPort(taken.Addr()).Port()}
	free := freePort(t, "tcp")
	pool := poolOf(endpoint(t, named("one")))
	h := newHouse(t, Service{Port: port, Pool: pool, Name: "default/one:1"}, Service{Port: free, Pool: pool})
	dial(t, free).wants("one")
	if log := h.log.String(); !bytes.Contains([]byte(log), []byte(`msg="a port cannot be opened; it is tried again until it can" port=`+port.String()+" service=default/one:1")) {
		t.Errorf("the log says\n%s", log)
	}
	taken.Close()
	eventually(t, "the port is open", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port.Number))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	dial(t, port).wants("one")
}

func TestShutdownWaitsForConnectionsAndCutsThem(t *testing.T) {
	port := freePort(t, "tcp")
	h := newHouse(t, Service{Port: port, Pool: poolOf(endpoint(t, named("one")))})
	ends, stays := dial(t, port), dial(t, port)
	ends.wants("one")
	stays.wants("one")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- h.Shutdown(ctx) }()
	eventually(t, "the port is closed", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port.Number))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	stays.says("still here\n")
	stays.wants("still here")
	ends.Close()
	eventually(t, "one connection has ended", func() bool { return h.Counts().OpenConnections == 1 })
	select {
	case err := <-over:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	cancel()
	if err := <-over; err == nil || err.Error() != "cut 1 TCP connections: context canceled" {
		t.Errorf("Shutdown says %v", err)
	}
	stays.wantsReset()
	h.Set([]Service{{Port: port}}, Trust{})
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port.Number)); err == nil {
		t.Error("a port was opened after the end")
	}
}
