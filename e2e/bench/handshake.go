package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A handshakeResult is how many handshakes a second of CPU time of the server is enough for.
type handshakeResult struct {
	kind    string // of key
	resumed bool
	rounds  [][]float64 // by contender
}

const (
	handshakers = 8 // clients at once
	idleConns   = 10000
)

// measureTLS measures what TLS costs without requests.
func (b *bench) measureTLS(ctx context.Context) error {
	if !b.handshakes {
		return nil
	}
	for _, kind := range []string{ecdsaP256, rsa2048} {
		cert, err := newCertificate(filepath.Join(b.folder, "cert-"+strings.ReplaceAll(kind, " ", "-")), kind)
		if err != nil {
			return err
		}
		s := setting{cert: cert.cert, key: cert.key, both: cert.both}
		if kind == ecdsaP256 {
			if err := b.measureIdle(ctx, s); err != nil {
				return fmt.Errorf("idle connections: %w", err)
			}
		}
		if err := b.measureHandshakes(ctx, kind, s); err != nil {
			return fmt.Errorf("handshakes, %s: %w", kind, err)
		}
	}
	return nil
}

func (b *bench) measureHandshakes(ctx context.Context, kind string, s setting) error {
	all, end, err := b.begin(s, "/")
	if err != nil {
		return err
	}
	defer end()
	for _, resumed := range []bool{false, true} {
		res := handshakeResult{kind: kind, resumed: resumed, rounds: make([][]float64, len(all))}
		progress("%s", res.title())
		for round := range b.rounds {
			for turn := range all {
				i := (round + turn) % len(all)
				perSecond, err := shakeHands(ctx, all[i], b.load, resumed)
				if err != nil {
					return err
				}
				res.rounds[i] = append(res.rounds[i], perSecond)
			}
		}
		for i, r := range all {
			progress("    %-10s %7.0f handshakes a second of CPU", r.contender, median(res.rounds[i], itself))
		}
		b.handshakeResults = append(b.handshakeResults, res)
	}
	if b.profile == "" {
		return nil
	}
	end()
	for _, resumed := range []bool{false, true} {
		name := strings.NewReplacer(" ", "-", ",", "").Replace(lower(handshakeResult{kind: kind, resumed: resumed}.title()))
		err := b.takeProfiles(ctx, s, "/", name, func(ctx context.Context, r *running, long time.Duration) error {
			_, err := shakeHands(ctx, r, long, resumed)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r handshakeResult) title() string {
	if r.resumed {
		return r.kind + ", resumed"
	}
	return r.kind + ", full"
}

// shakeHands makes one connection after another, for so long, and returns how many the server made in a second of its CPU time.
func shakeHands(ctx context.Context, r *running, long time.Duration, resumed bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	before, err := r.cpu()
	if err != nil {
		return 0, err
	}
	var (
		made    atomic.Int64
		clients sync.WaitGroup
		errs    = make([]error, handshakers)
	)
	for i := range handshakers {
		config := clientTLS()
		if resumed {
			config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			if _, err := shakeHand(r, config); err != nil { // which brings the first ticket
				return 0, err
			}
		}
		clients.Go(func() {
			for ctx.Err() == nil {
				state, err := shakeHand(r, config)
				if err == nil && state.DidResume != resumed {
					err = fmt.Errorf("a handshake was resumed: %v, want %v", state.DidResume, resumed)
				}
				if err != nil {
					errs[i] = err
					return
				}
				made.Add(1)
			}
		})
	}
	clients.Wait()
	after, err := r.cpu()
	if err := errors.Join(append(errs, err)...); err != nil {
		return 0, fmt.Errorf("%s: %w", r.contender, err)
	}
	if made.Load() == 0 || after == before {
		return 0, fmt.Errorf("%s: %d handshakes in %v of CPU time are too few to tell", r.contender, made.Load(), after-before)
	}
	return float64(made.Load()) / (after - before).Seconds(), nil
}

// shakeHand opens a connection, says that nothing will come, and reads until the server closes it: with that it has all
// that a server sends after a handshake, which is where tickets are.
func shakeHand(r *running, config *tls.Config) (state tls.ConnectionState, err error) {
	plain, err := net.DialTimeout("tcp", r.https, 5*time.Second)
	if err != nil {
		return state, err
	}
	defer plain.Close()
	plain.SetDeadline(time.Now().Add(10 * time.Second))
	conn := tls.Client(plain, config)
	if err := conn.Handshake(); err != nil {
		return state, err
	}
	state = conn.ConnectionState()
	if state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		return state, fmt.Errorf("the suite is %s, which the others do not have", tls.CipherSuiteName(state.CipherSuite))
	}
	if err := conn.CloseWrite(); err != nil {
		return state, err
	}
	if n, err := io.Copy(io.Discard, conn); err != nil || n > 0 {
		return state, fmt.Errorf("after the handshake came %d bytes and %v", n, err)
	}
	return state, nil
}

// measureIdle measures what a connection over TLS that has brought one request, and waits, takes of the memory of a contender
// that has just been started.
func (b *bench) measureIdle(ctx context.Context, s setting) error {
	progress("memory of %d idle connections over TLS", idleConns)
	all, end, err := b.begin(s, "/")
	if err != nil {
		return err
	}
	defer end()
	c := benchCase{path: "/", tls: true}
	for _, r := range all {
		closeFirst, err := c.hold(ctx, r, 50) // what is taken once
		closeFirst()
		if err != nil {
			return fmt.Errorf("%s: %w", r.contender, err)
		}
		before, err := r.settled(ctx)
		if err != nil {
			return err
		}
		closeAll, err := c.hold(ctx, r, idleConns)
		if err != nil {
			closeAll()
			return fmt.Errorf("%s: %w", r.contender, err)
		}
		after, err := r.settled(ctx)
		closeAll()
		if err != nil {
			return err
		}
		perConn := float64(after-before) / idleConns
		progress("    %-10s %5.1f KiB a connection", r.contender, perConn/kibibyte)
		b.idle = append(b.idle, perConn)
	}
	return nil
}

// hold opens connections, asks once on each, and keeps them open until the function it returns is called.
func (c benchCase) hold(ctx context.Context, r *running, n int) (closeAll func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var open []func()
	closeAll = func() {
		for _, end := range open {
			end()
		}
	}
	for range n {
		ask, end, err := c.client(ctx, r)
		if err != nil {
			return closeAll, err
		}
		open = append(open, end)
		if err := ask(); err != nil {
			return closeAll, err
		}
	}
	return closeAll, nil
}

// settled is the memory of a contender that has had two seconds to put its things away.
func (r *running) settled(ctx context.Context) (int, error) {
	select {
	case <-time.After(2 * time.Second):
		return r.memory()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
