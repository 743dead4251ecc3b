package main

import "testing"

// TestGarbageGathersInASmallHeap lets a heap grow to what is worth collecting, and twice what lives if that is more.
func TestGarbageGathersInASmallHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 3100, 1 << 20: 3100, 4 << 20: 700, 16 << 20: 100, 1 << 30: 100} {
		if got := garbage(live); got != want {
			t.Errorf("%d MiB alive: %d %%, want %d", live>>20, got, want)
		}
	}
}
