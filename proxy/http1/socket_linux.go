//go:build !race && (amd64 || arm64)

package http1

import (
	"syscall"
	"unsafe"
)

const readsSockets = true

// ReadSocket reads what a socket has, which must not block; EAGAIN says that there is nothing. The runtime need not be told
// of calls that return at once, and telling it costs more than a short read. Nor need the kernel find out what kind of file
// it is, as it does for read and write.
func ReadSocket(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_RECVFROM, fd, p, 0) }

// WriteSocket writes what a socket takes, as ReadSocket reads.
func WriteSocket(fd uintptr, p []byte) (int, error) {
	return call(syscall.SYS_SENDTO, fd, p, syscall.MSG_NOSIGNAL)
}

func call(number, fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
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
