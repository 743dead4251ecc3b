package feedback

import (
	"maps"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A book is what a leader has to tell and what it has told. It says what is next, one notice at a time, so that what has come
// up a moment ago does not queue behind what can wait:
//
//	a new mistake, then one that was there when this replica began to lead, which another may have told,
//	then that an Ingress is served, then what is told again
//
// and of each of these, first what belongs to the namespace whose turn was longest ago: somebody with a thousand mistakes
// delays nobody else by more than one of them.
type book struct {
	entries map[notice]*entry
	begun   bool                   // there was a state
	serving map[types.UID]struct{} // Ingresses that were served in the last state

	turns  map[string]uint64 // the last turn of each namespace
	turn   uint64
	shut   map[string]*closure // namespaces in which no Event may be made
	paused time.Time           // nothing is told before: the API server did not answer
}

// A rank is how urgent something is. The smallest comes first.
type rank int

const (
	fresh rank = iota
	inherited
	served
	again
)

// An entry is what is known of one notice.
type entry struct {
	rank       rank
	due        time.Time // zero: there is nothing to tell until something changes
	told       time.Time // the last time; zero: never
	count      int       // how often it was told
	generation int64     // of the object
	holds      bool      // as of the last state
	once       bool      // it is no state that holds, but something that happened
	failures   int       // since it was told
}

// A closure is how long a namespace takes no Events, as far as is known.
type closure struct {
	until    time.Time
	failures int
}

const (
	// keptFor is how long an API server keeps an Event (its flag --event-ttl).
	keptFor = time.Hour
	// tellAgain is how long before that a problem that still holds is told anew.
	tellAgain = 45 * time.Minute
	// settle is how long a problem lasts before it is told: the Service of an Ingress is often written a moment after it,
	// and a Secret that is replaced is gone in between.
	settle = 400 * time.Millisecond
	// repeatAfter is the least time between two sightings of one problem that comes and goes, or whose object is edited.
	repeatAfter = 10 * time.Second
	// After a failure a notice waits, twice as long each time, and so does a namespace that takes none.
	firstBackoff, longestBackoff = 2 * time.Second, 5 * time.Minute
	// pause is how long an API server is left alone that does not answer.
	pause = time.Second
	// longestSleep bounds how long nothing is looked at.
	longestSleep = time.Minute
)

func newBook() *book {
	return &book{entries: make(map[notice]*entry), turns: make(map[string]uint64), shut: make(map[string]*closure)}
}

// see takes a state. What no longer holds is not told any more; if it comes back, that is another sighting.
func (b *book) see(notices map[notice]int64, now time.Time) {
	for n, generation := range notices {
		e := b.entries[n]
		switch {
		case e == nil:
			e = &entry{rank: fresh, due: now.Add(settle)}
			if !b.begun {
				e.rank = inherited
			}
			b.entries[n] = e
		case !e.holds:
			e.due = later(now.Add(settle), e.told.Add(repeatAfter))
		case e.generation != generation && (e.due.IsZero() || !e.told.IsZero()):
			e.due = earlier(e.due, later(now, e.told.Add(repeatAfter)))
		}
		e.holds, e.generation = true, generation
	}
	maps.DeleteFunc(b.entries, func(n notice, e *entry) bool {
		if _, holds := notices[n]; holds || e.once && !e.due.IsZero() {
			return false
		}
		e.holds = false
		e.due = time.Time{}
		return e.told.IsZero() || now.Sub(e.told) >= keptFor
	})
	maps.DeleteFunc(b.shut, func(_ string, c *closure) bool { return now.Sub(c.until) > longestBackoff }) // nobody asked any more
	b.begun = true
}

// seeServed owes an Event to every Ingress that was not served before. Of those that were there when this replica began
// to lead, the older ones have been told of by another. It comes before see.
func (b *book) seeServed(ingresses []*networkingv1.Ingress, now time.Time) {
	serving := make(map[types.UID]struct{}, len(ingresses))
	for _, ingress := range ingresses {
		serving[ingress.UID] = struct{}{}
		_, before := b.serving[ingress.UID]
		if !before && (b.begun || now.Sub(ingress.CreationTimestamp.Time) < keptFor) {
			b.happened(servedNotice(ingress), served, now)
		}
	}
	maps.DeleteFunc(b.entries, func(n notice, e *entry) bool {
		_, still := serving[n.uid]
		return e.rank == served && !still
	})
	b.serving = serving
}

// happened takes something that is told once.
func (b *book) happened(n notice, r rank, now time.Time) {
	e := b.entries[n]
	if e == nil {
		e = &entry{rank: r, once: true}
		b.entries[n] = e
	}
	e.due = later(now, e.told.Add(repeatAfter))
}

// next is what is to be told now, the most urgent first; nil if there is nothing, and then how long there will not be. It looks
// at everything, which takes less than a millisecond for ten thousand notices, and fewer than a hundred are told in a second.
func (b *book) next(now time.Time) (first notice, its *entry, wait time.Duration) {
	wait = longestSleep
	if now.Before(b.paused) {
		return notice{}, nil, b.paused.Sub(now)
	}
	for n, e := range b.entries {
		if e.due.IsZero() {
			continue
		}
		due := e.due
		if c := b.shut[n.namespace()]; c != nil {
			due = later(due, c.until)
		}
		if due.After(now) {
			wait = min(wait, due.Sub(now))
			continue
		}
		if its == nil || b.before(&n, e, &first, its) {
			first, its = n, e
		}
	}
	if its == nil {
		clear(b.turns)
		return notice{}, nil, wait
	}
	b.turn++
	b.turns[first.namespace()] = b.turn
	return first, its, wait
}

func (b *book) before(n *notice, e *entry, other *notice, its *entry) bool {
	if e.rank != its.rank {
		return e.rank < its.rank
	}
	if one, two := b.turns[n.namespace()], b.turns[other.namespace()]; one != two {
		return one < two
	}
	return e.due.Before(its.due)
}

// wasTold notes that a notice was told.
func (b *book) wasTold(n notice, e *entry, now time.Time) {
	delete(b.shut, n.namespace())
	if e.rank == served {
		delete(b.entries, n)
		return
	}
	e.rank, e.told, e.failures = again, now, 0
	e.count++
	e.due = now.Add(tellAgain)
	if e.once {
		e.due = time.Time{}
	}
}

// giveUp notes that a notice cannot be told, whatever happens.
func (b *book) giveUp(e *entry) { e.due = time.Time{} }

// postpone notes that a notice could not be told, which may be its own fault.
func (b *book) postpone(e *entry, now time.Time) {
	e.due = now.Add(backoff(e.failures))
	e.failures++
}

// close notes that the namespace of a notice takes none.
func (b *book) close(namespace string, now time.Time) {
	c := b.shut[namespace]
	if c == nil {
		c = new(closure)
		b.shut[namespace] = c
	}
	c.until = now.Add(backoff(c.failures))
	c.failures++
}

// backoff is how long to wait after another failure.
func backoff(failures int) time.Duration {
	return min(firstBackoff<<min(failures, 16), longestBackoff)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier is the first of two times; the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
