//go:build !race

package feature

import "testing"

// The race detector has values on the heap that are not there without it.
func TestFeaturesCostTwoAllocations(t *testing.T) {
	plain := testing.AllocsPerRun(1000, route(t, nil))
	if n := testing.AllocsPerRun(1000, route(t, costly)) - plain; n > 2 {
		t.Errorf("CORS, a limit, a list and a rewrite allocate %v times more, want 2 at most", n)
	}
}
