//go:build unix

package http1

import "syscall"

// unread reports whether a socket has bytes that nobody has read. Were it closed so, it would be reset.
func unread(raw syscall.RawConn) (some bool) {
	raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, _ := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		some = n > 0
	})
	return some
}
