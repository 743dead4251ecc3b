//go:build unix

package upstream

import (
	"errors"
	"io"
	"syscall"

	"sallyport/proxy/http1"
)

// asking is a question to an endpoint over a connection that was idle. To look whether the connection is still good, to
// write, and to wait for the answer is one visit to the socket here: done one after another they would ask the kernel once
// more for an answer that cannot be there yet.
type asking struct {
	try  func(fd uintptr) bool // kept, since a closure for each question is an allocation
	out  []byte                // what is left to be written
	at   step
	read int // bytes of the answer
	err  error
}

type step uint8

const (
	stepLook  step = iota
	stepAwait      // all is written
)

// ask writes out over a connection that was idle, and reads the first of what comes back within the patience into the
// reader. It returns errStale, with nothing written, if the connection is no longer good: see quiet. What was read, or why
// it could not be, is for the next read; nothing may have been. Left is what the socket did not take at once, if that was
// not all; then nothing was read.
func (c *conn) ask(out []byte) (left []byte, err error) {
	a := &c.asking
	if a.try == nil {
		a.try = c.tryAsking
	}
	c.armPatience(c.begun)
	a.out, a.at, a.read, a.err = out, stepLook, 0, nil
	err = c.raw.Read(a.try)
	left, a.out = a.out, nil
	switch {
	case errors.Is(err, errDeadline) && a.at == stepAwait:
		c.waited = true
		c.watch()
		return nil, nil
	case err != nil && a.at == stepLook:
		return nil, errStale // closed meanwhile
	case err != nil:
		c.pending = err
		return nil, nil
	case a.at == stepLook:
		return left, a.err
	}
	c.reader.Filled(a.read)
	c.pending = a.err
	return nil, nil
}

// tryAsking takes the next steps as far as the socket lets it, and reports whether there is nothing to wait for.
func (c *conn) tryAsking(fd uintptr) bool {
	a := &c.asking
	if a.at == stepLook {
		var b [1]byte
		if _, err := http1.ReadSocket(fd, b[:]); err != syscall.EAGAIN {
			a.err = errStale // what came, nobody asked for
			return true
		}
		n, err := http1.WriteSocket(fd, a.out)
		c.wrote += uint64(n)
		a.out = a.out[n:]
		if err != nil && err != syscall.EAGAIN {
			a.err = err
			return true
		}
		if len(a.out) > 0 {
			return true
		}
		a.at = stepAwait
		return false
	}
	n, err := http1.ReadSocket(fd, c.reader.Room())
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		a.err = err
	case n == 0:
		a.err = io.EOF
	}
	a.read = n
	return true
}
