//go:build unix

package upstream

import (
	"errors"
	"io"
	"syscall"
)

// quiet reports whether an idle connection is still good: the endpoint has neither closed it nor sent anything, which
// nobody asked for and which must never become an answer to the next request. It looks without waiting.
func (c *conn) quiet() bool {
	c.wake()
	if c.tls != nil {
		return c.tlsQuiet()
	}
	if c.look == nil { // kept, since a closure for each look is an allocation
		c.look = func(fd uintptr) bool {
			var b [1]byte
			_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			c.silent = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
			return true
		}
	}
	c.silent = false
	return c.raw.Read(c.look) == nil && c.silent
}

// tlsQuiet is quiet for TLS, which may have read more than it has given out, and to which the endpoint may well have said
// something that is no part of an answer: tickets for later sessions.
func (c *conn) tlsQuiet() bool {
	var b [1]byte
	c.looking = true
	n, err := c.tls.Read(b[:])
	c.looking = false
	return n == 0 && errors.Is(err, errDeadline)
}

// readNow reads what is there, and fails as if time had run out where there is nothing.
func (c *conn) readNow(p []byte) (n int, err error) {
	rawErr := c.raw.Read(func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), p)
		return true
	})
	switch {
	case rawErr != nil:
		return 0, rawErr
	case err == syscall.EAGAIN || err == syscall.EWOULDBLOCK:
		return 0, errDeadline
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
