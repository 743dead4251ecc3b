//go:build !unix

package stream

import (
	"net"
	"syscall"
)

func open(*net.TCPConn) bool { return false }

// readDatagram waits for a datagram and reads it into a buffer.
func readDatagram(c *net.UDPConn, _ syscall.RawConn) (*buffer, int, error) {
	b := buffers.Get().(*buffer)
	n, err := c.Read(b[:])
	if err != nil {
		buffers.Put(b)
		return nil, 0, err
	}
	return b, n, nil
}
