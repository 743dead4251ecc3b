//go:build unix && !linux

package upstream

import "syscall"

func rawRead(fd uintptr, p []byte) (int, error) { return rawAgain(syscall.Read, fd, p) }

func rawWrite(fd uintptr, p []byte) (int, error) { return rawAgain(syscall.Write, fd, p) }

func rawAgain(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		if n, err := call(int(fd), p); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
