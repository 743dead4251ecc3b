package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Handshakes are clients that shake hands for a name and leave, so many a second, however long each takes: a crowd that comes
// for the first time. They tell which certificate was shown when.
type Handshakes struct {
	addr, name string
	end        chan struct{}
	done       sync.WaitGroup
	began      time.Time

	mu       sync.Mutex
	made     []handshake
	failures []string
	versions []version
	stalls   []stall
}

// A handshake that succeeded.
type handshake struct {
	at    time.Time // when it began
	shown []byte
}

// A version is a certificate from the time on at which it is to be shown.
type version struct {
	der   []byte
	since time.Time
}

// A stall is a time in which this machine gave the test no processor.
type stall struct{ from, to time.Time }

// StartHandshakes starts the clients of an address. Pair is what they are shown to begin with.
func StartHandshakes(t testing.TB, addr, name string, perSecond int, pair *tls.Certificate) *Handshakes {
	t.Helper()
	h := &Handshakes{addr: addr, name: name, end: make(chan struct{}), began: time.Now(), versions: []version{{der: pair.Certificate[0]}}}
	h.done.Go(func() { h.come(perSecond) })
	h.done.Go(h.watchStalls)
	t.Cleanup(h.stop)
	return h
}

// come begins as many handshakes as are due by now, again and again.
func (h *Handshakes) come(perSecond int) {
	again := time.NewTicker(time.Second / time.Duration(perSecond))
	defer again.Stop()
	for n := 0; ; {
		select {
		case <-h.end:
			return
		case <-again.C:
		}
		for due := int(time.Since(h.began).Seconds() * float64(perSecond)); n < due; n++ {
			h.done.Go(h.once)
		}
	}
}

func (h *Handshakes) once() {
	began := time.Now()
	dialer := &net.Dialer{Timeout: patience}
	c, err := tls.DialWithDialer(dialer, "tcp", h.addr, &tls.Config{ServerName: h.name, InsecureSkipVerify: true})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.failures = append(h.failures, err.Error())
		return
	}
	h.made = append(h.made, handshake{began, c.ConnectionState().PeerCertificates[0].Raw})
	c.Close()
}

// watchStalls notes when a timer comes late, which is this machine's doing and nobody else's.
func (h *Handshakes) watchStalls() {
	const every = 2 * time.Millisecond
	again := time.NewTicker(every)
	defer again.Stop()
	for last := time.Now(); ; {
		select {
		case <-h.end:
			return
		case <-again.C:
		}
		now := time.Now()
		if now.Sub(last) > 2*every {
			h.mu.Lock()
			h.stalls = append(h.stalls, stall{last.Add(every), now})
			h.mu.Unlock()
		}
		last = now
	}
}

// Wrote says that a certificate has just been put in the place of the one before.
func (h *Handshakes) Wrote(pair *tls.Certificate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions = append(h.versions, version{pair.Certificate[0], time.Now()})
}

// Shown waits until another n handshakes have shown the last certificate.
func (h *Handshakes) Shown(t testing.TB, n int) {
	t.Helper()
	h.mu.Lock()
	from, last := len(h.made), h.versions[len(h.versions)-1]
	h.mu.Unlock()
	Eventually(t, fmt.Sprintf("%d handshakes have shown the new certificate", n), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		seen := 0
		for _, one := range h.made[from:] {
			if bytes.Equal(one.shown, last.der) {
				seen++
			}
		}
		if seen < n {
			return fmt.Errorf("%d of %d that have ended since", seen, len(h.made)-from)
		}
		return nil
	})
}

func (h *Handshakes) stop() {
	select {
	case <-h.end:
	default:
		close(h.end)
	}
	h.done.Wait()
}

// Stop waits for the handshakes that have begun. It fails the test if one failed, if one was shown a certificate that nobody
// wrote, or if more than one in twenty certificates was shown still to somebody who came later than within after it was replaced.
// The times in which the machine stood still do not count, as far as the test can see them: that it had no processor for
// another process it cannot, and that is what the one in twenty is for.
func (h *Handshakes) Stop(t testing.TB, within time.Duration) {
	t.Helper()
	h.stop()
	last := make([]time.Duration, len(h.versions)) // that a version was shown, after it was replaced
	awake := make([]time.Duration, len(h.versions))
	for _, one := range h.made {
		shown, err := h.version(one)
		if err != nil {
			t.Error(err)
			continue
		}
		if shown+1 == len(h.versions) || one.at.Before(h.versions[shown+1].since) {
			continue
		}
		replaced := h.versions[shown+1].since
		after := one.at.Sub(replaced)
		net := after - h.stalled(replaced, one.at)
		last[shown], awake[shown] = max(last[shown], after), max(awake[shown], net)
	}
	slices.Sort(last)
	slices.Sort(awake)
	took, tenth := time.Since(h.began), 100*time.Microsecond
	t.Logf("%d handshakes in %v, %.0f a second, %d failed", len(h.made), took.Round(time.Second), float64(len(h.made))/took.Seconds(), len(h.failures))
	t.Logf("%d certificates were replaced: the last who was shown one still came %v after, in the middle, %v at most; without the time in which the machine stood still %v and %v",
		len(last)-1, last[len(last)/2].Round(tenth), last[len(last)-1].Round(tenth), awake[len(awake)/2].Round(tenth), awake[len(awake)-1].Round(tenth))
	if len(h.failures) > 0 {
		t.Errorf("%d handshakes failed, the first because: %s", len(h.failures), h.failures[0])
	}
	if late := awake[len(awake)-1-len(awake)/20]; late > within {
		t.Errorf("more than one in twenty of the certificates was shown still to who came %v after it was replaced, want %v at most", late, within)
	}
	if len(h.made) == 0 {
		t.Error("no handshake was made")
	}
}

// version is the number of the certificate that was shown.
func (h *Handshakes) version(one handshake) (int, error) {
	for i, v := range h.versions {
		if bytes.Equal(v.der, one.shown) {
			return i, nil
		}
	}
	return 0, errors.New("a certificate was shown that nobody wrote")
}

// stalled is how long the machine stood still between two times.
func (h *Handshakes) stalled(from, to time.Time) (sum time.Duration) {
	for _, s := range h.stalls {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}
