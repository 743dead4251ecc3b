package http1

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const canRest = true

// A dorm is where connections are at rest: an epoll instance, which is itself waited on by the runtime, so that it needs no
// thread.
type dorm struct {
	fd     int
	file   *os.File
	raw    syscall.RawConn
	events [64]unix.EpollEvent
	ready  []int
}

func openDorm() (*dorm, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fd, true) // or os.NewFile would not have the runtime wait on it
	d := &dorm{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, err
	}
	return d, nil
}

// add has wait return fd once, when there is something to read from it or its client has left.
func (d *dorm) add(fd int) error {
	return unix.EpollCtl(d.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(fd)})
}

func (d *dorm) remove(fd int) { unix.EpollCtl(d.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// wait returns descriptors that are ready; what it returns is good until the next call. One that was closed meanwhile may
// belong to another connection: which is then woken for nothing.
func (d *dorm) wait() ([]int, error) {
	d.ready = d.ready[:0]
	var failed error
	err := d.raw.Read(func(fd uintptr) bool {
		n, err := unix.EpollWait(int(fd), d.events[:], 0)
		if err == unix.EINTR {
			err = nil
		}
		for _, e := range d.events[:max(0, n)] {
			d.ready = append(d.ready, int(e.Fd))
		}
		failed = err
		return n > 0 || err != nil
	})
	if err == nil {
		err = failed
	}
	return d.ready, err
}

func (d *dorm) close() { d.file.Close() }
