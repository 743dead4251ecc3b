//go:build !race

package http1

import (
	"syscall"
	"unsafe"
)

const readsSockets = true

// ReadSocket reads what a socket has, which must not block; EAGAIN says that there is nothing. The runtime need not be told
// of calls that return at once, and telling it costs more than a short read.
func ReadSocket(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// WriteSocket writes what a socket takes, as ReadSocket reads.
func WriteSocket(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

func call(number, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, syscall.EAGAIN // as a constant: an Errno in an interface may be an allocation
		default:
			return 0, errno
		}
	}
}
