package proxy

import (
	"sync"
	"time"
)

// A stall gives up on a client that takes or sends nothing while we wait for it.
//
// A deadline set ahead does that for HTTP/1, where it counts only while a read or a write is going on. For a stream of
// HTTP/2 net/http keeps it as a timer that ends the stream when it runs out, whether anybody waits for the client or not:
// an event stream that is quiet for a minute would be cut. So there a timer of our own runs while we wait, and sets the
// deadline only when it has run out.
type stall struct {
	after time.Duration
	end   func() // makes what waits fail

	mu    sync.Mutex // guards over: end may not run once the handler has returned
	over  bool
	timer *time.Timer // nil: nothing has waited yet
}

// wait begins a wait for the client, and done ends it.
func (s *stall) wait() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.after, s.fire)
		return
	}
	s.timer.Reset(s.after)
}

func (s *stall) done() { s.timer.Stop() }

func (s *stall) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.end()
	}
}

// close is called when the handler has returned; nothing waits then.
func (s *stall) close() {
	if s.timer == nil {
		return
	}
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
