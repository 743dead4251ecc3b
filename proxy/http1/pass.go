package http1

import (
	"bytes"
	"io"
	"net/http"
	"syscall"
)

// A pass is one visit to the socket of a connection in the clear, in which requests are served until one needs more of the
// connection than its head. Within it the socket is read as event loops do: what came short has emptied it, and the kernel
// tells of anything that follows, so that it need not be asked in vain after every answer. Left and begun again for each
// request, the runtime would forget what the kernel has told it meanwhile.
//
// Who holds a pass holds the right to read. So a handler in one cannot take the connection over: requests that ask for
// another protocol are served outside, as are those with a body. To close the connection is to wait for the end of the
// pass.
type pass struct {
	step   func(fd uintptr) bool // kept, since a closure for each pass is an allocation
	on     bool                  // a handler runs within it
	fd     uintptr               // good while on
	empty  bool                  // the socket was, when it was read last
	ended  passEnd
	status int // with which bad is refused; 0: its own
	bad    error

	out  []byte // what is left to be written
	put  func(fd uintptr) bool
	fail error
}

// passEnd is why a pass has ended.
type passEnd uint8

const (
	passOver passEnd = iota // nothing more is served
	passMore                // more is to be read of a head
	passHead                // the head that was read needs the connection
	passBad                 // what was read is no request
)

// serveDirect serves a connection in the clear until nothing more is served, or it rests: then it is not ours.
func (c *conn) serveDirect() (rests bool) {
	p := &c.pass
	if p.step == nil {
		p.step, p.put = c.stepPass, c.putPass
	}
	for {
		p.empty, p.ended, p.bad, p.status = false, passOver, nil, 0
		if err := c.raw.Read(p.step); err != nil {
			if c.server.ending() && c.unnudge() {
				continue // for what has come meanwhile
			}
			return c.rest(err) // closed, or given up, or idle for a while
		}
		if p.ended == passMore {
			p.ended = passHead
			if p.bad = c.read(); p.bad != nil {
				p.ended = passBad
			}
		}
		switch {
		case p.ended == passOver:
			return false
		case p.ended == passBad && p.status != 0:
			c.refuseWith(p.status, p.bad)
			return false
		case p.ended == passBad:
			c.refuse(p.bad)
			return false
		}
		if !c.serveRequest() {
			return false
		}
		c.enter(phaseIdle)
	}
}

// stepPass reads and serves what is there, and reports whether the pass has ended.
func (c *conn) stepPass(fd uintptr) bool {
	p := &c.pass
	for {
		if len(c.reader.Buffered()) == 0 {
			switch wait, err := c.readPass(fd); {
			case err != nil:
				return true
			case wait:
				c.reader.Release()
				return false
			}
		}
		if !c.reader.whole() {
			p.ended = passMore
			return true
		}
		if p.bad = c.read(); p.bad != nil {
			p.ended = passBad
			return true
		}
		if r := &c.request; !c.reader.Done() || r.Upgrade || r.Method == http.MethodConnect {
			p.ended = passHead
			return true
		}
		c.served++
		if p.status, p.bad = c.prepare(); p.bad != nil {
			p.ended = passBad
			return true
		}
		p.on, p.fd = true, fd
		more := c.answer()
		p.on = false
		if !more {
			return true
		}
		c.enter(phaseIdle)
	}
}

// readPass reads what the socket has, and reports whether there is nothing to read yet.
func (c *conn) readPass(fd uintptr) (wait bool, err error) {
	p := &c.pass
	ending := c.server.ending()
	if p.empty && !ending {
		p.empty = false // what comes now, the kernel will tell of
		return true, nil
	}
	room := c.reader.Room()
	n, err := ReadSocket(fd, room)
	switch {
	case err == syscall.EAGAIN && !ending:
		return true, nil
	case err == syscall.EAGAIN, err == nil && n == 0:
		return false, io.EOF
	case err != nil:
		return false, err
	}
	c.reader.Filled(n)
	// An end that was there already, the kernel does not tell of again. Most clients that send one do so with their first words.
	p.empty = n < len(room) && c.served > 0
	return false, nil
}

// whole reports whether the end of a head is in the buffer.
func (r *Reader) whole() bool {
	have := r.buf[r.r:r.w]
	return bytes.HasSuffix(have, headEnd) || bytes.Contains(have, headEnd)
}

var headEnd = []byte("\r\n\r\n")

// writeDirect writes to a connection in the clear. Within a pass the socket is held already, and most often takes all at once.
func (c *conn) writeDirect(b []byte) error {
	p := &c.pass
	p.out, p.fail = b, nil
	var err error
	if !p.on || c.timed.Load() || !c.putPass(p.fd) {
		c.writing.Store(c.server.clock.Load())
		err = c.raw.Write(p.put)
		c.writing.Store(0)
	}
	p.out = nil
	if err == nil {
		err = p.fail
	}
	return err
}

func (c *conn) putPass(fd uintptr) bool {
	p := &c.pass
	for len(p.out) > 0 {
		n, err := WriteSocket(fd, p.out[:min(len(p.out), mostAtOnce)])
		if err == syscall.EAGAIN {
			return false
		}
		if err != nil {
			p.fail = err
			return true
		}
		p.out = p.out[n:]
	}
	return true
}

// mostAtOnce bounds the time for which the kernel has a thread without the runtime's knowing.
const mostAtOnce = 16 << 10
