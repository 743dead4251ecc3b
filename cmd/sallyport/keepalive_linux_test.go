package main

import (
	"net"
	"syscall"
	"testing"

	"sallyport/config"
)

func TestAcceptedConnectionsAreAskedForSignsOfLife(t *testing.T) {
	l, err := listen(config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for name, listener := range map[string]net.Listener{"http": l.http, "https": l.https, "admin": l.admin} {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		raw, err := accepted.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) {
			for _, option := range []struct {
				name              string
				level, what, want int
			}{
				{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
				{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
				{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
				{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9},
				{"TCP_NODELAY", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
			} {
				if got, err := syscall.GetsockoptInt(int(fd), option.level, option.what); got != option.want || err != nil {
					t.Errorf("%s: %s of an accepted connection is %d, %v; want %d", name, option.name, got, err, option.want)
				}
			}
		})
	}
}
