package upstream

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"
)

// A ring says which endpoint has a key, so that an endpoint that comes or goes moves the keys of its own share and no
// others, and so that every replica of the proxy says the same.
//
// The numbers of 64 bits are bent into a circle. Each endpoint has 160 points on it, which follow from its address alone; a
// key is hashed to a number too, and belongs to the endpoint of the first point at or behind that. With four points:
//
//	10 b   35 a   60 b   90 a        a key at 40 belongs to b, one at 95, round the corner, to b as well
//	10 b   35 a   50 c   60 b   90 a    c came: keys from 36 to 50 move to it, all others stay
//
// With 160 points the shares of endpoints differ from an equal one by 8% of it, as standard deviation. Where endpoints
// have weights, points are more or fewer in proportion.
//
// A ring never changes; another is made when endpoints do.
type ring struct {
	// circle are the endpoints in the order of their hashes, which is the same whatever order they came in, and in which
	// those that stay keep their neighbours but for one.
	circle []*Endpoint
	// points have the upper bits of a point above the index of its endpoint in circle, and are sorted. A point is the first
	// with its upper bits at least; that two share all of them happens once in some hundred rings of a thousand endpoints,
	// and is decided by the index.
	points []uint64
	// starts are the first points whose upper bits are at least those that index it, one entry for about every point: what
	// binary search would find in seventeen steps is at most a few away.
	starts []uint32
	shift  uint // of a hash to index starts
}

const (
	pointsEach = 160 // as Ketama has them

	indexBits = 24
	indexMask = 1<<indexBits - 1
)

func newRing(endpoints []*Endpoint) *ring {
	type placed struct {
		endpoint *Endpoint
		hash     uint64
	}
	all := make([]placed, len(endpoints))
	total := 0.0
	for i, e := range endpoints {
		all[i] = placed{e, hashAddrPort(e.addr)}
		total += e.weight()
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), a.endpoint.addr.Compare(b.endpoint.addr))
	})
	r := &ring{circle: make([]*Endpoint, len(all)), points: make([]uint64, 0, pointsEach*len(all))}
	for i, p := range all {
		r.circle[i] = p.endpoint
		own := int(math.Round(pointsEach * float64(len(all)) * p.endpoint.weight() / total))
		for k := range max(1, own) {
			r.points = append(r.points, scramble(p.hash+uint64(k)*golden)&^indexMask|uint64(i))
		}
	}
	slices.Sort(r.points)
	r.shift = uint(64 - bits.Len(uint(len(r.points))))
	r.starts = make([]uint32, 1<<(64-r.shift))
	at := uint32(0)
	for i := range r.starts {
		for int(at) < len(r.points) && r.points[at]>>r.shift < uint64(i) {
			at++
		}
		r.starts[i] = at
	}
	return r
}

// at is the index of the point that a hash belongs to. There must be one.
func (r *ring) at(hash uint64) int {
	hash &^= indexMask
	i := int(r.starts[hash>>r.shift])
	for i < len(r.points) && r.points[i] < hash {
		i++
	}
	if i == len(r.points) {
		return 0
	}
	return i
}

// of is the endpoint of a point, as index into circle.
func (r *ring) of(point int) int { return int(r.points[point] & indexMask) }

// next is the endpoint, as index into circle, that is met after k others from a point on. There must be more than k.
func (r *ring) next(point, k int) int {
	var room [16]int
	met := room[:0]
	for {
		i := r.of(point)
		if !slices.Contains(met, i) {
			if len(met) == k {
				return i
			}
			met = append(met, i)
		}
		if point++; point == len(r.points) {
			point = 0
		}
	}
}

// named is the endpoint that a hash belongs to, whether it fits or not; nil where there is none.
func (r *ring) named(hash uint64) *Endpoint {
	if r == nil || len(r.points) == 0 {
		return nil
	}
	return r.circle[r.of(r.at(hash))]
}

// walked is how many points are looked at for an endpoint that fits.
const walked = 32

// find returns the endpoint that a hash belongs to, or, where that does not fit, the next on the ring that does: the keys
// of one that is away are spread over all others. Where hardly any fits, which costs a walk too long, it is the next in the
// circle.
func (r *ring) find(hash uint64, pick *Pick) *Endpoint {
	if r == nil || len(r.points) == 0 {
		return nil
	}
	point := r.at(hash)
	for range min(walked, len(r.points)) {
		if e := r.circle[r.of(point)]; pick.Fits(e) {
			return e
		}
		if point++; point == len(r.points) {
			point = 0
		}
	}
	return pick.from(r.circle, r.of(point))
}

// Hashes are the same in every process and must stay so from version to version: while a new one is rolled out, both serve.
// They keep no secret. Who chooses a key chooses the endpoint too, here as with any key that clients send.

// golden is 2^64 over the golden ratio.
const golden = 0x9e3779b97f4a7c15

// scramble is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashText is the hash of a text, begun with what stands before it.
func hashText(before uint64, text string) uint64 {
	h := scramble(before + golden*uint64(len(text)+1))
	for len(text) >= 8 {
		chunk := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		h = scramble(h^chunk) + golden
		text = text[8:]
	}
	rest := uint64(0)
	for i := range len(text) {
		rest |= uint64(text[i]) << (8 * i)
	}
	return scramble(h ^ rest)
}

// hashAddr is the hash of an address. ::ffff:10.0.0.1 is 10.0.0.1.
func hashAddr(a netip.Addr) uint64 {
	b := a.As16()
	return scramble(scramble(binary.BigEndian.Uint64(b[:8])+golden) ^ binary.BigEndian.Uint64(b[8:]))
}

func hashAddrPort(a netip.AddrPort) uint64 {
	return scramble(hashAddr(a.Addr()) + uint64(a.Port())*golden)
}
