package main

import (
	"math"
	"runtime/debug"
)

// ballastSize is what the heap is taken to be larger than it is, which it is not: the ballast is never touched, so that no
// memory stands behind it.
const ballastSize = 16 << 20

// takeBallast makes garbage collections rarer while the heap is small. They begin when the heap has doubled; that of a few
// megabytes does so many times a second, and each has all that is alive looked through. With the ballast none begins before
// there are twice ballastSize, whose upper half is all that it may cost in memory. Who tunes the collector by GOGC or by a
// limit is left alone: nil. What is returned is to be kept for as long as the process serves.
func takeBallast(w world) []byte {
	if _, tuned := w.lookup("GOGC"); tuned || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	return make([]byte, ballastSize)
}
