//go:build unix

package upstream

import "syscall"

// quiet reports whether an idle connection is still good: the endpoint has neither closed it nor sent anything, which
// nobody asked for and which must never become an answer to the next request. It looks without waiting.
func (c *conn) quiet() bool {
	quiet := false
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && quiet
}
