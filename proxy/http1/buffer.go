package http1

import (
	"sync"
)

// Buffers of a Reader come in two sizes, so that an answer of a few bytes holds little and a long one is read in long
// pieces. A buffer belongs to a Reader only while an exchange is under way.
const (
	smallBuffer = 4 << 10
	bigBuffer   = 32 << 10
)

var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	bigBuffers   = sync.Pool{New: func() any { return new([bigBuffer]byte) }}
)

// release gives a buffer back by its size; one of another size is left to the collector.
func release(b []byte) {
	switch cap(b) {
	case smallBuffer:
		smallBuffers.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	case bigBuffer:
		bigBuffers.Put((*[bigBuffer]byte)(b[:bigBuffer]))
	}
}

// fill reads more from the source behind what is buffered. It makes room first: a buffer that has been full is replaced
// by a bigger one, up to limit bytes, beyond which fill returns ErrHeadTooBig.
func (r *Reader) fill(limit int) error {
	r.makeRoom(limit)
	if r.w == len(r.buf) {
		return ErrHeadTooBig
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.w:])
		r.w += n
		if n > 0 {
			r.started = true
			return nil // the error, if any, comes again
		}
		if err != nil {
			return err
		}
	}
	return errStuck
}

// Room is where a caller may put bytes that it reads from the source itself; it tells how many with Filled. The slice is
// good until the next call.
func (r *Reader) Room() []byte {
	r.makeRoom(MaxHead)
	return r.buf[r.w:]
}

// Filled says that n bytes of the Room hold what came from the source next.
func (r *Reader) Filled(n int) {
	r.w += n
	r.started = r.started || n > 0
}

func (r *Reader) makeRoom(limit int) {
	switch {
	case r.buf == nil:
		r.buf = smallBuffers.Get().(*[smallBuffer]byte)[:]
	case r.r == r.w && r.w == len(r.buf) && len(r.buf) < bigBuffer:
		release(r.buf)
		r.buf = bigBuffers.Get().(*[bigBuffer]byte)[:]
		r.r, r.w = 0, 0
	case r.r == r.w:
		r.r, r.w = 0, 0
	case r.w == len(r.buf) && r.r > 0:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	case r.w == len(r.buf) && len(r.buf) < limit:
		var bigger []byte
		if len(r.buf) < bigBuffer {
			bigger = bigBuffers.Get().(*[bigBuffer]byte)[:]
		} else {
			bigger = make([]byte, min(2*len(r.buf), limit))
		}
		r.w = copy(bigger, r.buf[r.r:r.w])
		r.r = 0
		release(r.buf)
		r.buf = bigger
	}
}
