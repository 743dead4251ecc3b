package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"sallyport/config"
)

// listeners are the sockets of one process. All are open before any is served, so that a process that cannot have its
// ports says so at once and answers nobody.
type listeners struct{ http, https, admin net.Listener }

// listen opens the listeners. The error of a port that cannot be had names the flag that moves it.
func listen(c config.Config) (*listeners, error) {
	l := new(listeners)
	for _, one := range []struct {
		to      *net.Listener
		flag    string
		address netip.Addr
		port    uint16
	}{
		{&l.http, "http-port", c.BindAddress, c.HTTPPort},
		{&l.https, "https-port", c.BindAddress, c.HTTPSPort},
		{&l.admin, "admin-port", c.AdminAddress, c.AdminPort},
	} {
		listener, err := listenConfig.Listen(context.Background(), "tcp", joinPort(one.address, one.port))
		if err != nil {
			l.close()
			return nil, explainListen(err, one.flag, one.port)
		}
		*one.to = listener
	}
	return l, nil
}

func (l *listeners) close() {
	for _, listener := range []net.Listener{l.http, l.https, l.admin} {
		if listener != nil {
			listener.Close()
		}
	}
}

func joinPort(address netip.Addr, port uint16) string {
	if !address.IsValid() {
		return ":" + strconv.Itoa(int(port))
	}
	return netip.AddrPortFrom(address, port).String()
}

func explainListen(err error, flag string, port uint16) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d is taken by another process: stop it, or choose another port with --%s", port, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %d is not allowed for this user: choose one above 1023 with --%s", port, flag)
	}
	return fmt.Errorf("--%s %d: %w", flag, port, err)
}

// portOf is the number of a listener's port, whoever chose it.
func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
