package upstream

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// poolOfAddresses has endpoints that nobody connects to.
func poolOfAddresses(t *testing.T, n int) *Pool {
	addrs := make([]netip.AddrPort, n)
	for i := range addrs {
		addrs[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 80)
	}
	return poolOf(t, addrs...)
}

func failTimes(p *Pool, e *Endpoint, times int) {
	for range times {
		p.failed(e, failuresInARow, true)
	}
}

func TestEjectionsGrowFromASecondToAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := poolOfAddresses(t, 3)
		e := p.members()[0]
		failTimes(p, e, failuresInARow-1)
		if e.isAside() {
			t.Fatalf("the endpoint is left out after %d failures", failuresInARow-1)
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			want *= time.Second
			failTimes(p, e, 1)
			time.Sleep(want - time.Nanosecond)
			before := e.isAside()
			time.Sleep(time.Nanosecond)
			if !before || e.isAside() {
				t.Errorf("ejection %d: left out until just before %v: %v, then still: %v; want it until then", i+1, want, before, e.isAside())
			}
		}
		p.heard(e, 200, 0)
		time.Sleep(mostAside + time.Nanosecond)
		failTimes(p, e, failuresInARow)
		if time.Sleep(time.Second); e.isAside() {
			t.Error("an endpoint that was well for longer than a minute is left out for longer than a second")
		}
	})
}

func TestAnswersInBetweenEjectNobody(t *testing.T) {
	p := poolOfAddresses(t, 3)
	e := p.members()[0]
	for range 10 {
		failTimes(p, e, failuresInARow-1)
		p.heard(e, 200, 0)
	}
	if e.isAside() {
		t.Error("the endpoint is left out, though it never failed as often in a row")
	}
}

func TestAtMostHalfOfAPoolIsEjected(t *testing.T) {
	for n, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 10: 5} {
		p := poolOfAddresses(t, n)
		for _, e := range p.members()[1:] {
			failTimes(p, e, 100)
		}
		failTimes(p, p.members()[0], 100)
		if got := p.Ejected(); got != want {
			t.Errorf("%d of %d endpoints are left out, want %d", got, n, want)
		}
	}
}

func TestWhereAllFailAlikeNobodyIsEjected(t *testing.T) {
	p := poolOfAddresses(t, 6)
	for range 100 {
		for _, e := range p.members() {
			failTimes(p, e, 1)
		}
	}
	if got := p.Ejected(); got != 0 {
		t.Errorf("%d endpoints are left out, want none", got)
	}
}

// TestAnEndpointThatIsEjectedIsBetterThanNone leaves out one of two by force, and has the other refuse.
func TestAnEndpointThatIsEjectedIsBetterThanNone(t *testing.T) {
	good := endpoint(t, answers(ok2))
	p := poolOf(t, good, refused(t))
	failTimes(p, p.members()[0], failuresInARow)
	if !p.members()[0].isAside() {
		t.Fatal("it is not left out")
	}
	f := front(t, 1, New(p, quick))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 200 || len(e.Attempts) != 2 {
		t.Errorf("status %d after %d attempts, want 200 after 2", got.StatusCode, len(e.Attempts))
	}
}

// TestOnlyGatewayStatusesEject asks an endpoint that always answers the same beside two that are well.
func TestOnlyGatewayStatusesEject(t *testing.T) {
	for status, ejects := range map[int]bool{500: false, 501: false, 404: false, 429: false, 502: true, 503: true, 504: true} {
		var seen atomic.Int64
		bad := counting(t, &seen, func(s *session, _ string) { s.send(answer5xx(status)) })
		p := poolOf(t, bad, endpoint(t, answers(ok2)), endpoint(t, answers(ok2)))
		f := front(t, 1, New(p, quick))
		for range 3 * failuresInARow {
			f.get(t, "/")
		}
		if got := p.Ejected() == 1; got != ejects || seen.Load() != failuresInARow {
			t.Errorf("%d: left out: %v after %d answers, want %v", status, got, seen.Load(), ejects)
		}
		for range 6 {
			f.get(t, "/")
		}
		if ejects && p.members()[0].isAside() && seen.Load() != failuresInARow {
			t.Errorf("%d: it was asked %d times, want no more than %d", status, seen.Load(), failuresInARow)
		}
	}
}

func TestResetsEjectForAllRoutesOfThePool(t *testing.T) {
	resets := endpoint(t, func(s *session) { s.request(); s.reset() })
	p := poolOf(t, resets, endpoint(t, answers(ok2)))
	f := front(t, 1, New(p, quick))
	for p.Ejected() == 0 {
		f.get(t, "/")
		p.members()[0].welcome() // else it takes seconds
	}
	other := quick
	other.Tries = 1
	g := front(t, 1, New(p, other))
	for range 4 {
		if got := g.get(t, "/"); got.StatusCode != 200 {
			t.Errorf("status %d from another route, want 200", got.StatusCode)
		}
	}
	if p.Set(p.Endpoints()[:1]); p.Ejected() != 1 {
		t.Error("what was learned is gone after a change of the endpoints")
	}
}

// TestOneRequestFindsOutWhetherAnEndpointIsWellAgain ends the time of an ejection by force.
func TestOneRequestFindsOutWhetherAnEndpointIsWellAgain(t *testing.T) {
	for _, status := range []int{200, 503} {
		asked, answer := make(chan bool, 10), make(chan string)
		back := endpoint(t, func(s *session) {
			for s.request() != nil {
				asked <- true
				s.send(<-answer)
			}
		})
		p := poolOf(t, back, endpoint(t, answers(ok2)))
		e := p.members()[0]
		failTimes(p, e, failuresInARow)
		e.health.until.Store(time.Now().UnixNano() - 1)
		slow := quick
		slow.ReadTimeout = time.Minute
		f := front(t, 1, New(p, slow))
		probe := make(chan answerOrError, 1)
		go func() {
			res, err := f.client.Get(f.URL)
			if err != nil {
				probe <- answerOrError{0, err}
				return
			}
			res.Body.Close()
			probe <- answerOrError{res.StatusCode, nil}
		}()
		// One of two requests is for it, whoever has the first turn.
		var first *http.Response
		select {
		case <-asked:
		case got := <-probe:
			if got.err != nil || got.status != 200 {
				t.Fatal(got)
			}
			go func() { res, _ := f.client.Get(f.URL); first = res; probe <- answerOrError{res.StatusCode, nil} }()
			<-asked
		}
		for range 4 {
			if got := f.get(t, "/"); got.StatusCode != 200 {
				t.Errorf("status %d, want 200 from the other endpoint", got.StatusCode)
			}
		}
		if len(asked) != 0 {
			t.Errorf("%d more requests went to the endpoint that is being tried", len(asked))
		}
		if status == 200 {
			answer <- ok2
		} else {
			answer <- answer5xx(status)
		}
		if got := <-probe; got.status != status {
			t.Errorf("the one request got %+v, want %d", got, status)
		}
		if first != nil {
			first.Body.Close()
		}
		if e.isAside() != (status == 503) {
			t.Errorf("after a %d the endpoint is left out: %v", status, e.isAside())
		}
	}
}

type answerOrError struct {
	status int
	err    error
}

func (a answerOrError) String() string { return fmt.Sprint(a.status, " ", a.err) }

func TestHealthCostsNoAllocation(t *testing.T) {
	p := poolOfAddresses(t, 3)
	e := p.members()[0]
	now := time.Now()
	if n := testing.AllocsPerRun(1000, func() {
		p.care.budget.note(now)
		epoch := e.asked(p, now)
		p.heard(e, 200, time.Millisecond)
		e.silence.withdrawn(epoch)
		_ = e.available(false)
	}); n != 0 {
		t.Errorf("health allocates %v times a request", n)
	}
}
