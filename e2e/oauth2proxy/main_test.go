// Package oauth2proxy tests external authentication against the service that most people use it with: the real
// oauth2-proxy, signed in to by a browser with cookies, at an OpenID provider that the test plays.
//
//	go test -count=1 .
//
// The source of oauth2-proxy comes from the Go module proxy, at the version in go.mod; this is a module of its own so
// that what it needs stays out of the product's own. Go keeps the built program in its cache: it is compiled once, which
// takes a minute or two. Neither it nor the product's binary is an input that `go test` can see, hence -count=1.
//
// The tests run in a network namespace of their own, where ports 80 and 443 are sallyport's: the manifests are those of
// the documentation, and their URLs have no ports.
package oauth2proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oauth2-proxy/oauth2-proxy/v7/pkg/logger"
	"golang.org/x/sys/unix"
)

// Variables that tell the test program which runs inside the namespace where the built programs are. The first one also
// says that it is there.
const (
	sallyportVariable   = "OAUTH2PROXY_TEST_SALLYPORT"
	oauth2ProxyVariable = "OAUTH2PROXY_TEST_OAUTH2PROXY"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(sallyportVariable) != "" {
		if err := raiseLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "oauth2proxy: raise the loopback interface:", err)
			return 2
		}
		// The tests rewrite sessions with oauth2-proxy's own packages, which log to standard error.
		logger.SetErrOutput(io.Discard)
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "sallyport-oauth2proxy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "oauth2proxy:", err)
		return 2
	}
	defer os.RemoveAll(folder)
	sallyport := filepath.Join(folder, "sallyport")
	_, err = command("go", "build", "-C", filepath.Join("..", ".."), "-trimpath", "-o", sallyport, "./cmd/sallyport")
	if err != nil {
		fmt.Fprintln(os.Stderr, "oauth2proxy:", err)
		return 2
	}
	// -n builds the tool of go.mod and prints where it is, and does not run it.
	oauth2Proxy, err := command("go", "tool", "-n", "oauth2-proxy")
	if err != nil {
		fmt.Fprintln(os.Stderr, "oauth2proxy:", err)
		return 2
	}
	return rerun(sallyport, oauth2Proxy)
}

// command runs a program of the Go toolchain in this folder and returns the line it prints.
func command(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// rerun runs this test program again, in a network namespace of its own: as root, or through a user namespace as an
// ordinary user.
func rerun(sallyport, oauth2Proxy string) int {
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Args[0] = os.Args[0]
	self.Env = append(os.Environ(), sallyportVariable+"="+sallyport, oauth2ProxyVariable+"="+oauth2Proxy)
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		self.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		self.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		self.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err := self.Run()
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "oauth2proxy: enter the network namespace:", err)
	return 2
}

// raiseLoopback gives the loopback interface of the new namespace its address and brings it up.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, setting := range []struct {
		request uint
		set     func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(lo *unix.Ifreq) error { return lo.SetInet4Addr([]byte{127, 0, 0, 1}) }},
		{unix.SIOCSIFNETMASK, func(lo *unix.Ifreq) error { return lo.SetInet4Addr([]byte{255, 0, 0, 0}) }},
		{unix.SIOCSIFFLAGS, func(lo *unix.Ifreq) error { lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		lo, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		if err := errors.Join(setting.set(lo), unix.IoctlIfreq(socket, setting.request, lo)); err != nil {
			return err
		}
	}
	return nil
}
