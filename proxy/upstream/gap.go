package upstream

import (
	"sync"
	"time"
)

// A gap calls late, once, when something that is wanted has not come for too long. Connections of their own have deadlines
// for that; a stream that shares one has this. It must be stopped.
type gap struct {
	limit time.Duration // 0 or less: none
	late  func()

	mu     sync.Mutex
	timer  *time.Timer // nil: not begun
	wanted bool
	held   bool // what is wanted is not owed yet
	since  time.Time
	over   bool
}

// want says that something is waited for from now on, or no more.
func (g *gap) want(wanted bool) { g.set(&g.wanted, wanted) }

// hold says that nothing is owed until it is called with false: then the time begins.
func (g *gap) hold(held bool) { g.set(&g.held, held) }

func (g *gap) set(what *bool, value bool) {
	if g.limit <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	*what = value
	if !g.wanted || g.held || g.over {
		return
	}
	g.since = time.Now()
	if g.timer == nil {
		g.timer = time.AfterFunc(g.limit, g.check)
	}
}

// check runs when the limit may be over. The timer is not moved with every sign of life, which would cost more than to look
// again: what is not late yet is so at since plus limit at the earliest, and what is not wanted yet a whole limit from now.
func (g *gap) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	left := g.limit
	if g.wanted && !g.held {
		left -= time.Since(g.since)
	}
	if left > 0 {
		g.timer.Reset(left)
		return
	}
	g.over = true
	g.late()
}

func (g *gap) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.timer != nil {
		g.timer.Stop()
	}
}
