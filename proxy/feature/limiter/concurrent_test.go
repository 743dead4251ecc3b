package limiter

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestConcurrentCountsWhatIsInFlight(t *testing.T) {
	c := NewConcurrent(2)
	for i, want := range []bool{true, true, false, false} {
		if ok := c.Acquire(client(1)); ok != want {
			t.Errorf("request %d: %v, want %v", i+1, ok, want)
		}
	}
	if !c.Acquire(client(2)) {
		t.Error("another client is refused")
	}
	c.Release(client(1))
	if !c.Acquire(client(1)) || c.Acquire(client(1)) {
		t.Error("one that ended does not make room for one")
	}
	for range 2 {
		c.Release(client(1))
	}
	c.Release(client(2))
	if n := len(c.inFlight); n != 0 {
		t.Errorf("%d clients are remembered when none has anything in flight", n)
	}
}

func TestConcurrentWithoutLimitTakesOne(t *testing.T) {
	c := NewConcurrent(0)
	if !c.Acquire(client(1)) || c.Acquire(client(1)) {
		t.Error("a limit below 1 is not 1")
	}
}

func TestConcurrentIsExactAmongGoroutines(t *testing.T) {
	c := NewConcurrent(3)
	var now, most atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				if !c.Acquire(client(1)) {
					continue
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				runtime.Gosched()
				now.Add(-1)
				c.Release(client(1))
			}
		})
	}
	all.Wait()
	if most.Load() != 3 {
		t.Errorf("%d were in flight together, want the limit of 3 and no more", most.Load())
	}
	if n := len(c.inFlight); n != 0 {
		t.Errorf("%d clients are remembered when none has anything in flight", n)
	}
}

func TestConcurrentGivesBackTheRoomOfAFlood(t *testing.T) {
	c := NewConcurrent(1)
	before := heap()
	for i := range 200_000 {
		c.Acquire(client(i))
	}
	if used := heap() - before; used < 1<<20 {
		t.Fatalf("a flood holds %d bytes: too little to see it go", used)
	}
	for i := range 200_000 {
		c.Release(client(i))
	}
	if used := heap() - before; used > 256<<10 {
		t.Errorf("%d bytes are held when none is in flight", used)
	}
	runtime.KeepAlive(c)
}

func TestAcquireAllocatesNothing(t *testing.T) {
	c := NewConcurrent(5)
	c.Acquire(client(1))
	if n := testing.AllocsPerRun(1000, func() { c.Acquire(client(1)); c.Release(client(1)) }); n != 0 {
		t.Errorf("Acquire and Release allocate %v times", n)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	c := NewConcurrent(5)
	b.ReportAllocs()
	for b.Loop() {
		c.Acquire(client(1))
		c.Release(client(1))
	}
}
