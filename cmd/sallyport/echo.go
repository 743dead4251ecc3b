package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// An echo plays a pod of the demo: a server on a loopback port that answers every request with what it got.
type echo struct {
	service, pod string
	listener     net.Listener
	server       *http.Server
}

// echoes are the pods of the demo, running.
type echoes struct {
	all  []*echo
	wait sync.WaitGroup
}

// demoPods are the pods of each Service of the demo's manifests.
var demoPods = []struct {
	service string
	pods    int
}{{"myapp", 3}, {"web", 1}, {"cart", 1}}

// startEchoes starts the pods of the demo on free loopback ports.
func startEchoes() (*echoes, error) {
	e := new(echoes)
	for _, of := range demoPods {
		for i := range of.pods {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				e.stop()
				return nil, fmt.Errorf("start an endpoint of the demo: %w", err)
			}
			one := &echo{service: of.service, pod: fmt.Sprintf("%s-%d", of.service, i+1), listener: listener}
			one.server = &http.Server{Handler: one, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
			e.all = append(e.all, one)
			e.wait.Go(func() { one.server.Serve(one.listener) })
		}
	}
	return e, nil
}

func (e *echoes) stop() {
	for _, one := range e.all {
		one.server.Close()
	}
	e.wait.Wait()
}

// ServeHTTP answers with the request as it arrived here, for a person to read.
func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	received, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the upload was cut: no answer may look like success
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rows := [][]string{
		{"service", e.service},
		{"endpoint", e.pod + " at " + e.listener.Addr().String()},
		{"method", r.Method},
		{"host", r.Host},
		{"path", r.URL.EscapedPath()},
	}
	if r.URL.RawQuery != "" {
		rows = append(rows, []string{"query", r.URL.RawQuery})
	}
	if received > 0 {
		rows = append(rows, []string{"body", count(int(received), "byte")})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		rows = append(rows, []string{"header", name + ": " + strings.Join(r.Header[name], ", ")})
	}
	printTable(w, rows)
}
