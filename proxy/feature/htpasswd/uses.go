package htpasswd

import "sync"

// uses remembers which numbers of uses (nc) of which nonces were seen, so that each counts once: somebody who heard a
// request cannot send it again.
//
// A client may have several requests under way, which overtake one another; so what is kept of a nonce is the highest
// number and which of the 64 up to it were seen. Lower ones count as seen.
//
// At most 2 * maxNonces are kept, in two generations: a nonce that is used moves into the young one; when that is full it
// becomes the old one, and the old one is forgotten. A nonce that is not kept may be forgotten or new. Nonces are numbered
// as they are made: one above all that were forgotten is new, others count as stale. Only who proves a password gets a
// nonce kept.
type uses struct {
	mu         sync.Mutex // guards what follows
	young, old map[uint64]window
	forgotten  uint64 // the highest number among them
}

const maxNonces = 4096

type window struct {
	highest uint32
	seen    uint64 // bit i: highest-i was
}

// first reports whether this is the first time that count is seen of a nonce, and remembers that it was.
func (u *uses) first(nonce uint64, count uint32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	w, kept := u.young[nonce]
	if !kept {
		if w, kept = u.old[nonce]; !kept && nonce <= u.forgotten {
			return false
		}
	}
	if !w.mark(count) {
		return false
	}
	delete(u.old, nonce)
	if len(u.young) >= maxNonces {
		for number := range u.old {
			u.forgotten = max(u.forgotten, number)
		}
		u.young, u.old = nil, u.young
		delete(u.old, nonce)
	}
	if u.young == nil {
		u.young = map[uint64]window{}
	}
	u.young[nonce] = w
	return true
}

func (w *window) mark(count uint32) bool {
	if count > w.highest {
		w.seen = w.seen<<(count-w.highest) | 1 // a shift by 64 or more leaves nothing
		w.highest = count
		return true
	}
	bit := uint64(1) << (w.highest - count)
	if count == 0 || bit == 0 || w.seen&bit != 0 {
		return false
	}
	w.seen |= bit
	return true
}
