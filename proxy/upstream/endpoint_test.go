package upstream

import (
	"testing"
	"unsafe"
)

// TestWhatPicksLookAtIsOneLineOfTheCache: a pick among a thousand endpoints waits for the memory of those that it looks at.
func TestWhatPicksLookAtIsOneLineOfTheCache(t *testing.T) {
	const line = 64
	var e Endpoint
	for what, end := range map[string]uintptr{
		"inFlight":      unsafe.Offsetof(e.inFlight) + unsafe.Sizeof(e.inFlight),
		"limit":         unsafe.Offsetof(e.limit) + unsafe.Sizeof(e.limit),
		"share":         unsafe.Offsetof(e.share) + unsafe.Sizeof(e.share),
		"latency":       unsafe.Offsetof(e.latency) + unsafe.Sizeof(e.latency),
		"health.until":  unsafe.Offsetof(e.health) + unsafe.Offsetof(e.health.until) + unsafe.Sizeof(e.health.until),
		"health.unwell": unsafe.Offsetof(e.health) + unsafe.Offsetof(e.health.unwell) + unsafe.Sizeof(e.health.unwell),
	} {
		if end > line {
			t.Errorf("%s ends at byte %d of an Endpoint, want it within the first %d", what, end, line)
		}
	}
	for _, endpoint := range crowded(1000, 0).members() {
		if at := uintptr(unsafe.Pointer(endpoint)); at%line != 0 {
			t.Fatalf("an endpoint begins %d bytes behind the beginning of a line (its size is %d)", at%line, unsafe.Sizeof(e))
		}
	}
}
