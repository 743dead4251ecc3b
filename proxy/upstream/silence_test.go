package upstream

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sallyport/proxy"
)

// A mortal is an endpoint that can die without a FIN: what it has stays open and is never answered, and connections to it
// hang as at a host that drops packets.
type mortal struct {
	addr netip.AddrPort
	l    net.Listener
	seen atomic.Int64

	mu    sync.Mutex
	alive chan struct{} // guarded by mu; closed while it lives
	fill  []net.Conn    // guarded by mu; what keeps its queue full
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 16); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{l: l, alive: make(chan struct{})}
	close(m.alive)
	m.addr = endpointOn(t, m, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			m.seen.Add(1)
			io.Copy(io.Discard, r.Body)
			m.living(s.done)
			s.send(ok2)
		}
	})
	t.Cleanup(m.revive)
	return m
}

// living waits while it is dead.
func (m *mortal) living(done <-chan struct{}) {
	m.mu.Lock()
	alive := m.alive
	m.mu.Unlock()
	select {
	case <-alive:
	case <-done:
	}
}

// Accept, Close and Addr are those of a listener whose accepting stops at death.
func (m *mortal) Accept() (net.Conn, error) {
	c, err := m.l.Accept()
	if err == nil {
		m.living(nil)
	}
	return c, err
}
func (m *mortal) Close() error   { return m.l.Close() }
func (m *mortal) Addr() net.Addr { return m.l.Addr() }

func (m *mortal) die(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	m.alive = make(chan struct{})
	m.mu.Unlock()
	for range 100 {
		c, err := net.DialTimeout("tcp", m.addr.String(), 100*time.Millisecond)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.fill = append(m.fill, c)
		m.mu.Unlock()
	}
	t.Fatal("its queue takes more than 100 connections")
}

func (m *mortal) revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.fill {
		c.Close()
	}
	m.fill = nil
	select {
	case <-m.alive:
	default:
		close(m.alive)
	}
}

// A crowd asks without a pause until it is told to stop.
type crowd struct {
	stop    chan struct{}
	running sync.WaitGroup
	served  atomic.Int64
	failed  atomic.Int64
	slowest atomic.Int64
}

func (c *crowd) ask(f *frontdoor, people int) {
	c.stop = make(chan struct{})
	transport := f.client.Transport.(*http.Transport)
	transport.MaxIdleConnsPerHost = people
	for range people {
		c.running.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				begun := time.Now()
				res, err := f.client.Get(f.URL)
				if err != nil || res.StatusCode != 200 {
					c.failed.Add(1)
				}
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				c.served.Add(1)
				if took := int64(time.Since(begun)); took > c.slowest.Load() {
					c.slowest.Store(took)
				}
			}
		})
	}
}

// until waits for something that comes without being told of.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(what + ": not after 20 s")
		}
	}
}

// TestEndpointThatDiesWithoutAFINUnderLoad has a crowd with the timeouts that are usual, a minute to answer: nobody sees an
// error, nobody waits for long, and a second after the death no request goes there but the one that finds out.
func TestEndpointThatDiesWithoutAFINUnderLoad(t *testing.T) {
	dead := newMortal(t)
	p := poolOf(t, dead.addr, endpoint(t, answers(ok2)), endpoint(t, answers(ok2)))
	last := New(p, Options{})
	var died atomic.Int64
	var late atomic.Int64 // requests that came more than a second after the death, and went there
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		last.ServeHTTP(w, r)
		at := died.Load()
		for _, a := range proxy.From(r).Attempts {
			if at != 0 && begun.UnixNano() > at+int64(time.Second) && a.Endpoint == dead.addr {
				late.Add(1)
			}
		}
	}))
	var c crowd
	c.ask(f, 24)
	until(t, "served by all three", func() bool { return dead.seen.Load() > 100 })
	died.Store(time.Now().UnixNano())
	dead.die(t)
	until(t, "three seconds without it", func() bool { return time.Now().UnixNano() > died.Load()+int64(3*time.Second) })
	tried := late.Load()
	died.Store(0)
	dead.revive()
	before := dead.seen.Load()
	returned := time.Now()
	until(t, "asked again", func() bool { return dead.seen.Load() > before+100 })
	back := time.Since(returned)
	close(c.stop)
	c.running.Wait()
	t.Logf("%d requests, %d failed, the slowest took %v; %d went there later than a second after the death; back after %v",
		c.served.Load(), c.failed.Load(), time.Duration(c.slowest.Load()), tried, back)
	if c.failed.Load() != 0 {
		t.Errorf("%d of %d requests failed, want none", c.failed.Load(), c.served.Load())
	}
	if tried > 3 {
		t.Errorf("%d requests went there later than a second after the death, want no more than find out whether it is back", tried)
	}
	if slowest := time.Duration(c.slowest.Load()); slowest > 5*time.Second {
		t.Errorf("the slowest request took %v, want none to wait for a timeout", slowest)
	}
}

// TestRequestsStayAtASilentEndpointWhereSomebodyIsHome: what is slow may be expensive, and is not asked for twice. New
// requests go elsewhere until there is an answer.
func TestRequestsStayAtASilentEndpointWhereSomebodyIsHome(t *testing.T) {
	asked, answer := make(chan bool, 100), make(chan bool)
	slow := endpoint(t, func(s *session) {
		for s.request() != nil {
			asked <- true
			select {
			case <-answer:
				s.send(ok2)
			case <-s.done:
				return
			}
		}
	})
	p := poolOf(t, slow, endpoint(t, answers(ok2)))
	e := p.members()[0]
	f := front(t, 1, New(p, Options{}))
	var c crowd
	c.ask(f, silentRequests+2)
	for range silentRequests {
		<-asked
	}
	until(t, "left out", e.isEjected)
	var others crowd
	others.ask(front(t, 1, New(p, Options{})), 1) // who would be stuck there after one request or two
	until(t, "others are served", func() bool { return others.served.Load() > 20 })
	close(answer)
	until(t, "taken back", func() bool { return !e.isEjected() })
	close(c.stop)
	close(others.stop)
	c.running.Wait()
	others.running.Wait()
	if c.failed.Load()+others.failed.Load() != 0 {
		t.Errorf("%d requests failed", c.failed.Load()+others.failed.Load())
	}
	for range min(len(f.exchanges), 100) {
		if x := <-f.exchanges; len(x.Attempts) > 1 && x.Attempts[0].Endpoint == slow {
			t.Errorf("a request was moved away: %+v", x.Attempts)
		}
	}
}

// TestTheOneRequestAtADeadEndpointIsMoved has all others fail to connect, so that the endpoint never owes enough to be silent.
func TestTheOneRequestAtADeadEndpointIsMoved(t *testing.T) {
	dead := newMortal(t)
	p := poolOf(t, dead.addr, endpoint(t, answers(ok2)))
	f := front(t, 1, New(p, Options{ReadTimeout: -1}))
	for range 4 {
		f.get(t, "/")
		f.exchange(t)
	}
	dead.die(t)
	var first sync.WaitGroup
	first.Go(func() {
		for range 2 { // one of them over the connection that was kept
			if res := f.get(t, "/first"); res.StatusCode != 200 {
				t.Errorf("status %d, want 200", res.StatusCode)
			}
		}
	})
	s := &p.members()[slices.IndexFunc(p.members(), func(e *Endpoint) bool { return e.addr == dead.addr })].silence
	until(t, "a request waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting) == 1
	})
	unconnected := func() bool {
		e := f.exchange(t)
		return e.Attempts[0].Reason == proxy.ConnectTimeout
	}
	until(t, "another one cannot connect", func() bool {
		f.get(t, "/")
		return unconnected()
	})
	first.Wait()
}

// TestPOSTIsNotMovedAwayFromADeadEndpoint: it may have been acted on.
func TestPOSTIsNotMovedAwayFromADeadEndpoint(t *testing.T) {
	dead := newMortal(t)
	var others atomic.Int64
	p := poolOf(t, dead.addr, counting(t, &others, func(s *session, _ string) { s.send(ok2) }))
	options := Options{ReadTimeout: 3 * time.Second}
	f := front(t, 1, New(p, options))
	for range 4 {
		f.get(t, "/")
	}
	dead.die(t)
	var all sync.WaitGroup
	var moved, failed atomic.Int64
	for range 2 * silentRequests {
		all.Go(func() {
			r, _ := http.NewRequest("POST", f.URL, nil)
			res, err := f.client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	before := others.Load()
	for range len(f.exchanges) {
		x := <-f.exchanges
		if len(x.Attempts) > 1 && x.Attempts[0].Reason != proxy.ConnectTimeout {
			moved.Add(1)
		}
	}
	if moved.Load() != 0 {
		t.Errorf("%d POSTs were sent on after they had been sent to the dead endpoint; %d failed, others had %d", moved.Load(), failed.Load(), before)
	}
}

// TestConnectionIsNotAwaitedForLongerThanThatOfOthers: one is given up after half a second where connections are fast.
func TestConnectionIsNotAwaitedForLongerThanThatOfOthers(t *testing.T) {
	p := poolOf(t, endpoint(t, answers(ok2)), full(t))
	options := Options{Connection: "close"}
	f := front(t, 1, New(p, options))
	f.get(t, "/")
	f.exchange(t)
	begun := time.Now()
	got, e := f.get(t, "/"), f.exchange(t)
	if took := time.Since(begun); got.StatusCode != 200 || len(e.Attempts) != 2 || e.Attempts[0].Reason != proxy.ConnectTimeout || took > 3*time.Second {
		t.Errorf("status %d after %d attempts in %v, want 200 after two in half a second", got.StatusCode, len(e.Attempts), took)
	}
}
