package e2e

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A Mortal is an endpoint whose machine can lose its power: from then on the kernel drops every packet that comes for it,
// before TCP has seen it. Nothing is acknowledged, no connection is taken or refused, none is ended, and nothing that was
// being answered is.
type Mortal struct {
	Endpoint
	listener *net.TCPListener

	mu    sync.Mutex
	dead  bool                     // guarded by mu
	conns map[*mortalConn]struct{} // guarded by mu
	back  chan struct{}            // guarded by mu; closed while it lives
}

// ServeMortal starts a Mortal with a handler. It ends with the test.
func ServeMortal(t testing.TB, addr, name string, handler http.Handler) *Mortal {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // whose sockets take no filter
	listener, err := config.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatalf("endpoint %s: %v", name, err)
	}
	m := &Mortal{
		Endpoint: Endpoint{Name: name, Addr: listener.Addr().String()},
		listener: listener.(*net.TCPListener),
		conns:    make(map[*mortalConn]struct{}),
		back:     make(chan struct{}),
	}
	close(m.back)
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(mortalListener{m})
	}()
	t.Cleanup(func() {
		m.Return(t)
		server.Close()
		<-done
	})
	return m
}

// Die takes the power away.
func (m *Mortal) Die(t testing.TB) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead, m.back = true, make(chan struct{})
	if err := deafen(m.listener); err != nil {
		t.Fatal(err)
	}
	for c := range m.conns {
		if err := deafen(c.TCPConn); err != nil {
			t.Fatal(err)
		}
	}
}

// Return has the machine start anew: of the connections it had it knows nothing, and says so to whoever still uses them.
func (m *Mortal) Return(t testing.TB) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dead {
		return
	}
	m.dead = false
	for c := range m.conns {
		c.SetLinger(0)
		c.TCPConn.Close()
	}
	close(m.back)
	if err := control(m.listener, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) }); err != nil {
		t.Fatal(err)
	}
}

// deafen has the kernel drop what comes for a socket: a program of one instruction, "keep 0 bytes", looks at every packet.
func deafen(socket syscall.Conn) error {
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	return control(socket, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(drop)), Filter: &drop[0]})
	})
}

func control(socket syscall.Conn, do func(fd int) error) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// A mortalListener takes connections for a Mortal.
type mortalListener struct{ m *Mortal }

func (l mortalListener) Accept() (net.Conn, error) {
	tcp, err := l.m.listener.AcceptTCP()
	if err != nil {
		return nil, err
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	c := &mortalConn{tcp, l.m}
	l.m.conns[c] = struct{}{}
	if l.m.dead { // the kernel had made it before
		deafen(tcp)
	}
	return c, nil
}

func (l mortalListener) Close() error   { return l.m.listener.Close() }
func (l mortalListener) Addr() net.Addr { return l.m.listener.Addr() }

// A mortalConn says nothing while its machine is dead.
type mortalConn struct {
	*net.TCPConn
	m *Mortal
}

func (c *mortalConn) Write(p []byte) (int, error) {
	c.m.mu.Lock()
	back := c.m.back
	c.m.mu.Unlock()
	<-back // then it is closed
	return c.TCPConn.Write(p)
}

func (c *mortalConn) Close() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	delete(c.m.conns, c)
	if c.m.dead {
		return nil // it would send a FIN
	}
	return c.TCPConn.Close()
}
