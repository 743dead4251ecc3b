package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/proxy"
)

// held is an endpoint that answers when it is told to.
func held(t *testing.T, asked chan<- string, answer <-chan bool) netip.AddrPort {
	return endpoint(t, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			asked <- r.URL.Path
			select {
			case <-answer:
				s.send(ok2)
			case <-s.done:
				return
			}
		}
	})
}

// asks sends a GET and returns where its answer comes.
func asks(t *testing.T, f *frontdoor, path string) <-chan answerOrError {
	done := make(chan answerOrError, 1)
	go func() {
		res, err := f.client.Get(f.URL + path)
		if err != nil {
			done <- answerOrError{0, err}
			return
		}
		res.Body.Close()
		done <- answerOrError{res.StatusCode, nil}
	}()
	return done
}

func limitTo(p *Pool, connections, pending int, timeout time.Duration) {
	p.Configure(ServiceOptions{EndpointConnections: connections, Pending: pending, PendingTimeout: timeout})
}

func (q *queue) waits(n int64) func() bool { return func() bool { return q.length.Load() == n } }

func TestAnEndpointHasNoMoreInFlightThanItMay(t *testing.T) {
	asked, answer := make(chan string, 100), make(chan bool)
	p := poolOf(t, held(t, asked, answer), held(t, asked, answer))
	limitTo(p, 2, 100, time.Minute)
	f := front(t, 1, New(p, Options{}))
	var done []<-chan answerOrError
	for range 20 {
		done = append(done, asks(t, f, "/"))
	}
	until(t, "16 wait", p.care.queue.waits(16))
	for _, e := range p.members() {
		if n := e.InFlight(); n != 2 {
			t.Errorf("%d in flight, want 2", n)
		}
	}
	for range 20 {
		answer <- true
	}
	for _, d := range done {
		if got := <-d; got.status != 200 {
			t.Errorf("%v, want 200", got)
		}
	}
	for _, e := range p.members() {
		if n := e.InFlight(); n != 0 || p.care.queue.busy() {
			t.Errorf("%d in flight when all is over", n)
		}
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	asked, answer := make(chan string, 100), make(chan bool)
	p := poolOf(t, held(t, asked, answer))
	limitTo(p, 1, 100, time.Minute)
	f := front(t, 1, New(p, Options{}))
	var done []<-chan answerOrError
	for i := range 10 {
		done = append(done, asks(t, f, fmt.Sprint("/", i)))
		if i == 0 {
			<-asked
			continue
		}
		until(t, "it waits", p.care.queue.waits(int64(i)))
	}
	for i := range 10 {
		if i > 0 {
			if got, want := <-asked, fmt.Sprint("/", i); got != want {
				t.Errorf("%s is served, want %s", got, want)
			}
		}
		answer <- true
		<-done[i]
	}
}

func TestALineThatIsFullIsA503(t *testing.T) {
	for _, pending := range []int{0, 2} {
		asked, answer := make(chan string, 100), make(chan bool)
		p := poolOf(t, held(t, asked, answer))
		limitTo(p, 1, pending, time.Minute)
		f := front(t, 1, New(p, Options{}))
		done := []<-chan answerOrError{asks(t, f, "/")}
		<-asked
		for range pending {
			done = append(done, asks(t, f, "/"))
		}
		until(t, "the line is full", p.care.queue.waits(int64(pending)))
		got, e := f.get(t, "/"), f.exchange(t)
		if got.StatusCode != 503 || e.Reason != proxy.Overloaded || got.Header.Get("Retry-After") == "" || len(e.Attempts) != 0 {
			t.Errorf("status %d, reason %q, Retry-After %q after %d attempts; want 503 at once", got.StatusCode, e.Reason, got.Header.Get("Retry-After"), len(e.Attempts))
		}
		for range done {
			answer <- true
		}
		for _, d := range done {
			if got := <-d; got.status != 200 {
				t.Errorf("who stood in the line got %v, want 200", got)
			}
		}
	}
}

func TestWaitingEndsAfterATime(t *testing.T) {
	asked, answer := make(chan string, 100), make(chan bool)
	p := poolOf(t, held(t, asked, answer))
	limitTo(p, 1, 10, 50*time.Millisecond)
	f := front(t, 1, New(p, Options{}))
	first := asks(t, f, "/")
	<-asked
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 503 || e.Reason != proxy.Overloaded {
		t.Errorf("status %d, reason %q; want 503, %q", got.StatusCode, e.Reason, proxy.Overloaded)
	}
	answer <- true
	if got := <-first; got.status != 200 || p.care.queue.busy() {
		t.Errorf("%v, want 200 and an empty line", got)
	}
}

func TestWhoLeavesTheLineIsNotMissed(t *testing.T) {
	asked, answer := make(chan string, 100), make(chan bool)
	p := poolOf(t, held(t, asked, answer))
	limitTo(p, 1, 10, time.Minute)
	f := front(t, 1, New(p, Options{}))
	first := asks(t, f, "/first")
	<-asked
	c, _ := f.raw(t, "GET /leaves HTTP/1.1\r\nHost: x\r\n\r\n")
	until(t, "it waits", p.care.queue.waits(1))
	last := asks(t, f, "/last")
	until(t, "another waits", p.care.queue.waits(2))
	c.Close()
	until(t, "it has left", p.care.queue.waits(1))
	answer <- true
	if got := <-asked; got != "/last" {
		t.Errorf("%s is served, want /last", got)
	}
	answer <- true
	if one, two := <-first, <-last; one.status != 200 || two.status != 200 {
		t.Errorf("%v and %v, want 200", one, two)
	}
}

// TestRoomIsFoundWhenItIsMade lifts the limit, or adds an endpoint, under those who wait.
func TestRoomIsFoundWhenItIsMade(t *testing.T) {
	for name, makeRoom := range map[string]func(*Pool, netip.AddrPort){
		"limit":    func(p *Pool, _ netip.AddrPort) { p.Configure(ServiceOptions{}) },
		"endpoint": func(p *Pool, another netip.AddrPort) { p.Set(append(p.Endpoints(), another)) },
		"gone":     func(p *Pool, _ netip.AddrPort) { p.Set(nil) },
	} {
		asked, answer := make(chan string, 100), make(chan bool)
		p := poolOf(t, held(t, asked, answer))
		limitTo(p, 1, 10, time.Minute)
		f := front(t, 1, New(p, Options{}))
		first := asks(t, f, "/")
		<-asked
		second := asks(t, f, "/")
		until(t, "it waits", p.care.queue.waits(1))
		makeRoom(p, held(t, asked, answer))
		if name == "gone" {
			if got := <-second; got.status != 503 {
				t.Errorf("no endpoints: %v, want 503", got)
			}
			answer <- true
		} else {
			<-asked
			answer <- true
			answer <- true
			if got := <-second; got.status != 200 {
				t.Errorf("%s: %v, want 200", name, got)
			}
		}
		if got := <-first; got.status != 200 {
			t.Errorf("%s: the first got %v, want 200", name, got)
		}
	}
}

// webSocketEcho takes every connection for a WebSocket, and repeats what comes.
func webSocketEcho(t *testing.T) netip.AddrPort {
	return endpoint(t, func(s *session) {
		if s.head() != "" {
			s.send(accepted)
			io.Copy(s.Conn, s.in)
		}
	})
}

func TestATunnelHoldsItsPlace(t *testing.T) {
	p := poolOf(t, webSocketEcho(t))
	limitTo(p, 1, 0, time.Second)
	f := front(t, 1, New(p, quick))
	c, in := f.raw(t, handshake)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	if got := f.get(t, "/"); got.StatusCode != 503 {
		t.Errorf("status %d beside a tunnel, want 503", got.StatusCode)
	}
	c.Close()
	f.exchange(t)
	until(t, "the place is free", func() bool { return p.members()[0].InFlight() == 0 })
}

// TestATunnelOutlivesAHundredChanges keeps a WebSocket over endpoints that come and go, its own among them.
func TestATunnelOutlivesAHundredChanges(t *testing.T) {
	mine := webSocketEcho(t)
	p := poolOf(t, mine)
	f := front(t, 1, New(p, Options{}))
	c, in := f.raw(t, handshake)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	others := poolOfAddresses(t, 100).Endpoints()
	said := make([]byte, 4)
	for i := range 100 {
		p.Set(others[i : i+1])
		if i%10 == 0 {
			c.Write([]byte("echo"))
			if _, err := io.ReadFull(in, said); err != nil || string(said) != "echo" {
				t.Fatalf("after %d changes: %q, %v", i+1, said, err)
			}
		}
	}
}

func TestLimitsUnderACrowd(t *testing.T) {
	const most = 3
	var mu sync.Mutex
	var now, peak int
	busy := func(s *session, _ string) {
		mu.Lock()
		now++
		peak = max(peak, now)
		mu.Unlock()
		s.send(ok2[:len(ok2)-1]) // the rest comes when it counts no more
		mu.Lock()
		now--
		mu.Unlock()
		s.send(ok2[len(ok2)-1:])
	}
	var seen atomic.Int64
	p := poolOf(t, counting(t, &seen, busy))
	limitTo(p, most, 1000, time.Minute)
	f := front(t, 1, New(p, Options{}))
	var c crowd
	c.ask(f, 30)
	until(t, "served", func() bool { return c.served.Load() > 2000 })
	close(c.stop)
	c.running.Wait()
	if c.failed.Load() != 0 || peak > most || p.members()[0].InFlight() != 0 {
		t.Errorf("%d of %d failed, %d at once, %d in flight in the end; want none, %d at most, none", c.failed.Load(), c.served.Load(), peak, p.members()[0].InFlight(), most)
	}
}

// TestALimitThatIsLiftedHoldsNobodyUp has a request come when the limit was lifted and the line has not dissolved yet.
func TestALimitThatIsLiftedHoldsNobodyUp(t *testing.T) {
	p := poolOf(t, endpoint(t, answers(ok2)))
	f := front(t, 1, New(p, Options{}))
	last := p.care.queue.join(1)
	defer p.care.queue.leave(last)
	if got := f.get(t, "/"); got.StatusCode != 200 {
		t.Errorf("status %d, want 200", got.StatusCode)
	}
}

// TestAPlaceThatIsTakenBetweenTwoTriesIsNoWantOfEndpoints has somebody else take the only place when the first answer, which
// the route retries, has been given.
func TestAPlaceThatIsTakenBetweenTwoTriesIsNoWantOfEndpoints(t *testing.T) {
	var p *Pool
	p = poolOf(t, endpoint(t, func(s *session) {
		s.request()
		p.members()[0].inFlight.Add(1)
		s.send(answer5xx(503))
	}))
	limitTo(p, 1, 0, time.Second)
	f := front(t, 1, New(p, retrying(RetryOn503, 3)))
	got, e := f.get(t, "/"), f.exchange(t)
	if got.StatusCode != 503 || e.Reason != proxy.Overloaded || len(e.Attempts) != 1 {
		t.Errorf("status %d, reason %q, %d attempts; want 503, upstream_overloaded, one", got.StatusCode, e.Reason, len(e.Attempts))
	}
}
