package http1

import (
	"net/http"
	"time"
)

// The watch looks at all connections of a server, a few times a second: it gives up those that are too slow, notices
// clients that have left while an answer is awaited, and keeps the clock and the date. So no request sets a timer or asks
// for the time, and no connection has a second goroutine.

const watchEvery = 100 * time.Millisecond

// A phase is what the goroutine of a connection is about.
type phase uint8

const (
	phaseNew     phase = iota // nothing has come yet
	phaseIdle                 // between two requests
	phaseHead                 // the first bytes of a head have come
	phaseHandler              // the handler runs
	phaseEnd                  // what the client still sends is read away
)

// begun is the zero of all clocks.
var begun = time.Now()

// watch runs as long as there are connections.
func (s *Server) watch() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var p patrol
	for now := range ticker.C {
		s.tick(now)
		s.mu.Lock()
		if len(s.conns) == 0 {
			s.watching = false
			s.closeDormLocked()
			s.mu.Unlock()
			return
		}
		ms := s.clock.Load()
		for c := range s.conns {
			if c.late(ms) {
				c.expire()
			} else if c.awaits(ms) {
				p.add(c)
			} else if c.idles(ms) {
				c.nudge()
			}
		}
		s.mu.Unlock()
		p.look()
	}
}

// tick sets the clocks.
func (s *Server) tick(now time.Time) {
	s.clock.Store(now.Sub(begun).Milliseconds() + 1) // 0 is never
	last := s.date.Load()
	if text := now.UTC().Format(http.TimeFormat); last == nil || *last != text {
		s.date.Store(&text)
	}
}

// enter notes what the connection is about from now on.
func (c *conn) enter(p phase) { c.state.Store(c.server.clock.Load()<<3 | int64(p)) }

func (c *conn) inState() (p phase, since int64) {
	state := c.state.Load()
	return phase(state & 7), state >> 3
}

// late reports whether the client has had the time it may take for what it is about.
func (c *conn) late(now int64) bool {
	s := c.server
	p, since := c.inState()
	switch took := time.Duration(now-since) * time.Millisecond; p {
	case phaseIdle:
		return took > s.idleTimeout()
	case phaseNew, phaseHead:
		return took > s.headTimeout()
	case phaseEnd:
		return took > lingerTime
	}
	if since := c.writing.Load(); since != 0 && time.Duration(now-since)*time.Millisecond > s.gapTimeout() {
		return true
	}
	return c.lateBody(now)
}

// lateBody is late for a client that is to send more of a body: a while for every piece, and not too little on average.
func (c *conn) lateBody(now int64) bool {
	since := c.reading.Load()
	if since == 0 {
		return false
	}
	if time.Duration(now-since)*time.Millisecond > c.server.gapTimeout() {
		return true
	}
	waited := (c.waited.Load() + now - since) / 1000
	rate := c.server.bodyRate()
	if c.chunked.Load() {
		return false // a stream may be quiet
	}
	return rate > 0 && waited > bodyGrace && c.received.Load() < rate*waited
}

// bodyGrace is how many seconds a body may take whatever its rate.
const bodyGrace = 10

// awaits reports whether the client waits for its answer, long enough to have gone meanwhile.
func (c *conn) awaits(now int64) bool {
	p, since := c.inState()
	return p == phaseHandler && now-since >= watchEvery.Milliseconds() && c.complete.Load() && c.writing.Load() == 0 && !c.lost.Load()
}
