package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastHeap is how many bytes the heap may grow to before it is collected. A proxy that holds little would else collect after
// every 4 MiB, a dozen times a second under load, which took a tenth of its time.
const leastHeap = 32 << 20

// A collection decides after each collection when the next one comes.
type collection struct {
	live    []metrics.Sample
	percent int // that the garbage may be of what lives, as GOGC has it
}

// easeCollection lets garbage gather up to leastHeap, unless GOGC says how much may. What GOMEMLIMIT says holds too.
func easeCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := &collection{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: 100}
	c.over()
}

// over is called when a collection is over.
func (c *collection) over() {
	metrics.Read(c.live)
	percent := garbage(c.live[0].Value.Uint64())
	if difference := percent - c.percent; difference > c.percent/8 || -difference > c.percent/8 { // to set it stops all goroutines
		debug.SetGCPercent(percent)
		c.percent = percent
	}
	runtime.AddCleanup(new(*collection), (*collection).over, c)
}

// garbage is how many percent of the bytes that live may be added before the next collection.
func garbage(live uint64) int {
	return max(100, int(leastHeap*100/max(live, 1<<20))-100)
}
