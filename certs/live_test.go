package certs

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What is served is another certificate as soon as it was set; 200 handshakes a second go on meanwhile.
func TestACertificateIsRotatedUnderLoad(t *testing.T) {
	var store Store
	old, young := pairFor(t, "old.test", "a.test"), pairFor(t, "young.test", "a.test")
	set := func(p *tls.Certificate) {
		store.Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{p}}}})
	}
	set(old)
	address := listen(t, &store)
	var swapped atomic.Int64 // when; 0: not yet
	var made, late, failed, news atomic.Int64
	var clients sync.WaitGroup
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for i := range 400 {
		<-ticker.C
		if i == 200 {
			set(young)
			swapped.Store(time.Now().UnixNano())
		}
		clients.Go(func() {
			began := time.Now().UnixNano()
			c, err := tls.Dial("tcp", address, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true})
			if err != nil {
				failed.Add(1)
				return
			}
			defer c.Close()
			made.Add(1)
			at := swapped.Load()
			switch isOld := shown(c) == "old.test"; {
			case !isOld:
				news.Add(1)
			case at != 0 && began > at: // a handshake that began after must have the new one, let alone 100 ms later
				late.Add(1)
			}
		})
	}
	clients.Wait()
	if failed.Load() != 0 || late.Load() != 0 || made.Load() != 400 || news.Load() < 100 {
		t.Errorf("of %d handshakes %d failed, %d had the old certificate after it was replaced, and %d the new one", made.Load(), failed.Load(), late.Load(), news.Load())
	}
}

// Two stores are two replicas, behind a balancer that sends connections to one after the other.
func TestSessionsAreResumedAtAnotherReplica(t *testing.T) {
	pair := pairFor(t, "a.test")
	var stores [2]Store
	var addresses [2]string
	for i := range stores {
		stores[i].Set(Certificates{ByHost: map[string]*Host{"a.test": {Pairs: []*tls.Certificate{pair}}}})
		addresses[i] = listen(t, &stores[i])
	}
	keys := make([]TicketKey, 4)
	for i := range keys {
		var err error
		if keys[i], err = NewTicketKey(); err != nil {
			t.Fatal(err)
		}
	}
	share := func(keys ...TicketKey) {
		for i := range stores {
			if err := stores[i].SetTicketKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	balancer := balance(t, addresses[:])
	cache := tls.NewLRUClientSessionCache(1)
	rate := func(n int) (resumed int) {
		for range n {
			c, err := tls.Dial("tcp", balancer, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, ClientSessionCache: cache})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if c.ConnectionState().DidResume {
				resumed++
			}
			c.Close()
		}
		return resumed
	}
	share(keys[0])
	rate(1)
	if n := rate(100); n <= 95 {
		t.Errorf("%d of 100 handshakes resumed a session with shared keys, want more than 95", n)
	} else {
		t.Logf("%d of 100 handshakes resumed a session over two replicas", n)
	}
	share(keys[1], keys[0])
	if n := rate(1); n != 1 {
		t.Error("a ticket of the key before the last rotation was refused")
	}
	share(keys[3], keys[2])
	if n := rate(1); n != 0 {
		t.Error("a ticket of a key that was rotated out resumed a session")
	}
	if n := rate(1); n != 1 {
		t.Error("a session under the new keys was not resumed")
	}
}

// balance passes connections on to one address after the other.
func balance(t *testing.T, addresses []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	running.Go(func() {
		for i := 0; ; i++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			replica, err := net.Dial("tcp", addresses[i%len(addresses)])
			if err != nil {
				client.Close()
				continue
			}
			running.Go(func() { io.Copy(replica, client); replica.Close() })
			running.Go(func() { io.Copy(client, replica); client.Close() })
		}
	})
	return l.Addr().String()
}

func TestTheKeyExchangeIsHybridAndThereIsNoEarlyData(t *testing.T) {
	var store Store
	address := listen(t, &store)
	c := handshake(t, address, "a.test")
	state := c.ConnectionState()
	if state.Version != tls.VersionTLS13 || state.CurveID != tls.X25519MLKEM768 {
		t.Errorf("version %x with the key exchange %v, want TLS 1.3 and X25519MLKEM768", state.Version, state.CurveID)
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		if c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}); err == nil {
			c.Close()
			t.Errorf("version %x was spoken", version)
		}
	}
}
