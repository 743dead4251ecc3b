package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A bench is one run of this program.
type bench struct {
	options
	folder     string
	contenders []contender
	backends   *backends
	cert       certificate
	results    []result
	idle       []float64 // bytes of an idle connection over TLS, by contender

	handshakeResults []handshakeResult
}

// A result is what a case cost, with the access log off or on, by contender.
type result struct {
	benchCase
	logging bool
	figures [][]figures // by contender, by round
}

// figures are those of one round.
type figures struct {
	cpu      float64 // microseconds a request
	requests float64 // a second
	memory   float64 // bytes, in the middle of the load
	p50, p99 float64 // microseconds, at the fixed rate
}

// prepare finds the contenders and starts the backends.
func (b *bench) prepare(ctx context.Context) error {
	binary := b.binary
	if binary == "" {
		progress("building Sallyport")
		var err error
		if binary, err = buildSallyport(ctx, b.folder); err != nil {
			return err
		}
	}
	b.contenders = append(b.contenders, sallyport("Sallyport", binary))
	if b.against != "" {
		b.contenders = append(b.contenders, sallyport("previous", b.against))
	}
	for _, peer := range []contender{nginx(), haproxy()} {
		if slices.Contains(b.peers, lower(peer.name)) {
			b.contenders = append(b.contenders, peer)
		}
	}
	var err error
	if b.cert, err = newCertificate(filepath.Join(b.folder, "cert"), ecdsaP256); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(b.folder, "backends"), 0o755); err != nil {
		return err
	}
	b.backends, err = startBackends(b.folder)
	return err
}

// begin starts every contender; end ends them.
func (b *bench) begin(s setting, path string) (all []*running, end func(), err error) {
	s.backends, s.workers = b.backends.addresses, b.workers
	end = func() {
		for _, r := range all {
			r.stop()
			os.RemoveAll(r.folder)
		}
	}
	for _, c := range b.contenders {
		s.folder, err = os.MkdirTemp(b.folder, lower(c.name)+"-")
		if err != nil {
			end()
			return nil, nil, err
		}
		r, err := c.begin(s, path)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, r)
	}
	return all, end, nil
}

// measure runs the rounds of a case. All contenders run all the time, and are asked in turn, each round beginning with
// another one: what changes on the machine meanwhile is the same for all.
func (b *bench) measure(ctx context.Context, c benchCase, logging bool) error {
	progress("%s, access log %s", c.title, onOff(logging))
	s := setting{logging: logging, buffered: c.buffered(), cert: b.cert.cert, key: b.cert.key, both: b.cert.both}
	all, end, err := b.begin(s, c.path)
	if err != nil {
		return err
	}
	defer end()
	for _, r := range all { // connections to the backends, and memory that is allocated once
		if _, err := c.load(ctx, r, time.Second); err != nil && !errors.Is(err, errNothing) {
			return err
		}
	}
	res := result{benchCase: c, logging: logging, figures: make([][]figures, len(all))}
	for round := range b.rounds {
		for turn := range all {
			i := (round + turn) % len(all)
			f, err := b.round(ctx, c, all[i])
			if err != nil {
				return err
			}
			res.figures[i] = append(res.figures[i], f)
		}
	}
	b.results = append(b.results, res)
	res.progress(b.contenders)
	if b.profile == "" {
		return nil
	}
	end()
	return b.takeProfiles(ctx, s, c.path, c.name+"-log-"+onOff(logging), func(ctx context.Context, r *running, long time.Duration) error {
		_, err := c.load(ctx, r, long)
		return err
	})
}

func (b *bench) round(ctx context.Context, c benchCase, r *running) (f figures, err error) {
	before, err := r.cpu()
	if err != nil {
		return f, err
	}
	var memory int
	var memoryErr error
	looked := make(chan struct{})
	look := time.AfterFunc(b.load/2, func() {
		defer close(looked)
		memory, memoryErr = r.memory()
	})
	began := time.Now()
	n, err := c.load(ctx, r, b.load)
	took := time.Since(began)
	if look.Stop() {
		return f, errors.Join(err, errors.New("the load ended before its time"))
	}
	<-looked
	if err := errors.Join(err, memoryErr); err != nil {
		return f, err
	}
	after, err := r.cpu()
	if err != nil {
		return f, err
	}
	f.cpu = float64((after - before).Microseconds()) / float64(n)
	f.requests = float64(n) / took.Seconds()
	f.memory = float64(memory)
	if b.pace > 0 {
		f.p50, f.p99, err = c.latency(ctx, r, b.pace)
	}
	return f, err
}

// takeProfiles runs ours once more, with its profiles on the admin port, and keeps its CPU profile under a load.
func (b *bench) takeProfiles(ctx context.Context, s setting, path, name string, load func(context.Context, *running, time.Duration) error) error {
	s.profiled = true
	all, end, err := b.begin(s, path)
	if err != nil {
		return err
	}
	defer end()
	for i, r := range all {
		if !b.contenders[i].ours {
			continue
		}
		long := max(b.load, 3*time.Second)
		file := filepath.Join(b.profile, fmt.Sprintf("%s-%s.pprof", name, lower(r.contender)))
		taken := make(chan error, 1)
		go func() {
			url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", r.admin, int(long.Seconds()))
			taken <- fetch(ctx, url, file)
		}()
		err := load(ctx, r, long+time.Second)
		if err := errors.Join(err, <-taken); err != nil {
			return err
		}
	}
	return nil
}

// fetch writes what a URL answers to a file.
func fetch(ctx context.Context, url, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %.200s", url, answer.Status, text)
	}
	return os.WriteFile(path, text, 0o644)
}
