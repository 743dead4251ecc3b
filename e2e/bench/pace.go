package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// latency sends requests of the case at its rate, for so long, and returns the median and the 99th percentile of the times
// until they were answered, in microseconds.
//
// The client does not wait for answers: a request that is due while every connection is taken waits, and the wait counts. A
// client that asks again once it was answered would ask less just when answers are slow.
func (c benchCase) latency(ctx context.Context, r *running, long time.Duration) (p50, p99 float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, long+20*time.Second)
	defer cancel()
	due := make(chan time.Time, int(long.Seconds()*float64(c.rate))+1) // all of them: whoever hands them out never waits
	var (
		clients sync.WaitGroup
		mu      sync.Mutex // guards times and failed
		times   []time.Duration
		failed  error
	)
	workers := c.connections * max(1, c.streams)
	ready := make(chan struct{}, workers)
	clients.Add(workers)
	var open []func()
	defer func() {
		for _, end := range open {
			end()
		}
	}()
	for range c.connections {
		ask, end, err := c.client(ctx, r)
		if err != nil {
			close(due)
			return 0, 0, err
		}
		open = append(open, end)
		for range max(1, c.streams) {
			go func() {
				defer clients.Done()
				err := ask() // opens the connection
				ready <- struct{}{}
				var own []time.Duration
				for since := range due {
					if err == nil {
						err = ask()
						own = append(own, time.Since(since))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				times = append(times, own...)
				if err != nil {
					failed = err
				}
			}()
		}
	}
	for range workers {
		<-ready
	}
	handOut(ctx, due, c.rate, long)
	clients.Wait()
	if failed != nil {
		return 0, 0, fmt.Errorf("%s at a fixed rate: %w", r.contender, failed)
	}
	slices.Sort(times)
	return microseconds(percentile(times, 50)), microseconds(percentile(times, 99)), nil
}

// handOut sends the present to due at a rate, for so long, and closes it. It sleeps in the kernel: a timer of the runtime may be
// late by a millisecond, which would make requests come in pairs.
func handOut(ctx context.Context, due chan<- time.Time, rate int, long time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(due)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := time.Now()
		for i := range int(long.Seconds() * float64(rate)) {
			if ctx.Err() != nil {
				return
			}
			next := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
			if wait := time.Until(next); wait > 0 {
				t := syscall.NsecToTimespec(int64(wait))
				syscall.Nanosleep(&t, nil) // woken early it sends early, which does no harm
			}
			due <- time.Now()
		}
	}()
	<-done
}

// client returns a function that asks once on a connection of its own, and one that ends it.
func (c benchCase) client(ctx context.Context, r *running) (ask func() error, end func(), err error) {
	if c.streams > 0 {
		return c.h2client(ctx, r)
	}
	conn, err := c.dial(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	var request bytes.Buffer
	method := http.MethodGet
	if c.body > 0 {
		method = http.MethodPost
	}
	fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, c.path, host)
	for _, field := range browserFields {
		fmt.Fprintf(&request, "%s: %s\r\n", field[0], field[1])
	}
	if c.body > 0 {
		fmt.Fprintf(&request, "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", c.body)
	}
	request.WriteString("\r\n")
	request.Write(bytes.Repeat([]byte("x"), c.body))
	reader := bufio.NewReaderSize(conn, 64*kibibyte)
	ask = func() error {
		if _, err := conn.Write(request.Bytes()); err != nil {
			return err
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return err
		}
		return drain(answer)
	}
	return ask, func() { conn.Close() }, nil
}

func (c benchCase) dial(ctx context.Context, r *running) (net.Conn, error) {
	if c.tls {
		dialer := &tls.Dialer{Config: clientTLS()}
		return dialer.DialContext(ctx, "tcp", r.https)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", r.http)
}

func (c benchCase) h2client(ctx context.Context, r *running) (ask func() error, end func(), err error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.https)
		},
		TLSClientConfig:    clientTLS(),
		ForceAttemptHTTP2:  true,
		MaxConnsPerHost:    1,
		DisableCompression: true,
	}
	ask = func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+c.path, nil)
		if err != nil {
			return err
		}
		for _, field := range browserFields {
			request.Header.Set(field[0], field[1])
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		if answer.ProtoMajor != 2 {
			answer.Body.Close()
			return fmt.Errorf("it was answered over %s", answer.Proto)
		}
		return drain(answer)
	}
	return ask, transport.CloseIdleConnections, nil
}

func drain(answer *http.Response) error {
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it was answered %s", answer.Status)
	}
	_, err := io.Copy(io.Discard, answer.Body)
	return err
}

// clientTLS has one version, suite and curve, so that every server does the same work.
func clientTLS() *tls.Config {
	return &tls.Config{
		ServerName: host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519},
	}
}

// percentile is the least of the sorted times that p percent of them do not exceed; 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
