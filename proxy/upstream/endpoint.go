package upstream

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what an endpoint keeps.
const (
	// maxIdle is how many connections an endpoint keeps unused. There are never more than were in use at once within
	// idleLife, and were those closed, the next burst would open them again.
	maxIdle = 1024
	// maxMixed is how many, as soon as they are for different names: clients may have any number of those to ask for below a
	// wildcard.
	maxMixed = 64

	// idleLife is how long a connection is kept unused. It is below what servers commonly allow (Go 60 s or more, nginx
	// 75 s, Tomcat 60 s), so that it is we who close: a server that closes first does so under a request now and then.
	idleLife = 30 * time.Second
)

// An Endpoint is one address of a pool with what was learned about it.
type Endpoint struct {
	// What picks look at comes first, and is one line of the processor's cache: among a thousand endpoints each look waits
	// for it to come.
	inFlight atomic.Int64
	limit    atomic.Int64 // of inFlight; 0: none
	share    share
	latency  latency
	health   health

	addr netip.AddrPort

	mu      sync.Mutex
	idle    []*conn     // guarded by mu; the most recently used last
	sweeper *time.Timer // guarded by mu; closes what was idle too long; nil: nothing to sweep
	retired bool        // guarded by mu; the endpoint left its pool, nothing is kept any more

	muxes muxes // connections of HTTP/2

	silence silence

	_ [16]byte // 384 bytes in all, a size that the allocator lays where lines of the cache begin
}

// Addr is where the endpoint listens.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// InFlight is the number of requests and tunnels at the endpoint now.
func (e *Endpoint) InFlight() int64 { return e.inFlight.Load() }

// take returns an idle connection of a line, the most recently used first, or nil. Whether it is still good is for the
// caller to find out, with ask or quiet.
func (e *Endpoint) take(l line) *conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := len(e.idle) - 1
	for i >= 0 && e.idle[i].line != l {
		i--
	}
	if i < 0 {
		return nil
	}
	c := e.idle[i]
	e.idle = slices.Delete(e.idle, i, i+1)
	c.reused = true
	return c
}

// put gives back a connection on which nothing is under way any more, now.
func (e *Endpoint) put(c *conn, now time.Time) {
	c.rest(now)
	e.mu.Lock()
	defer e.mu.Unlock()
	full := len(e.idle) >= maxIdle
	if full || len(e.idle) >= maxMixed && c.line.secure() {
		full = !e.makeRoomLocked(c.line) && full
	}
	if e.retired || full {
		c.close()
		return
	}
	e.idle = append(e.idle, c)
	if e.sweeper == nil {
		e.sweeper = time.AfterFunc(idleLife, e.sweep)
	}
}

// makeRoomLocked closes the connection of another line that was unused for longest, if there is one.
func (e *Endpoint) makeRoomLocked(l line) bool {
	other := slices.IndexFunc(e.idle, func(c *conn) bool { return c.line != l })
	if other < 0 {
		return false
	}
	e.idle[other].close()
	e.idle = slices.Delete(e.idle, other, other+1)
	return true
}

// sweep closes the connections that were idle too long, which stand first, and comes again for the others.
func (e *Endpoint) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	old := 0
	for old < len(e.idle) && now.Sub(e.idle[old].since) >= idleLife {
		e.idle[old].close()
		old++
	}
	e.idle = slices.Delete(e.idle, 0, old)
	if len(e.idle) == 0 {
		e.sweeper = nil
		return
	}
	e.sweeper.Reset(idleLife - now.Sub(e.idle[0].since))
}

// retire closes the idle connections and keeps none from now on.
func (e *Endpoint) retire() {
	e.muxes.retire()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired = true
	for _, c := range e.idle {
		c.close()
	}
	e.idle = nil
	if e.sweeper != nil {
		e.sweeper.Stop()
		e.sweeper = nil
	}
}
