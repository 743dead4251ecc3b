package feature

import (
	"runtime"
	"testing"
)

func TestInternedIsKeptAsLongAsItIsUsed(t *testing.T) {
	var i interned[[64]byte]
	made := 0
	get := func() *[64]byte { return i.get("text", func() *[64]byte { made++; return new([64]byte) }) }
	held := get()
	runtime.GC()
	if get() != held || made != 1 {
		t.Fatalf("made %d times while it is used", made)
	}
	runtime.KeepAlive(held)
	held = nil
	for range 1000 { // a cleanup runs some time after the collection
		runtime.GC()
		i.mu.Lock()
		n := len(i.known)
		i.mu.Unlock()
		if n == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Error("it is remembered though nobody uses it")
}

func TestInternedKeepsNoNil(t *testing.T) {
	var i interned[int]
	if got := i.get("bad", func() *int { return nil }); got != nil || len(i.known) != 0 {
		t.Errorf("got %v, remembered %d", got, len(i.known))
	}
}
