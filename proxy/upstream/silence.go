package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy"
)

// An endpoint that dies without a FIN (its node lost power, a cable was cut) refuses nothing and resets nothing: requests
// vanish, and each would wait for its read timeout, a minute by default. What gives it away is silence.
//
// An endpoint is silent when it owes 3 answers or more, half a second has passed since the third request was sent, nothing
// has come back since, to any request, and another endpoint of the pool does answer. It is left alone then until it gives
// an answer, or until one request at a time may see what is the matter. That harms nobody: what it has, it may finish.
// Endpoints that are known to be slow, as those behind a long poll, have twice the time of their slowest answer of late.
//
// Then we knock: a connection is made, and nothing sent. If that works, somebody is at home and only slow. If nothing
// comes back to that either, the way there is dead, and so are the connections: those that lie idle are closed, and
// requests that wait for an answer, may be sent twice and have another try left, go to another endpoint at once, as far as
// the budget for retries reaches. So does, in any case, the one request that was to see what is the matter. The others stay
// where they are. What is streamed up is not owed an answer and not counted; a gRPC call is counted but never moved.
//
// Where each request has a connection of its own there may be too few that wait: all others fail to connect. So we knock as
// well when a connection to an endpoint has taken too long and a request waits there.

const (
	silentRequests = 3                      // that are owed an answer
	silentFor      = 500 * time.Millisecond // at least
	knockFor       = 500 * time.Millisecond // how long a connection may take that is made to see if somebody is there
	remembered     = time.Minute            // how long it is remembered that something took long
)

// silence is what an endpoint owes. The zero value owes nothing. It is safe for concurrent use.
type silence struct {
	// owed counts, in its lower half, the requests sent since the last answer. The upper half changes with each answer.
	owed  atomic.Uint64
	since atomic.Int64 // Unix nanoseconds; when there were silentRequests of them
	armed atomic.Bool  // the timer runs
	knock atomic.Bool  // somebody knocks because of a connection that took too long
	long  slowest      // of the answers

	mu      sync.Mutex
	timer   *time.Timer        // guarded by mu
	waiting map[*conn]struct{} // guarded by mu; on which an answer that need not come is awaited for longer than patience
}

const lower = 1<<32 - 1

// asked is told that a request is about to be sent. What it returns is for withdrawn.
func (e *Endpoint) asked(p *Pool, now time.Time) (epoch uint32) {
	s := &e.silence
	owed := s.owed.Add(1)
	if owed&lower >= silentRequests {
		if owed&lower == silentRequests {
			s.since.Store(now.UnixNano())
		}
		if !s.armed.Load() && s.armed.CompareAndSwap(false, true) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.timer == nil {
				s.timer = time.AfterFunc(silentFor, func() { p.listen(e) })
			} else {
				s.timer.Reset(silentFor)
			}
		}
	}
	return uint32(owed >> 32)
}

// withdrawn is told that a request of an epoch is over without an answer.
func (s *silence) withdrawn(epoch uint32) {
	for {
		owed := s.owed.Load()
		if uint32(owed>>32) != epoch || owed&lower == 0 || s.owed.CompareAndSwap(owed, owed-1) {
			return
		}
	}
}

// heard is told of an answer.
func (s *silence) heard(took time.Duration) {
	for {
		owed := s.owed.Load()
		if owed&lower == 0 || s.owed.CompareAndSwap(owed, (owed>>32+1)<<32) {
			break
		}
	}
	if took >= silentFor/2 {
		s.long.note(took)
	}
}

// lasts is how long it has been since silentRequests were owed; 0: they are not.
func (s *silence) lasts(now time.Time) time.Duration {
	if s.owed.Load()&lower < silentRequests {
		return 0
	}
	return now.Sub(time.Unix(0, s.since.Load()))
}

// listen runs while an endpoint owes answers, every half second or so.
func (p *Pool) listen(e *Endpoint) {
	s := &e.silence
	now := time.Now()
	limit := max(silentFor, 2*s.long.of(now))
	lasts := s.lasts(now)
	switch {
	case lasts == 0:
		s.armed.Store(false)
		return
	case lasts < limit:
		s.again(limit - lasts)
		return
	case e.isEjected() && now.UnixNano() < e.health.until.Load(), !p.anotherAnswers(e, now):
		s.again(silentFor)
		return
	}
	p.eject(e, silent, false)
	home := p.knock(e)
	if s.lasts(now) != 0 {
		if !home {
			e.drop()
		}
		p.moveWaiting(e, home)
	}
	s.again(silentFor)
}

// unreached is told of a connection to an endpoint that took too long. If nobody is at home there, requests that wait for an
// answer go elsewhere.
func (p *Pool) unreached(e *Endpoint) {
	s := &e.silence
	s.mu.Lock()
	waiting := len(s.waiting)
	s.mu.Unlock()
	now := time.Now()
	if waiting == 0 || s.long.of(now) != 0 || !p.anotherAnswers(e, now) || !s.knock.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.knock.Store(false)
		answers := s.owed.Load() >> 32
		if !p.knock(e) && s.owed.Load()>>32 == answers {
			e.drop()
			p.moveWaiting(e, false)
		}
	}()
}

func (s *silence) again(in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Reset(in)
}

// anotherAnswers reports whether some endpoint beside e is neither silent nor left out.
func (p *Pool) anotherAnswers(e *Endpoint, now time.Time) bool {
	for _, other := range p.members() {
		if other != e && !other.isAside() && other.silence.lasts(now) < silentFor {
			return true
		}
	}
	return false
}

// knock reports whether the endpoint's host takes a connection, or says that it takes none.
func (p *Pool) knock(e *Endpoint) bool {
	ctx, cancel := context.WithTimeout(context.Background(), knockFor)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", e.addr.String())
	if err == nil {
		c.Close()
		return true
	}
	return connectFault(context.Background(), err).reason == proxy.ConnectRefused
}

// await notes that c waits for an answer, and that its request may be moved.
func (s *silence) await(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[*conn]struct{})
	}
	s.waiting[c] = struct{}{}
	c.awaits = true
}

// unawait ends that, and reports whether the request was moved.
func (s *silence) unawait(c *conn) (moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, c)
	c.awaits = false
	return c.moved
}

var errSilent = errors.New("the endpoint has gone silent")

// moveWaiting gives up the exchanges that can go on elsewhere: that of the probe only, if somebody is at home.
func (p *Pool) moveWaiting(e *Endpoint, home bool) {
	s := &e.silence
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.waiting {
		if home && !c.probe {
			continue
		}
		if !p.care.budget.spend(time.Now(), c.budget) {
			return
		}
		c.moved = true
		c.abort()
		delete(s.waiting, c)
	}
}

// drop closes the idle connections, which lead nowhere, and has no HTTP/2 connection take more.
func (e *Endpoint) drop() {
	e.mu.Lock()
	for _, c := range e.idle {
		c.tcp.Close()
	}
	e.idle = e.idle[:0]
	e.mu.Unlock()
	e.muxes.spoil()
}

// slowest is the longest of some times, forgotten after a while. The zero value knows none.
type slowest struct{ took, at atomic.Int64 }

func (s *slowest) note(took time.Duration) {
	now := time.Now()
	if took >= s.of(now) {
		s.took.Store(int64(took))
		s.at.Store(now.UnixNano())
	}
}

func (s *slowest) of(now time.Time) time.Duration {
	if now.UnixNano()-s.at.Load() > int64(remembered) {
		return 0
	}
	return time.Duration(s.took.Load())
}
