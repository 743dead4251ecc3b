//go:build unix && (!linux || race || !(amd64 || arm64))

package http1

import "syscall"

const readsSockets = true

// ReadSocket reads what a socket has, which must not block; EAGAIN says that there is nothing.
func ReadSocket(fd uintptr, p []byte) (int, error) { return again(syscall.Read, fd, p) }

// WriteSocket writes what a socket takes, as ReadSocket reads.
func WriteSocket(fd uintptr, p []byte) (int, error) { return again(syscall.Write, fd, p) }

func again(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		if n, err := call(int(fd), p); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
