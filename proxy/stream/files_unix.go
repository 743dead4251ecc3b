//go:build unix

package stream

import (
	"math"
	"sync"
	"sync/atomic"
	"syscall"
)

// A connection or flow takes file descriptors, of which the process has a number set by its surroundings. Where all of them
// are in use nobody can be served, HTTP and probes included; so streams have half of them, and turn clients away beyond.
const (
	// filesOfConnection are two sockets, and a pipe of two ends for each direction while it is spliced.
	filesOfConnection = 6
	filesOfFlow       = 1
)

// files counts the descriptors that streams hold. The zero value is ready.
type files struct {
	held  atomic.Int64
	once  sync.Once
	limit int64 // good once once has run
}

// take takes n more, unless there are too many then.
func (f *files) take(n int64) bool {
	f.once.Do(func() {
		var limit syscall.Rlimit
		f.limit = math.MaxInt64
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur)/2 < math.MaxInt64 {
			f.limit = int64(limit.Cur / 2)
		}
	})
	if f.held.Add(n) > f.limit {
		f.held.Add(-n)
		return false
	}
	return true
}

func (f *files) give(n int64) { f.held.Add(-n) }
