package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ocsp"
)

// A Stapler fetches what authorities say of certificates (OCSP, RFC 6960), ahead and in the background, so that handshakes
// bring it (RFC 6066 section 8). What is not there, or not valid any more, is left out: no handshake waits for it or fails.
type Stapler struct {
	// Client asks. It follows no redirects unless it is told so. Nil: http.DefaultClient.
	Client *http.Client
	// Log gets what could not be fetched. Nil: slog.Default().
	Log *slog.Logger

	stapled atomic.Pointer[map[string]staple] // by the DER text of a certificate, which is read anew whenever its Secret is touched

	mu     sync.Mutex           // guards what follows
	wanted []*tls.Certificate   // each once
	again  map[string]time.Time // when a certificate is asked about again, by its DER text
	vain   map[string]bool      // those that were asked about in vain the last time, likewise
	woken  chan struct{}
}

type staple struct {
	text  []byte
	until time.Time
	asked *tls.Certificate // as it was when it was asked about
	shown *tls.Certificate // the same with the answer
}

const (
	stapleAnswer = 64 << 10 // bytes of an answer
	stapleWait   = 10 * time.Second
	stapleRetry  = 5 * time.Minute
	stapleLeast  = time.Minute // between two questions about one certificate
	stapleAtOnce = 4           // questions
	stapleBatch  = 32          // questions until it is looked which others there are
)

// of is the pair with its answer, or as it is.
func (s *Stapler) of(pair *tls.Certificate) *tls.Certificate {
	if s == nil {
		return pair
	}
	all := s.stapled.Load()
	if all == nil {
		return pair
	}
	found, ok := (*all)[string(pair.Certificate[0])]
	switch {
	case !ok || !time.Now().Before(found.until):
		return pair
	case found.asked == pair:
		return found.shown
	}
	shown := *pair // until it is asked about again: the chain may be another
	shown.OCSPStaple = found.text
	return &shown
}

// Want has answers fetched for the certificates of hosts, and for no others. It does not wait.
func (s *Stapler) Want(c Certificates) {
	distinct := make(map[string]*tls.Certificate)
	add := func(pair *tls.Certificate) {
		if pair != nil && len(pair.Leaf.OCSPServer) > 0 && len(pair.Certificate) > 1 {
			distinct[string(pair.Certificate[0])] = pair
		}
	}
	for _, host := range c.ByHost {
		if host != nil {
			for _, pair := range host.Pairs {
				add(pair)
			}
		}
	}
	add(c.Default)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = slices.Collect(maps.Values(distinct))
	s.wakeUpLocked()
}

func (s *Stapler) wakeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeUpLocked()
}

func (s *Stapler) wakeUpLocked() {
	select {
	case s.wakeLocked() <- struct{}{}:
	default:
	}
}

func (s *Stapler) wakeLocked() chan struct{} {
	if s.woken == nil {
		s.woken = make(chan struct{}, 1)
	}
	return s.woken
}

// Run fetches until ctx ends.
func (s *Stapler) Run(ctx context.Context) {
	s.mu.Lock()
	woken := s.wakeLocked()
	s.mu.Unlock()
	// Either other certificates are wanted, or the time of some answer has come.
	for ctx.Err() == nil {
		next := s.fetchAll(ctx)
		timer := time.NewTimer(next)
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// fetchAll asks about the certificates whose time has come, and returns when that is so next. Servers that do not answer are
// anybody's, and so may be hundreds of certificates with such: the others are asked about first, and what comes is shown at
// once.
func (s *Stapler) fetchAll(ctx context.Context) time.Duration {
	s.mu.Lock()
	wanted := s.wanted
	again, vain := maps.Clone(s.again), maps.Clone(s.vain)
	s.mu.Unlock()
	if again == nil {
		again = make(map[string]time.Time)
	}
	if vain == nil {
		vain = make(map[string]bool)
	}

	stapled := make(map[string]staple)
	if all := s.stapled.Load(); all != nil {
		for _, pair := range wanted {
			if found, ok := (*all)[string(pair.Certificate[0])]; ok {
				stapled[string(pair.Certificate[0])] = found
			}
		}
	}
	now := time.Now()
	var due, late []*tls.Certificate
	for _, pair := range wanted {
		switch {
		case now.Before(again[string(pair.Certificate[0])]):
		case vain[string(pair.Certificate[0])]:
			late = append(late, pair)
		default:
			due = append(due, pair)
		}
	}
	due = append(due, late...)
	var mu sync.Mutex // guards stapled, again and vain
	var asking sync.WaitGroup
	slots := make(chan struct{}, stapleAtOnce)
	for _, pair := range due[:min(len(due), stapleBatch)] {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			text, answer, err := s.fetch(ctx, pair)
			mu.Lock()
			defer mu.Unlock()
			if vain[string(pair.Certificate[0])] = err != nil; err != nil {
				again[string(pair.Certificate[0])] = time.Now().Add(stapleRetry)
				if ctx.Err() == nil {
					s.log().Warn("no answer about a certificate to staple; handshakes go without", "certificate", nameOf(pair.Leaf), "err", err)
				}
				return
			}
			half := time.Until(answer.NextUpdate) / 2
			again[string(pair.Certificate[0])] = time.Now().Add(max(half, stapleLeast))
			shown := *pair
			shown.OCSPStaple = text
			stapled[string(pair.Certificate[0])] = staple{text, answer.NextUpdate, pair, &shown}
			published := maps.Clone(stapled)
			s.stapled.Store(&published)
		})
	}
	asking.Wait()
	s.stapled.Store(&stapled)
	if len(due) > stapleBatch {
		defer s.wakeUp()
	}
	next := time.Hour
	kept, keptVain := make(map[string]time.Time, len(wanted)), make(map[string]bool)
	for _, pair := range wanted {
		der := string(pair.Certificate[0])
		kept[der] = again[der]
		if vain[der] {
			keptVain[der] = true
		}
		next = min(next, time.Until(again[der]))
	}
	s.mu.Lock()
	s.again, s.vain = kept, keptVain
	s.mu.Unlock()
	return max(next, time.Second)
}

// fetch asks the authority about a certificate.
func (s *Stapler) fetch(ctx context.Context, pair *tls.Certificate) (text []byte, answer *ocsp.Response, err error) {
	issuer, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		return nil, nil, err
	}
	question, err := ocsp.CreateRequest(pair.Leaf, issuer, nil)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, stapleWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, pair.Leaf.OCSPServer[0], bytes.NewReader(question))
	if err != nil {
		return nil, nil, err
	}
	if request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return nil, nil, fmt.Errorf("%q is no address of an OCSP server", pair.Leaf.OCSPServer[0])
	}
	request.Header.Set("Content-Type", "application/ocsp-request")
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the OCSP server answered %d", response.StatusCode)
	}
	text, err = io.ReadAll(io.LimitReader(response.Body, stapleAnswer+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > stapleAnswer {
		return nil, nil, errors.New("the OCSP server's answer is too long")
	}
	answer, err = ocsp.ParseResponseForCert(text, pair.Leaf, issuer)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	switch {
	case answer.Status == ocsp.Unknown:
		return nil, nil, errors.New("the authority does not know it")
	case now.Before(answer.ThisUpdate.Add(-5 * time.Minute)): // clocks differ
		return nil, nil, errors.New("the answer is not valid yet")
	case answer.NextUpdate.IsZero() || !now.Before(answer.NextUpdate):
		return nil, nil, errors.New("the answer is not valid any more")
	}
	return text, answer, nil
}

func (s *Stapler) log() *slog.Logger {
	if s.Log != nil {
		return s.Log
	}
	return slog.Default()
}
