package upstream

import "sync"

// Buffers that are held only while something moves through them.
var (
	smallBodies = sync.Pool{New: func() any { return new([maxSmall]byte) }}
	copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}
)

// copySize is how much of an upload or a tunnel is moved at a time.
const copySize = 32 << 10
