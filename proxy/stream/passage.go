package stream

import "sallyport/proxy"

// A Passage is the way to a Service for connections that somebody else has accepted, and of which the beginning was read to
// find out where they go: the TLS connections of hosts that are passed on as they are (proxy/passthrough.go). They are
// treated as those of a port are, drained with them, and counted beside them.
type Passage struct {
	server *Server
	served *served
}

var _ proxy.Passage = (*Passage)(nil)

// Passage returns a way to a Service, whose Port is where its connections were accepted. Expect means nothing here.
func (s *Server) Passage(service Service) *Passage {
	service.Expect = false
	return &Passage{s, newServed(service)}
}

// maxPassed is how many connections all Passages have at a time.
const maxPassed = 4 * maxConnections

// tlsInternalError is the alert that tells a client of TLS, which has said its hello, that it is not its fault
// (RFC 8446 section 6).
var tlsInternalError = []byte{21, 3, 3, 0, 2, 2, 80}

// Take passes a connection on, unless there are too many, or the process is about to end.
func (p *Passage) Take(passed proxy.Passed) {
	s := p.server
	c := &connection{server: s, served: p.served, client: passed.Conn, from: passed.From, to: passed.To, early: passed.Early, host: passed.Host}
	ended := passed.Ended
	if ended == nil {
		ended = func() {}
	}
	if why := s.admit(); why != "" {
		c.turnAway()
		ended()
		s.refuse(&p.served.Service, passed.From, why, nil)
		return
	}
	go c.pass(ended)
}

// admit makes room for one more connection of a Passage, or says why there is none.
func (s *Server) admit() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return "the process is about to end"
	}
	if s.counts.openPassed.Add(1) > maxPassed || !s.files.take(filesOfConnection) {
		s.counts.openPassed.Add(-1)
		return "there are too many connections"
	}
	s.beginLocked()
	s.counts.passed.Add(1)
	s.counts.open.Add(1)
	s.running.Add(1)
	return ""
}

// pass is the goroutine of a connection that admit has made room for.
func (c *connection) pass(ended func()) {
	s := c.server
	defer func() {
		ended()
		s.files.give(filesOfConnection)
		s.counts.open.Add(-1)
		s.counts.openPassed.Add(-1)
		s.running.Done()
	}()
	c.serve()
}
