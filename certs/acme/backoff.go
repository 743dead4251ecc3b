package acme

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
)

// How long is waited after n failures one after the other: twice as long each time.
const (
	hostFirst, hostLast           = 2 * time.Minute, 6 * time.Hour   // five times in the first hour, which Let's Encrypt allows
	authorityFirst, authorityLast = 5 * time.Second, 5 * time.Minute // it is back soon after it is back
)

// backoff is the wait after n failures, longer by up to a tenth, so that those who failed together do not return together.
func backoff(n int, first, last time.Duration) time.Duration {
	d := last
	if n < 20 {
		d = min(first<<max(0, n-1), last)
	}
	return d + rand.N(d/10)
}

// A storeError is a failure of the Store, which is no fault of the authority or the host.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// An accountError is an account that the authority does not want.
type accountError struct{ error }

func (e accountError) Unwrap() error { return e.error }

// An unansweredError says that the authority offers no challenge that is answered.
type unansweredError struct{ kinds string }

func (e unansweredError) Error() string { return "the authority does not offer " + e.kinds }

// A uselessError is a certificate that cannot be served.
type uselessError struct{ error }

func (e uselessError) Unwrap() error { return e.error }

// isTheirs says that an answer is the authority's own trouble, and nothing that we asked for.
func isTheirs(e *acme.Error) bool { return e.StatusCode >= 500 }

func hasType(e *acme.Error, kind string) bool {
	return strings.EqualFold(e.ProblemType, "urn:ietf:params:acme:error:"+kind)
}

// failed decides who has to wait because of a failure: the host, or everybody. Late says that the order took too long.
func (m *Manager) failed(ctx context.Context, h *host, err error, late bool) {
	var (
		refused      *acme.Error
		unauthorized *acme.AuthorizationError
		invalid      *acme.OrderError
		unanswered   unansweredError
	)
	switch {
	case errors.As(err, new(storeError)):
		m.leaveAlone(h, fmt.Sprintf("what belongs to it cannot be kept: %v", err), 0)
	case errors.As(err, new(accountError)):
		m.leaveAlone(h, fmt.Sprintf("there is no account at %s: %v", m.options.directory(), plain(err)), 0)
	case late:
		m.refuse(ctx, h, fmt.Sprintf("the certificate authority has not come to an end within %v", orderWithin), 0, true)
	case errors.As(err, new(uselessError)):
		m.refuse(ctx, h, "the certificate authority issued none that can be served: "+plain(err), 0, false)
	case errors.As(err, &unauthorized), errors.As(err, &invalid), errors.As(err, &unanswered):
		m.refuse(ctx, h, m.explain(h, err), 0, false)
	case errors.As(err, &refused) && hasType(refused, "accountDoesNotExist"):
		m.forgetAccount(ctx)
		m.leaveAlone(h, fmt.Sprintf("%s does not know our account: %s", m.options.directory(), refused.Detail), 0)
	case errors.As(err, &refused) && refused.StatusCode == http.StatusTooManyRequests:
		wait, _ := acme.RateLimit(refused)
		m.refuse(ctx, h, "the certificate authority's limits are reached: "+cut(refused.Detail), wait, true)
		m.leaveAlone(nil, "its limits are reached: "+cut(refused.Detail), min(wait, authorityLast))
	case errors.As(err, &refused) && !isTheirs(refused):
		m.refuse(ctx, h, m.explain(h, err), 0, false)
	case errors.As(err, &refused) && m.worksForOthers(h):
		m.refuse(ctx, h, fmt.Sprintf("the certificate authority fails at it, and not at others: %s", plain(err)), 0, true)
	default:
		m.leaveAlone(h, fmt.Sprintf("%s cannot be reached: %v", m.options.directory(), plain(err)), 0)
	}
}

// worksForOthers notes that the authority has failed at a host, and reports whether that is the host's own trouble: it was so
// before, or since it failed at it before there was a certificate for another.
func (m *Manager) worksForOthers(h *host) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := h.vain
	h.vain = time.Now()
	return h.record.Failures > 0 || !before.IsZero() && m.good.After(before)
}

// refuse has a host wait. An order that may still come to something is kept.
func (m *Manager) refuse(ctx context.Context, h *host, reason string, wait time.Duration, keep bool) {
	m.counts.failed.Add(1)
	m.log.Warn("no certificate", "host", h.name, "reason", reason)
	var before string
	err := m.note(ctx, h, func(r *record) {
		before = r.Reason
		now := time.Now()
		last := *r
		*r = record{Failures: last.Failures + 1, Reason: reason, Failed: now.UTC().Truncate(time.Second)}
		r.Retry = r.Failed.Add(max(wait, backoff(r.Failures, hostFirst, hostLast)))
		if keep {
			r.Order, r.Key, r.Kind, r.Token, r.Answer, r.Shown = last.Order, last.Key, last.Kind, last.Token, last.Answer, last.Shown
		}
	})
	if err != nil {
		m.log.Error("what is known of certificates cannot be kept", "err", err)
	}
	if !keep {
		m.reached()
	}
	if before != reason {
		m.changed()
	}
}

// leaveAlone has every host wait: nobody is asked for anything for a while, then about one host.
func (m *Manager) leaveAlone(h *host, reason string, wait time.Duration) {
	m.mu.Lock()
	now := time.Now()
	if !m.paused.After(now) {
		m.failures++
		m.paused = now.Add(max(wait, backoff(m.failures, authorityFirst, authorityLast)))
	}
	changed := m.trouble != reason
	m.trouble = reason
	m.mu.Unlock()
	if changed {
		m.counts.failed.Add(1)
		attributes := []any{"reason", reason}
		if h != nil {
			attributes = append(attributes, "host", h.name)
		}
		m.log.Warn("no certificates are ordered for a while", attributes...)
		m.changed()
	}
}

// reached notes that the authority answers.
func (m *Manager) reached() {
	m.mu.Lock()
	changed := m.trouble != ""
	m.failures, m.trouble = 0, ""
	m.mu.Unlock()
	if changed {
		m.log.Info("certificates are ordered again")
		m.changed()
	}
}

// mostLocked is how much may be open at once: one thing, until the authority has answered.
func (m *Manager) mostLocked() int {
	if m.failures > 0 || m.client == nil {
		return 1
	}
	return mostOrders
}

// explain says what is wrong in the words of whoever owns the host, and repeats the authority's. It is the same for the same
// mistake: tokens, which are others each time, are left out.
func (m *Manager) explain(h *host, err error) string {
	m.mu.Lock()
	kind, token := h.Kind, h.Token
	m.mu.Unlock()
	e := causeOf(err)
	if e == nil {
		return "the certificate authority refused: " + cut(plain(err))
	}
	detail := e.Detail
	if token != "" {
		detail = strings.ReplaceAll(detail, token, "TOKEN")
	}
	detail = cut(detail)
	port := "80"
	if kind == TLSALPN01 {
		port = "443"
	}
	switch {
	case hasType(e, "dns"):
		return fmt.Sprintf("the certificate authority finds no address of %s in the DNS, where one is expected that leads here: %s", h.name, detail)
	case hasType(e, "connection"):
		return fmt.Sprintf("the certificate authority does not get through to %s on port %s: does its DNS lead here, and is the port open? %s", h.name, port, detail)
	case hasType(e, "unauthorized"), hasType(e, "incorrectResponse"), hasType(e, "tls"):
		return fmt.Sprintf("something else answers the certificate authority for %s on port %s: its DNS does not lead here, or another proxy stands in front: %s", h.name, port, detail)
	case hasType(e, "caa"):
		return fmt.Sprintf("a CAA record of the DNS forbids this certificate authority to issue for %s: %s", h.name, detail)
	case hasType(e, "rejectedIdentifier"):
		return fmt.Sprintf("the certificate authority issues none for %s: %s", h.name, detail)
	}
	return "the certificate authority refused: " + detail
}

// causeOf is what an authority says of a failure; nil: nothing.
func causeOf(err error) *acme.Error {
	var (
		refused      *acme.Error
		unauthorized *acme.AuthorizationError
		invalid      *acme.OrderError
	)
	switch {
	case errors.As(err, &unauthorized):
		for _, one := range unauthorized.Errors {
			if errors.As(one, &refused) {
				return refused
			}
		}
	case errors.As(err, &invalid):
		return invalid.Problem
	case errors.As(err, &refused):
		return refused
	}
	return nil
}

// plain is an error in one line.
func plain(err error) string {
	if e := causeOf(err); e != nil && e.Detail != "" {
		return cut(e.Detail)
	}
	return cut(err.Error())
}

// cut bounds what others say, and keeps it in one line.
func cut(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// counts are what became of orders.
type counts struct{ orders, issued, failed atomic.Uint64 }

// Counts are how many orders were made, how many certificates were had, and how often there was none.
func (m *Manager) Counts() (orders, issued, failed uint64) {
	return m.counts.orders.Load(), m.counts.issued.Load(), m.counts.failed.Load()
}

// A Failure is why a host has no certificate, or none that is new.
type Failure struct {
	Reason string
	// Failures counts those of the host, one after the other. Zero: it is the authority that cannot be asked.
	Failures int
	Retry    time.Time // when it is tried again
}

// Failures yields the hosts whose certificate was due and could not be had, in no order. It holds a lock: yield may not call
// the Manager.
func (m *Manager) Failures() iter.Seq2[string, Failure] {
	return func(yield func(string, Failure) bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for name := range m.wanted {
			if failure, failed := m.failureLocked(name); failed && !yield(name, failure) {
				return
			}
		}
	}
}

// Failure is that of one host, if there is one.
func (m *Manager) Failure(name string) (Failure, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failureLocked(name)
}

func (m *Manager) failureLocked(name string) (Failure, bool) {
	h := m.hosts[name]
	switch {
	case h == nil || !m.wanted[name]:
	case h.Reason != "":
		return Failure{h.Reason, h.record.Failures, h.Retry}, true
	case m.trouble != "" && !m.dueLocked(h).After(time.Now()):
		return Failure{Reason: m.trouble, Retry: m.paused}, true
	}
	return Failure{}, false
}
