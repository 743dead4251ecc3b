// Package names follows the host names that Services of type ExternalName stand for.
//
//	resolver := names.New(names.Options{Changed: source.Nudge})
//	defer resolver.Close()
//	...
//	resolver.Bring(snapshot)                 // before each build: what became known since
//	result := builder.Build(snapshot)
//	resolver.Follow(builder.Names())         // after it: the names that are wanted now
//
// It asks the name servers of the pod, as resolv.conf(5) says: search domains, ndots, time-outs, attempts. A name is asked
// for again when the time to live of its answer has passed, and every address of the answer counts.
//
// # One name never waits for another
//
// Each name has a goroutine and a timer of its own. How many ask at the same time is bounded, and those that got no answer
// the last time have a bound of their own, so that a name whose servers are silent keeps nobody waiting.
//
// # When there is no answer
//
// A name server that is away, or that fails, has said nothing about a name: the addresses that were good last stay, for as
// long as it takes. "There is no such name" is an answer. It takes the addresses away once it has been given twice in a row,
// a second apart: name servers that restart have been seen to say it of names that exist.
//
// # What it does not do
//
// It does not judge addresses: which of them are refused is decided where tables are built. It reads no /etc/hosts, asks
// for no SRV records, and takes no number for an address that is not one in full ("127.1" is a name).
package names

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"sallyport/controller"
)

// Options say how names are asked for.
type Options struct {
	// File is read for name servers and search domains, and again when it changes. Empty: /etc/resolv.conf.
	File string
	// Changed is called, from any goroutine, when there is something for Bring. Nil: nobody waits for that.
	Changed func()
	// Log is told of mistakes in File. Nil: slog.Default().
	Log *slog.Logger
}

const (
	atOnce        = 64                     // names that are asked for at the same time
	atOnceFailing = 16                     // of those that got no answer the last time, which have these places to themselves
	firstWait     = 500 * time.Millisecond // how long a process that starts waits for the names it begins with
)

// A Resolver follows names. It is safe for concurrent use.
type Resolver struct {
	changed func()
	lookup  func(ctx context.Context, name, last string) reply
	good    chan struct{} // places for lookups of names that got an answer, or were never asked for
	failing chan struct{} // places for the others

	life  context.Context // of all followers
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu       sync.Mutex
	followed map[string]*followed              // guarded by mu
	news     map[string]*controller.Resolution // guarded by mu; for Bring. Nil: the name is not followed any more
	began    time.Time                         // guarded by mu; when there was a name to follow first; zero: there was none
}

// A followed is a name that is followed.
type followed struct {
	stop  context.CancelFunc
	known bool                  // there was an answer, or there is none to be had
	last  controller.Resolution // that was told
}

// New returns a Resolver that follows no name yet. Close ends it.
func New(o Options) *Resolver {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	path := o.File
	if path == "" {
		path = "/etc/resolv.conf"
	}
	c := &client{file: &file{path: path, log: log}}
	return newResolver(o.Changed, c.lookup)
}

func newResolver(changed func(), lookup func(ctx context.Context, name, last string) reply) *Resolver {
	r := &Resolver{
		changed: changed, lookup: lookup,
		good: make(chan struct{}, atOnce), failing: make(chan struct{}, atOnceFailing),
		followed: make(map[string]*followed), news: make(map[string]*controller.Resolution),
	}
	r.life, r.stop = context.WithCancel(context.Background())
	return r
}

// Close ends the Resolver and waits until nothing of it runs.
func (r *Resolver) Close() {
	r.stop()
	r.tasks.Wait()
}

// Follow makes names the ones that are followed. New ones are asked for at once, those that are not among them any more are
// forgotten.
func (r *Resolver) Follow(names iter.Seq[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := make(map[string]bool)
	for name := range names {
		wanted[name] = true
		if r.followed[name] == nil && r.life.Err() == nil {
			r.startLocked(name)
		}
	}
	for name, f := range r.followed {
		if !wanted[name] {
			f.stop()
			delete(r.followed, name)
			r.news[name] = nil
		}
	}
}

func (r *Resolver) startLocked(name string) {
	ctx, stop := context.WithCancel(r.life)
	f := &followed{stop: stop}
	r.followed[name] = f
	r.tasks.Go(func() { r.follow(ctx, name, f) })
	if r.began.IsZero() {
		r.began = time.Now()
		r.tasks.Go(r.endFirstWait)
	}
}

// endFirstWait has Settled asked again when the wait is over.
func (r *Resolver) endFirstWait() {
	timer := time.NewTimer(firstWait)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.tell()
	case <-r.life.Done():
	}
}

// Settled reports whether every name that is followed has been answered for, or has had its time. A process that starts is
// not ready before that: clients would be sent to Services whose addresses it is about to know.
func (r *Resolver) Settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() || time.Since(r.began) >= firstWait {
		return true
	}
	for _, f := range r.followed {
		if !f.known {
			return false
		}
	}
	return true
}

// Bring puts what became known since the last call into a snapshot.
func (r *Resolver) Bring(s *controller.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, news := range r.news {
		if news == nil {
			s.ForgetName(name)
		} else {
			s.SetName(name, *news)
		}
	}
	clear(r.news)
}

// publish notes what is known of a name now, unless it is what was known before.
func (r *Resolver) publish(name string, f *followed, now controller.Resolution) {
	r.mu.Lock()
	if r.followed[name] != f || f.known && f.last.Equal(now) {
		r.mu.Unlock()
		return
	}
	f.known, f.last = true, now
	r.news[name] = &now
	r.mu.Unlock()
	r.tell()
}

func (r *Resolver) tell() {
	if r.changed != nil {
		r.changed()
	}
}
