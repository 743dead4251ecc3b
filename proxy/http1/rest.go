package http1

import (
	"errors"
	"net/url"
	"os"
	"time"
)

// A connection on which nothing has gone on for a while goes to rest: it gives back all that requests need, and its goroutine
// with its stack. It wakes when the client says something. Most connections of a server are kept for requests that never
// come. In the clear one cost 15.0 KiB of resident memory before, and 4.4 KiB at rest; over TLS 35.7 and 12.4 KiB
// (make bench-memory).
//
// The watch nudges an idle connection, by a deadline that has passed; its goroutine then lays it to rest. So a connection
// that is busy pays nothing.

// restAfter is how long a connection is idle before it goes to rest.
const restAfter = time.Second

// idles reports whether the connection should be nudged.
func (c *conn) idles(now int64) bool {
	p, since := c.inState()
	return canRest && p == phaseIdle && now-since >= restAfter.Milliseconds() && c.fd >= 0 && !c.nudged.Load()
}

// nudge makes the read fail that waits for the next request.
func (c *conn) nudge() {
	c.nudging.Lock()
	defer c.nudging.Unlock()
	c.nudged.Store(true)
	c.net.SetReadDeadline(past)
}

// look has the read that waits for the next request find what has come already, and not wait for more.
func (c *conn) look() {
	c.nudging.Lock()
	defer c.nudging.Unlock()
	c.nudged.Store(true)
	c.net.SetReadDeadline(time.Now().Add(lastLook))
}

// lastLook is enough to read what is there: a deadline that has passed would have nothing read at all.
const lastLook = 5 * time.Millisecond

// unnudge takes that back, and reports whether there was a nudge. One that comes late, when a request has come meanwhile,
// must not harm that.
func (c *conn) unnudge() bool {
	if !c.nudged.Load() || c.expired.Load() {
		return false
	}
	c.nudging.Lock() // or a nudge that has only begun would set its deadline after this
	defer c.nudging.Unlock()
	c.net.SetReadDeadline(time.Time{})
	c.nudged.Store(false)
	if c.expired.Load() { // just now: the deadline was not ours any more
		c.net.SetDeadline(past)
	}
	return true
}

// rest lays the connection to rest, after a read that failed with err, and reports whether it did. Then it belongs to somebody
// else.
func (c *conn) rest(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || !c.nudged.Load() || c.expired.Load() || len(c.reader.Buffered()) > 0 {
		return false
	}
	c.reader.Release()
	c.reader.trailer, c.request = head{}, Request{}
	c.req, c.header, c.values, c.url = nil, nil, nil, url.URL{}
	c.res.header, c.res.fields, c.res.trailer = nil, nil, nil
	return c.server.layDown(c)
}

// wake serves a connection that was at rest.
func (c *conn) wake() {
	c.unnudge()
	c.serve()
}

// layDown takes a connection to rest, unless the server is closed.
func (s *Server) layDown(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || c.expired.Load() {
		return false
	}
	if s.dorm == nil {
		d, err := openDorm()
		if err != nil {
			return false
		}
		s.dorm, s.resting = d, make(map[int]*conn)
		go s.attend(d)
	}
	s.resting[c.fd] = c
	if err := s.dorm.add(c.fd); err != nil {
		delete(s.resting, c.fd)
		return false
	}
	return true
}

// attend wakes connections until the dorm is closed.
func (s *Server) attend(d *dorm) {
	for {
		ready, err := d.wait()
		if err != nil {
			return
		}
		s.mu.Lock()
		for _, fd := range ready {
			if c := s.resting[fd]; c != nil {
				delete(s.resting, fd)
				d.remove(fd)
				go c.wake()
			}
		}
		s.mu.Unlock()
	}
}

// endRestLocked ends a connection that is at rest, and reports whether it was.
func (s *Server) endRestLocked(c *conn) bool {
	if s.resting[c.fd] != c {
		return false
	}
	delete(s.resting, c.fd)
	go c.finish()
	return true
}

// closeDormLocked is called when there are no connections.
func (s *Server) closeDormLocked() {
	if s.dorm != nil {
		s.dorm.close()
		s.dorm, s.resting = nil, nil
	}
}
