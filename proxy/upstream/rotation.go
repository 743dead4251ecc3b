package upstream

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
)

// A rotation is the order in which endpoints have their turn. Where weights differ an endpoint stands in it more than
// once, evenly spread: with weights 5, 1 and 1 the order is a b a a a c a, and not five times a in a row. It is worked out
// when endpoints change, so that whose turn it is costs the same for any number of them.
//
// Only the turn changes once a rotation is made.
type rotation struct {
	members  []*Endpoint
	order    []*Endpoint // members themselves where all have the same weight
	weighted bool        // they have not
	turn     atomic.Uint64
}

// longestOrder bounds the turns of one round. Weights whose sum is greater are brought into proportion with it; each
// endpoint has a turn at least.
const longestOrder = 1 << 16

// newRotation makes a rotation that goes on where another stopped: with the endpoint that would have been next, or else the
// nearest after it that stayed. Counting on modulo another length would jump: the one just asked might be asked again,
// others left out. Nil: it begins with the first.
func newRotation(members []*Endpoint, before *rotation) *rotation {
	r := &rotation{members: members, order: evenly(members)}
	r.weighted = len(r.order) != len(members)
	if before == nil {
		return r
	}
	places := make(map[*Endpoint]int, len(members)) // where each has its first turn
	for i, e := range slices.Backward(r.order) {
		places[e] = i
	}
	n, turn := uint64(len(before.order)), before.turn.Load()
	for i := range n {
		if place, stayed := places[before.order[(turn+i)%n]]; stayed {
			r.turn.Store(uint64(place))
			break
		}
	}
	return r
}

// evenly is the order of endpoints by their weights.
func evenly(members []*Endpoint) []*Endpoint {
	turns, sum := turnsOf(members)
	if sum == len(members) {
		return members
	}
	// The k-th of an endpoint's w turns is due at (k + offset) / w of the round. Offsets that are multiples of the golden
	// ratio are spread evenly however many there are: with the same for all, a hundred endpoints of weight 1 beside one of
	// weight 50 would all be due in the middle of the round.
	type turn struct {
		due float64
		at  int // among the members
	}
	all := make([]turn, 0, sum)
	for i, w := range turns {
		_, offset := math.Modf(0.5 + float64(i)*(math.Phi-1))
		for k := range w {
			all = append(all, turn{(float64(k) + offset) / float64(w), i})
		}
	}
	slices.SortFunc(all, func(a, b turn) int { return cmp.Or(cmp.Compare(a.due, b.due), a.at-b.at) })
	order := make([]*Endpoint, len(all))
	for i, t := range all {
		order[i] = members[t.at]
	}
	return order
}

// turnsOf is how many turns each endpoint has in a round, and all have together.
func turnsOf(members []*Endpoint) (turns []int, sum int) {
	turns = make([]int, len(members))
	common, total := 0, 0
	for i, e := range members {
		turns[i] = int(e.weight())
		common = divisor(turns[i], common)
		total += turns[i]
	}
	for i := range turns {
		if total/max(common, 1) <= longestOrder {
			turns[i] /= common
		} else {
			turns[i] = max(1, int(math.Round(float64(turns[i])*longestOrder/float64(total))))
		}
		sum += turns[i]
	}
	return turns, sum
}

// divisor is the greatest common divisor.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// next is where in order the endpoint stands whose turn it is. There must be one.
func (r *rotation) next() int {
	turn := r.turn.Add(1) - 1
	if n := uint64(len(r.order)); turn >= n {
		return int(turn % n)
	}
	return int(turn)
}

// draws is how often an endpoint is drawn before they are looked through. With half of them unfit one pick in 256 comes
// to that, and then the one behind those that are unfit is likelier than others.
const draws = 8

// two are the endpoints that a random number stands for, which may be one and the same.
func (r *rotation) two(drawn uint64) (a, b *Endpoint) {
	n := uint64(len(r.order))
	return r.order[(drawn>>32)*n>>32], r.order[(drawn&math.MaxUint32)*n>>32]
}

// any draws an endpoint that fits and is not the one named, by weight; nil when there is none.
func (r *rotation) any(pick *Pick, slow slowStart, not *Endpoint) *Endpoint {
	var spare *Endpoint
	for range draws {
		e := r.order[rand.Uint64N(uint64(len(r.order)))]
		if e == not || !pick.Fits(e) {
			continue
		}
		if !slow.declines(e) {
			return e
		}
		spare = e
	}
	if spare != nil {
		return spare
	}
	first := rand.IntN(len(r.members))
	for i := range r.members {
		if e := r.members[(first+i)%len(r.members)]; e != not && pick.Fits(e) {
			return e
		}
	}
	return nil
}

// A rotating policy keeps a rotation of the pool's endpoints.
type rotating struct {
	rotation atomic.Pointer[rotation]
}

// Changed makes the rotation of other endpoints.
func (p *rotating) Changed(_, now []*Endpoint) { p.rotation.Store(newRotation(now, p.rotation.Load())) }

// current is the rotation, nil while there are no endpoints.
func (p *rotating) current() *rotation {
	if r := p.rotation.Load(); r != nil && len(r.members) > 0 {
		return r
	}
	return nil
}
