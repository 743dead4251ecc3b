// Package acme orders certificates from a certificate authority (RFC 8555) and keeps them.
//
//	manager, err := acme.New(acme.Options{Directory: url, Store: acme.Folder(dir), Changed: nudge})
//	manager.Want(hosts)                    // after every build of the table: the hosts, and the certificates that they have
//	manager.Run(ctx)                       // in one process of all that share the Store: the one that leads
//	...
//	manager.Answer(host, token)            // in every process: HTTP-01
//	manager.Handshake(hello)               // in every process: TLS-ALPN-01
//	manager.See(orders)                    // in those that do not lead: what the one that does has kept
//
// # Ahead of the first handshake
//
// Nobody waits in a handshake, and nothing that a client sends makes an order: hosts are ordered for because the table has
// them. That is why golang.org/x/crypto/acme/autocert is not used, although its protocol half, golang.org/x/crypto/acme, is:
// it orders inside the first handshake of a name, for as long as the authority takes, without any limit but the names it is
// told, knows one process only, and asks its cache for every token that anybody probes.
//
// # One order a host
//
// Before an order is answered it is written down with the key of its certificate, so that whoever leads next goes on with it
// instead of making another. Certificates are looked for in the Store before one is ordered. An order is lost, and made once
// more, only where a process dies between the authority's answer and that note.
//
// # Patience
//
// A host that the authority refuses waits, twice as long each time (backoff.go); that is kept in the Store too. An authority
// that cannot be reached, or has enough of us, is left alone as a whole, and then asked about one host before the others.
// [Options.OrdersPerHour] bounds the orders of all hosts. Whatever fails, a certificate that is there is served.
//
// # What it does not do
//
// It knows nothing of Kubernetes and does not choose hosts: see controller. It orders no wildcards, which need DNS-01, and
// deletes no certificate that anybody could have a use for (clean.go).
package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// LetsEncrypt is the directory that is asked where no other is named.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// The kinds of challenges that are answered.
const (
	HTTP01    = "http-01"
	TLSALPN01 = "tls-alpn-01"
)

// Options say who is asked for certificates, and as whom. Whoever makes a Manager has agreed to the authority's terms.
type Options struct {
	// Directory is the URL of the authority's directory. Empty: LetsEncrypt.
	Directory string
	// Email is told by the authority what its account is to know. Empty: nobody is.
	Email string
	// KeyID and MACKey bind the account to one that the authority knows already (RFC 8555 section 7.3.4). Empty: nothing does.
	KeyID  string
	MACKey []byte
	// Client asks the authority. Nil: http.DefaultClient.
	Client *http.Client
	// Challenges are the kinds that are answered, in the order in which they are tried: a host for which one failed is
	// tried with the next. Empty: HTTP01, then TLSALPN01.
	Challenges []string
	// OrdersPerHour bounds the orders of all hosts. Half an hour's worth may be made at once. Zero: 80, which keeps below
	// the 300 in three hours that Let's Encrypt allows an account.
	OrdersPerHour int
	// Store keeps what outlives this process.
	Store Store
	// Settle is how long an answer takes from the Store to every process that may be asked for it.
	Settle time.Duration
	// Changed is called when a certificate is there, or when what is to be said of a host is other. Nil: nobody asked.
	Changed func()
	// Log gets what is ordered, and what fails. Nil: slog.Default().
	Log *slog.Logger
}

func (o *Options) directory() string {
	if o.Directory != "" {
		return o.Directory
	}
	return LetsEncrypt
}

func (o *Options) challenges() []string {
	if len(o.Challenges) > 0 {
		return o.Challenges
	}
	return []string{HTTP01, TLSALPN01}
}

func (o *Options) ordersPerHour() int {
	if o.OrdersPerHour > 0 {
		return o.OrdersPerHour
	}
	return 80
}

const (
	mostOrders  = 8                // that are open at once
	orderWithin = 10 * time.Minute // of one: authorities look at a host from several places, one after the other
)

// A Host is one that is to have a certificate.
type Host struct {
	Name string // in lower case, no wildcard
	// Pair is the certificate that the host has from here. Nil: none.
	Pair *tls.Certificate
	// Directory is where Pair was ordered.
	Directory string
}

// A Manager orders certificates. Its methods may be called from any goroutine.
type Manager struct {
	options Options
	log     *slog.Logger
	pace    *rate.Limiter
	wake    chan struct{} // has room for one: there may be something to do

	answers atomic.Pointer[answers]
	counts  counts

	saving   sync.Mutex // held while the orders are written; before mu
	accounts sync.Mutex // held while the account is opened; before mu

	mu     sync.Mutex // guards all below
	hosts  map[string]*host
	wanted map[string]bool // of hosts; nil: not known yet
	seen   map[string]record
	authority
	running int       // orders and questions that are open
	cleaned time.Time // when what is of no use was removed last
	version uint64    // of what is kept of hosts
	saved   uint64    // the version that the Store has
	leading bool
}

// New prepares to order. It asks nobody anything yet.
func New(o Options) (*Manager, error) {
	if o.Store == nil {
		return nil, errors.New("certificates need a place where they are kept")
	}
	for _, kind := range o.Challenges {
		if kind != HTTP01 && kind != TLSALPN01 {
			return nil, errors.New("challenge " + kind + " is not answered, expected " + HTTP01 + " or " + TLSALPN01)
		}
	}
	m := &Manager{options: o, log: o.Log, wake: make(chan struct{}, 1), hosts: make(map[string]*host)}
	if m.log == nil {
		m.log = slog.Default()
	}
	hourly := o.ordersPerHour()
	m.pace = rate.NewLimiter(rate.Limit(float64(hourly)/time.Hour.Seconds()), max(1, hourly/2))
	return m, nil
}

// A host is what is known of one.
type host struct {
	record
	name      string
	pair      *tls.Certificate // nil: none
	directory string           // where pair was ordered
	seen      bool             // the table had pair once
	running   bool
	renewal   renewal
	tried     time.Time // when something was last ordered for it, or gone on with
	vain      time.Time // when the authority failed at it last, for a reason of its own
}

// Want says which hosts are to have certificates: these and no others. Those that are not in the list any more are not asked
// for again.
func (m *Manager) Want(hosts []Host) {
	m.mu.Lock()
	m.wanted = make(map[string]bool, len(hosts))
	for _, wanted := range hosts {
		m.wanted[wanted.Name] = true
		h := m.hostLocked(wanted.Name)
		switch {
		case newer(wanted.Pair, h.pair):
			h.have(wanted.Pair, wanted.Directory)
			h.seen = true
		case wanted.Pair != nil && h.pair != nil && wanted.Pair.Leaf.Equal(h.pair.Leaf):
			h.seen = true
		case wanted.Pair == nil && h.seen && !h.running: // it was there and is no more
			h.have(nil, "")
		}
	}
	for name, h := range m.hosts {
		if !m.wanted[name] && !h.running {
			delete(m.hosts, name)
		}
	}
	m.mu.Unlock()
	notify(m.wake)
}

func (m *Manager) hostLocked(name string) *host {
	h := m.hosts[name]
	if h == nil {
		h = &host{name: name, record: m.seen[name]}
		if m.leading {
			delete(m.seen, name) // what comes after is in the host
		}
		m.hosts[name] = h
	}
	return h
}

// newer reports whether a certificate is another than the one that is known, and not one that came before it: whoever
// watches the Store sees with a delay what was written there.
func newer(a, known *tls.Certificate) bool {
	switch {
	case a == nil || a.Leaf == nil:
		return false
	case known == nil:
		return true
	}
	return !a.Leaf.Equal(known.Leaf) && !a.Leaf.NotBefore.Before(known.Leaf.NotBefore)
}

func (h *host) have(pair *tls.Certificate, directory string) {
	h.pair, h.directory, h.seen, h.renewal = pair, directory, false, renewal{}
}

// due is when a certificate is to be ordered for the host; zero: at once.
func (m *Manager) dueLocked(h *host) time.Time {
	due := time.Time{}
	if h.pair != nil && h.directory == m.options.directory() {
		due = h.renewal.at(h.pair.Leaf)
	}
	if h.Retry.After(due) {
		return h.Retry
	}
	return due
}

// Run orders what is due until ctx ends. It returns when nothing is being ordered any more.
func (m *Manager) Run(ctx context.Context) {
	if !m.begin(ctx) {
		return
	}
	var orders sync.WaitGroup
	defer func() {
		orders.Wait()
		m.mu.Lock()
		m.leading = false
		m.seen = make(map[string]record)
		for name, h := range m.hosts {
			m.seen[name] = h.record
		}
		m.mu.Unlock()
	}()
	// What can happen: the hosts are others, or an order has ended; the time of the next order has come; the end.
	for {
		next := time.NewTimer(m.start(ctx, &orders))
		select {
		case <-m.wake:
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return
		}
		next.Stop()
	}
}

// begin reads what was kept before, however long it takes, and returns false when ctx ends first.
func (m *Manager) begin(ctx context.Context) bool {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		data, err := m.options.Store.Load(ctx, ordersName)
		if err == nil || errors.Is(err, ErrNotKept) {
			m.mu.Lock()
			m.leading = true
			m.seen = parseRecords(data)
			for name, h := range m.hosts {
				h.record = m.seen[name]
			}
			m.showLocked()
			m.mu.Unlock()
			return true
		}
		m.log.Error("what is known of certificates cannot be read; it is tried again", "err", err)
		if !sleep(ctx, wait) {
			return false
		}
	}
}

// longest is how long Run sleeps when nothing is due.
const longest = time.Hour

// start begins what is due and returns when to look again.
func (m *Manager) start(ctx context.Context, orders *sync.WaitGroup) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.wanted == nil {
		return longest
	}
	next := now.Add(longest)
	later := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if due := m.cleaned.Add(cleanEvery); due.After(now) {
		later(due)
	} else {
		m.cleaned = now
		orders.Go(func() { m.clean(ctx) })
	}
	for _, h := range m.inOrderLocked() {
		due := m.dueLocked(h)
		if !due.After(now) {
			if m.paused.After(now) {
				later(m.paused)
			} else if m.running < m.mostLocked() {
				if wait := m.takeLocked(h, now); wait > 0 {
					later(now.Add(wait))
				} else {
					m.beginLocked(h)
					h.tried = now
					orders.Go(func() { m.obtain(ctx, h) })
				}
			}
			continue
		}
		later(due)
		if h.pair != nil && h.Order == "" {
			if ask := h.renewal.ask; ask.After(now) {
				later(ask)
			} else if m.paused.After(now) {
				later(m.paused)
			} else if m.running < m.mostLocked() {
				m.beginLocked(h)
				orders.Go(func() { m.askRenewal(ctx, h) })
			}
		}
	}
	return max(time.Until(next), time.Millisecond)
}

// inOrder are the hosts that nothing is done for just now, those first that were tried longest ago or never, then those that
// have no certificate, then those that wait longest. Whatever fails at one host, another is next: where one at a time is tried,
// it would keep the others waiting for good.
func (m *Manager) inOrderLocked() []*host {
	var all []*host
	for name, h := range m.hosts {
		if m.wanted[name] && !h.running {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *host) int {
		if by := a.tried.Compare(b.tried); by != 0 {
			return by
		}
		if (a.pair == nil) != (b.pair == nil) {
			if a.pair == nil {
				return -1
			}
			return 1
		}
		if by := m.dueLocked(a).Compare(m.dueLocked(b)); by != 0 {
			return by
		}
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all
}

// takeLocked takes one of the orders that may be made, or returns how long there is none. Going on with an order takes none.
func (m *Manager) takeLocked(h *host, now time.Time) time.Duration {
	if h.Order != "" {
		return 0
	}
	taken := m.pace.ReserveN(now, 1)
	if wait := taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return wait
	}
	return 0
}

func (m *Manager) beginLocked(h *host) {
	h.running = true
	m.running++
}

func (m *Manager) ended(h *host) {
	m.mu.Lock()
	h.running = false
	m.running--
	m.mu.Unlock()
	notify(m.wake)
}

func (m *Manager) changed() {
	if m.options.Changed != nil {
		m.options.Changed()
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
