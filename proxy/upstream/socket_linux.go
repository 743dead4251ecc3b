package upstream

import (
	"syscall"
	"unsafe"
)

// rawRead and rawWrite are read and write for a socket that never blocks. The runtime need not be told of calls that return at
// once, and telling it costs more than a short read.

func rawRead(fd uintptr, p []byte) (int, error) { return rawCall(syscall.SYS_READ, fd, p) }

func rawWrite(fd uintptr, p []byte) (int, error) { return rawCall(syscall.SYS_WRITE, fd, p) }

func rawCall(number, fd uintptr, p []byte) (int, error) {
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
