package e2e

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// localNetworks are the networks whose every address belongs to the namespace, as addresses of pods, nodes and
// documentation examples: a loopback interface takes all of a network it has one address of.
var localNetworks = []struct{ name, address, mask string }{
	{"lo", "127.0.0.1", "255.0.0.0"},
	{"lo:pods", "10.244.0.1", "255.255.0.0"},
	{"lo:docs", "192.0.2.1", "255.255.255.0"},
	{"lo:clients", "198.51.100.1", "255.255.255.0"},
}

func ownNamespace() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// prepareNamespace gives the loopback interface of a new namespace its addresses and brings it up.
func prepareNamespace() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, network := range localNetworks {
		set := func(request uint, address string) error {
			ifreq, err := unix.NewIfreq(network.name)
			if err != nil {
				return err
			}
			ip, err := parseIPv4(address)
			if err != nil {
				return err
			}
			if err := ifreq.SetInet4Addr(ip); err != nil {
				return err
			}
			return unix.IoctlIfreq(socket, request, ifreq)
		}
		if err := set(unix.SIOCSIFADDR, network.address); err != nil {
			return fmt.Errorf("give %s the address %s: %w", network.name, network.address, err)
		}
		if err := set(unix.SIOCSIFNETMASK, network.mask); err != nil {
			return fmt.Errorf("give %s the mask %s: %w", network.name, network.mask, err)
		}
	}
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up)
}

func parseIPv4(s string) ([]byte, error) {
	var a, b, c, d byte
	if _, err := fmt.Sscanf(s, "%d.%d.%d.%d", &a, &b, &c, &d); err != nil {
		return nil, fmt.Errorf("address %q: %w", s, err)
	}
	return []byte{a, b, c, d}, nil
}
