package feedback

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"
)

func TestTicketKeysAreRotated(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	data, err := rotated(nil, start)
	if err != nil || len(data) != 1 {
		t.Fatalf("%d keys, %v; want one", len(data), err)
	}
	first := usable(data, start)
	if len(first) != 1 {
		t.Fatalf("%d keys are used at once, want the only one", len(first))
	}
	if again, err := rotated(data, start.Add(ticketRotate-time.Second)); again != nil || err != nil {
		t.Errorf("a young key was replaced (%v)", err)
	}
	later := start.Add(ticketRotate)
	if data, err = rotated(data, later); err != nil || len(data) != 2 {
		t.Fatalf("%d keys, %v; want two", len(data), err)
	}
	if keys := usable(data, later); len(keys) != 2 || keys[0] != first[0] {
		t.Error("a key makes tickets before the other replicas can know it")
	}
	ready := usable(data, later.Add(ticketReady))
	if len(ready) != 2 || ready[0] == first[0] || ready[1] != first[0] {
		t.Error("the younger key does not take over, or the older one opens no tickets")
	}
	for i := range 2 {
		later = later.Add(ticketRotate)
		if data, err = rotated(data, later); err != nil || len(data) != ticketKeys {
			t.Fatalf("rotation %d: %d keys, %v; want three", i, len(data), err)
		}
	}
	for _, key := range usable(data, later.Add(ticketReady)) {
		if key == first[0] {
			t.Error("the oldest key still opens tickets")
		}
	}
	data["rubbish"], data["99999999999"], data["1800000000"] = []byte("x"), bytes.Repeat([]byte("x"), 32), []byte("short")
	if keys := usable(data, later.Add(ticketReady)); len(keys) != ticketKeys {
		t.Errorf("%d keys, want those that are some", len(keys))
	}
	if data, err = rotated(data, later); err != nil || len(data) != ticketKeys {
		t.Errorf("%d entries, %v; want what is no key taken away", len(data), err)
	}
}

func TestReplicasShareTheKeysOfTheLeader(t *testing.T) {
	a := newAPIServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	got := make(map[string][][32]byte)
	var running sync.WaitGroup
	for _, name := range []string{"replica-1", "replica-2"} {
		w := a.writer(t, Options{Identity: name, Lease: "sallyport-leader", LeaseDuration: shortestLease, NoStatus: true, Tickets: func(keys [][32]byte) {
			mu.Lock()
			defer mu.Unlock()
			got[name] = keys
		}})
		running.Go(func() { w.Run(ctx) })
	}
	eventually(t, "both replicas have the same key", func() bool {
		mu.Lock()
		defer mu.Unlock()
		one, two := got["replica-1"], got["replica-2"]
		return len(one) == 1 && len(two) == 1 && one[0] == two[0]
	})
	cancel()
	running.Wait()
	if n := len(a.written("POST /api/v1/namespaces/sallyport/secrets")); n != 1 {
		t.Errorf("the Secret was created %d times, want once", n)
	}
}
