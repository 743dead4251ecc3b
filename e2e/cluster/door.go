//go:build controlplane

package cluster

import (
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A door is the listener of a Pod. When it refuses connections from some moment on, it takes those first that wait in its
// queue: whoever opened them has been told that they are open, may have sent a request already, and would see them reset.
type door struct {
	*net.TCPListener
	accepted chan net.Conn

	mu      sync.Mutex
	waiting []net.Conn // when it began to refuse
}

func newDoor(l *net.TCPListener) *door {
	d := &door{TCPListener: l, accepted: make(chan net.Conn)}
	go d.take()
	return d
}

// take hands connections over until the listener is closed or refuses.
func (d *door) take() {
	defer close(d.accepted)
	for {
		c, err := d.TCPListener.Accept()
		if err != nil {
			break
		}
		d.accepted <- c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.waiting {
		d.accepted <- c
	}
}

// refuse empties the queue and refuses connections from then on.
func (d *door) refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	raw, err := d.SyscallConn()
	if err != nil {
		return // closed
	}
	raw.Control(func(listener uintptr) {
		for {
			fd, _, err := unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if err != nil {
				break // there is none
			}
			file := os.NewFile(uintptr(fd), "")
			if c, err := net.FileConn(file); err == nil {
				d.waiting = append(d.waiting, c)
			}
			file.Close()
		}
		unix.Shutdown(int(listener), unix.SHUT_RD)
	})
}

// Accept is asked by one goroutine, until it fails.
func (d *door) Accept() (net.Conn, error) {
	c, ok := <-d.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
