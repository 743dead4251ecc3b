package limiter

import "sync"

// A Concurrent says which requests exceed how many their client may have under way.
type Concurrent struct {
	limit int

	mu       sync.Mutex // guards what follows
	inFlight map[Key]int
	most     int // keys that inFlight ever had
}

// NewConcurrent makes a Concurrent that lets each client have limit requests under way. Below 1 counts as 1.
func NewConcurrent(limit int) *Concurrent {
	return &Concurrent{limit: max(limit, 1), inFlight: map[Key]int{}}
}

// Acquire counts a request of a client and reports true, or reports false and counts nothing when the client has as many
// as it may. After true, and only then, the caller owes one Release.
func (c *Concurrent) Acquire(key Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.inFlight[key]
	if n >= c.limit {
		return false
	}
	c.inFlight[key] = n + 1
	c.most = max(c.most, len(c.inFlight))
	return true
}

// keptRoom is how many keys a map may have had whose room is kept when it is empty.
const keptRoom = 1024

// Release ends a request of a client.
func (c *Concurrent) Release(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.inFlight[key]; n > 1 {
		c.inFlight[key] = n - 1
		return
	}
	delete(c.inFlight, key)
	if len(c.inFlight) == 0 && c.most > keptRoom {
		c.inFlight, c.most = map[Key]int{}, 0 // a map never gives back the room of a flood by itself
	}
}
