package stream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
)

// taken is a client whose connection was accepted by somebody else, who has read "hello " of it, and is handed to p.
func taken(t *testing.T, p *Passage) *line {
	t.Helper()
	l := listenTCP(t)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	accepted, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	p.Take(proxy.Passed{
		Conn: accepted, Host: "pass.test", Early: []byte("hello "),
		From: netip.MustParseAddrPort("192.0.2.7:4711"), To: netip.MustParseAddrPort("198.51.100.1:443"),
	})
	return &line{c.(*net.TCPConn), bufio.NewReader(c), t}
}

var https = Port{"tcp", 443}

func TestAPassageTakesWhatWasReadAndWhatComes(t *testing.T) {
	h := newHouse(t)
	gone := listenTCP(t)
	gone.Close()
	pool := poolOf(gone.Addr().String(), endpoint(t, named("one")))
	for _, test := range []struct {
		send bool
		want string
	}{{false, "hello you"}, {true, "PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r"}} {
		p := h.Passage(Service{Port: https, Name: "default/web:https", Pool: pool, Send: test.send})
		for range 3 { // whichever endpoint's turn it is
			c := taken(t, p)
			c.says("you\n")
			c.wants("one")
			c.wants(test.want)
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}
	}
	eventually(t, "six connections are counted, none of which is open", func() bool {
		c := h.Counts()
		bytes := c.Sent + c.Received
		c.Sent, c.Received = 0, 0
		return c == Counts{Passed: 6} && bytes > 0
	})
}

func TestAPassageToNowhereEndsWithAnAlert(t *testing.T) {
	h := newHouse(t)
	for what, service := range map[string]Service{
		"no Service":  {Port: https, Name: "default/web:https"},
		"no endpoint": {Port: https, Name: "default/web:https", Pool: poolOf()},
	} {
		got, err := io.ReadAll(taken(t, h.Passage(service)))
		if string(got) != string(tlsInternalError) || err != nil {
			t.Errorf("%s: read %x, %v; want the alert internal_error, then the end", what, got, err)
		}
	}
	eventually(t, "two were turned away", func() bool { return h.Counts() == Counts{Passed: 2, Unpassed: 2, Refused: 2} })
	if !strings.Contains(h.log.String(), `service=default/web:https client=192.0.2.7:4711 why="no endpoint can be reached"`) {
		t.Errorf("the log says\n%s", h.log.String())
	}
}

func TestShutdownWaitsForWhatIsPassedOnAndCutsIt(t *testing.T) {
	h := newHouse(t)
	p := h.Passage(Service{Port: https, Name: "default/web:https", Pool: poolOf(endpoint(t, named("one")))})
	ends, stays := taken(t, p), taken(t, p)
	ends.wants("one")
	stays.wants("one")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- h.Shutdown(ctx) }()
	eventually(t, "it has begun", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.ended
	})
	if got, err := io.ReadAll(taken(t, p)); string(got) != string(tlsInternalError) || err != nil {
		t.Errorf("who comes now reads %x, %v; want the alert internal_error, then the end", got, err)
	}
	stays.says("still here\n")
	stays.wants("hello still here")
	ends.says("bye\n")
	ends.wants("hello bye")
	ends.CloseWrite()
	eventually(t, "one has ended", func() bool { return h.Counts().OpenPassed == 1 })
	select {
	case err := <-over:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	cancel()
	if err := <-over; err == nil || !strings.Contains(err.Error(), "cut 1 TCP connections") {
		t.Errorf("Shutdown says %v, want that one connection was cut", err)
	}
	stays.wantsReset()
}
