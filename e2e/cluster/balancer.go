//go:build controlplane

package cluster

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sallyport/e2e"
)

// A Balancer spreads TCP connections over the replicas that are ready, in turn, as a Service does: one that stops to be
// ready gets no more connections, and keeps those it has.
type Balancer struct {
	// Process has the addresses of the balancer, so that whatever asks a replica can ask all of them.
	Process *e2e.Process

	mu       sync.Mutex
	replicas []*Sallyport // that are ready
	next     int
	members  []*Sallyport

	open sync.WaitGroup
	done chan struct{}
}

// Balance puts a balancer in front of replicas. It ends with the test.
func Balance(t testing.TB, replicas ...*Sallyport) *Balancer {
	t.Helper()
	b := &Balancer{members: replicas, done: make(chan struct{})}
	b.probe()
	plain := b.listen(t, func(s *Sallyport) string { return s.HTTP })
	secure := b.listen(t, func(s *Sallyport) string { return s.HTTPS })
	b.Process = &e2e.Process{HTTP: plain, HTTPS: secure}
	b.open.Go(b.watch)
	t.Cleanup(func() {
		close(b.done)
		b.open.Wait()
	})
	return b
}

// Add makes another replica a member; it gets connections once it is ready.
func (b *Balancer) Add(s *Sallyport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = append(b.members, s)
}

// watch asks every member's readiness again and again, as kubelets do.
func (b *Balancer) watch() {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			b.probe()
		case <-b.done:
			return
		}
	}
}

func (b *Balancer) probe() {
	b.mu.Lock()
	members := append([]*Sallyport(nil), b.members...)
	b.mu.Unlock()
	var ready []*Sallyport
	for _, s := range members {
		if s.Ready() == nil {
			ready = append(ready, s)
		}
	}
	b.mu.Lock()
	b.replicas = ready
	b.mu.Unlock()
}

func (b *Balancer) pick() *Sallyport {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.replicas) == 0 {
		return nil
	}
	b.next++
	return b.replicas[b.next%len(b.replicas)]
}

func (b *Balancer) listen(t testing.TB, address func(*Sallyport) string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.open.Go(func() {
		<-b.done
		listener.Close()
	})
	b.open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			b.open.Go(func() { b.join(client, address) })
		}
	})
	return listener.Addr().String()
}

// join copies both ways between a client and a replica until both have ended, or the test has.
func (b *Balancer) join(client net.Conn, address func(*Sallyport) string) {
	defer client.Close()
	s := b.pick()
	if s == nil {
		return
	}
	server, err := net.Dial("tcp", address(s))
	if err != nil {
		return
	}
	defer server.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(server, client)
		server.(*net.TCPConn).CloseWrite()
	}()
	stop := make(chan struct{})
	go func() {
		select {
		case <-b.done:
			client.Close()
			server.Close()
		case <-stop:
		}
	}()
	io.Copy(client, server)
	client.(*net.TCPConn).CloseWrite()
	<-ended
	close(stop)
}
