//go:build unix

package stream

import (
	"net"
	"syscall"
)

// open reports whether a connection that may have failed can still be read from.
func open(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		is = n > 0 || err == syscall.EAGAIN
	})
	return err == nil && is
}

// readDatagram waits for a datagram and reads it into a buffer, which is taken only then: tens of thousands of flows that
// wait would hold one each.
func readDatagram(_ *net.UDPConn, raw syscall.RawConn) (b *buffer, n int, err error) {
	waitErr := raw.Read(func(fd uintptr) bool {
		b = buffers.Get().(*buffer)
		for {
			n, err = syscall.Read(int(fd), b[:])
			if err != syscall.EINTR {
				break
			}
		}
		if err == nil {
			return true
		}
		buffers.Put(b)
		b = nil
		return err != syscall.EAGAIN
	})
	if waitErr != nil {
		return nil, 0, waitErr
	}
	return b, n, err
}
