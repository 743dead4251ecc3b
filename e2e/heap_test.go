package e2e_test

import (
	"testing"

	"sallyport/e2e"
)

// TestASmallHeapIsCollectedSeldom lets garbage gather in a process that holds little, unless its operator says how much may.
func TestASmallHeapIsCollectedSeldom(t *testing.T) {
	folder := e2e.Folder(t, nil)
	percent := func(environment ...string) float64 {
		p := e2e.LaunchIn(t, environment, "--manifests="+folder)
		p.WaitReady(t)
		return p.Metric(t, "go_gc_gogc_percent")
	}
	if p := percent("GOGC="); p <= 100 {
		t.Errorf("the garbage may be %v %% of what lives, want more than 100", p)
	}
	if p := percent("GOGC=50"); p != 50 {
		t.Errorf("with GOGC=50 it may be %v %%, want 50", p)
	}
}
