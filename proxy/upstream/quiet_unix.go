//go:build unix

package upstream

import "syscall"

// quiet reports whether an idle connection is still good: the endpoint has neither closed it nor sent anything, which
// nobody asked for and which must never become an answer to the next request. It looks without waiting.
func (c *conn) quiet() bool {
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
