package limiter

import "hash/maphash"

// A table keeps buckets by key in two slices without pointers, which the garbage collector never walks: a hash table
// whose chains, and a ring in the order last seen whose links, are numbers of buckets. Bucket 0 belongs to nobody; it
// ends every chain, and joins the ends of the ring.
//
//	heads    hash → first bucket of its chain
//	buckets  0 ⇄ most recently seen ⇄ … ⇄ least recently seen ⇄ 0
//
// A bucket that has run empty says no more than none would, so that a newcomer takes that of the least recently seen
// client as soon as it is empty. The table therefore grows with the clients of the time in which a bucket runs empty,
// not with those of all times. It doubles up to its capacity; there, newcomers take that bucket, empty or not.
type table struct {
	capacity int
	heads    []uint32 // a power of two, as many as there are buckets or more
	buckets  []bucket
	empty    int64 // when all buckets will have run empty
}

type bucket struct {
	key          Key
	empty        [MaxLimits]int64 // when it will be, by each limit; nanoseconds since the start of the Rate
	next         uint32           // in its chain
	newer, older uint32           // in the ring
}

const (
	bucketBytes = 48
	headBytes   = 4
	firstSize   = 64 // buckets of a table that grows; bucket 0 is one of them
)

// MaxBytes is what a full Rate of that capacity holds: 52 bytes for each client, some 3.3 MiB with DefaultCapacity, or
// up to 56 where the capacity is no power of two. While it grows, what it held before, at most half of that, is there as
// well.
func MaxBytes(capacity int) int {
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	return (capacity+1)*bucketBytes + heads(capacity)*headBytes
}

// heads is how many chains there are for a number of clients.
func heads(clients int) int {
	n := firstSize
	for n < clients {
		n *= 2
	}
	return n
}

var seed = maphash.MakeSeed()

func (t *table) chain(key *Key) *uint32 {
	return &t.heads[maphash.Bytes(seed, key[:])&uint64(len(t.heads)-1)]
}

// find returns the bucket of a client, which becomes the most recently seen. It is valid until the next find.
func (t *table) find(key Key, at int64) *bucket {
	if at >= t.empty && len(t.buckets) > firstSize {
		t.heads, t.buckets = nil, nil // a flood has passed
	}
	if t.buckets == nil {
		t.grow()
	}
	n := *t.chain(&key)
	for n != 0 && t.buckets[n].key != key {
		n = t.buckets[n].next
	}
	if n == 0 {
		n = t.take(at)
		head := t.chain(&key) // take may have moved it
		t.buckets[n] = bucket{key: key, next: *head}
		*head = n
	} else {
		t.unlink(n)
	}
	t.link(n)
	return &t.buckets[n]
}

// take returns a bucket for a newcomer, which is in no chain and not in the ring.
func (t *table) take(at int64) uint32 {
	oldest := t.buckets[0].newer
	if oldest != 0 && (t.buckets[oldest].drained(at) || len(t.buckets) > t.capacity) {
		t.unlink(oldest)
		link := t.chain(&t.buckets[oldest].key)
		for *link != oldest {
			link = &t.buckets[*link].next
		}
		*link = t.buckets[oldest].next
		return oldest
	}
	if len(t.buckets) == cap(t.buckets) {
		t.grow()
	}
	t.buckets = t.buckets[:len(t.buckets)+1]
	return uint32(len(t.buckets) - 1)
}

func (b *bucket) drained(at int64) bool {
	for _, empty := range b.empty {
		if empty > at {
			return false
		}
	}
	return true
}

// grow doubles the room, and never beyond what the capacity needs.
func (t *table) grow() {
	size := min(max(2*cap(t.buckets), firstSize), t.capacity+1)
	buckets := make([]bucket, max(len(t.buckets), 1), size)
	copy(buckets, t.buckets)
	t.buckets = buckets
	if n := heads(size - 1); n > len(t.heads) {
		t.heads = make([]uint32, n)
		for i := range t.buckets[1:] {
			n := uint32(i + 1)
			head := t.chain(&t.buckets[n].key)
			t.buckets[n].next, *head = *head, n
		}
	}
}

// link puts a bucket at the recent end of the ring.
func (t *table) link(n uint32) {
	ring := t.buckets
	recent := ring[0].older
	ring[n].newer, ring[n].older = 0, recent
	ring[0].older, ring[recent].newer = n, n
}

func (t *table) unlink(n uint32) {
	newer, older := t.buckets[n].newer, t.buckets[n].older
	t.buckets[newer].older, t.buckets[older].newer = older, newer
}
