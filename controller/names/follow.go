package names

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"sallyport/controller"
)

const (
	shortestLife = time.Second     // of an answer, whatever it says
	longestLife  = 5 * time.Minute // likewise
	absentLife   = 5 * time.Second // at most, of the answer that there is no such name: people wait for names to appear
	confirmAfter = time.Second     // between the two answers that take addresses away
	longestPause = 5 * time.Second // between two attempts while name servers are away
	toldAfter    = 2               // attempts in vain: one datagram that is lost is no news
)

// follow asks for one name until ctx ends.
func (r *Resolver) follow(ctx context.Context, name string, f *followed) {
	var m memory
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		places := r.good
		if m.failures > 0 {
			places = r.failing
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		answer := r.lookup(ctx, name, m.source)
		<-places
		if ctx.Err() != nil {
			return
		}
		known, pause := m.take(answer)
		r.publish(name, f, known)
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// A verdict is what a lookup came to.
type verdict uint8

const (
	failed verdict = iota // nobody who knows has answered
	absent                // there is no such name, or it has no addresses
	found
)

// A reply is what name servers say of a name.
type reply struct {
	verdict   verdict
	addresses []netip.Addr
	source    string // the name, of those that the search list makes, that has them
	life      time.Duration
	fault     string // why there are none

	lacks4, lacks6 bool // found, but nothing is known about addresses of this family
}

// A memory is what is known of a name from one lookup to the next.
type memory struct {
	good     []netip.Addr
	source   string // of good
	denials  int    // answers in a row that there is no such name
	failures int    // lookups in a row without an answer
}

// take adds a reply to what is known, and says what that is now and when to ask again.
func (m *memory) take(r reply) (known controller.Resolution, pause time.Duration) {
	switch r.verdict {
	case found:
		all := slices.Clone(r.addresses)
		if r.source == m.source {
			for _, a := range m.good { // half an answer takes nothing away
				if r.lacks4 && a.Is4() || r.lacks6 && a.Is6() {
					all = append(all, a)
				}
			}
		}
		slices.SortFunc(all, netip.Addr.Compare) // name servers turn them round
		*m = memory{good: slices.Compact(all), source: r.source}
		return controller.Resolution{Addresses: m.good}, min(max(r.life, shortestLife), longestLife)
	case absent:
		m.denials++
		m.failures = 0
		if len(m.good) > 0 && m.denials < 2 {
			return controller.Resolution{Addresses: m.good}, confirmAfter
		}
		m.good, m.source = nil, ""
		return controller.Resolution{Fault: r.fault}, min(max(r.life, shortestLife), absentLife)
	}
	m.failures++
	pause = min(time.Second<<min(m.failures-1, 8), longestPause)
	if len(m.good) > 0 && m.failures < toldAfter {
		return controller.Resolution{Addresses: m.good}, pause
	}
	return controller.Resolution{Addresses: m.good, Fault: r.fault}, pause
}
