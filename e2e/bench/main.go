// Command bench measures what a request costs through Sallyport, nginx and HAProxy: the same route to the same three
// backends, on loopback, in alternating rounds of one run.
//
//	go run ./e2e/bench
//	go run ./e2e/bench -cases small,64k -log off -rounds 5 -seconds 4
//	go run ./e2e/bench -against bin/before -profile /tmp/profiles -cases small
//
// A contender is a proxy that is started afresh for every case. What counts is the CPU time of its processes for each
// request, by the kernel's accounting: throughput is shared with the client, the backends and whoever else uses the machine.
// Latency is that of requests at a fixed rate, by a client that does not wait for one answer before it asks the next.
//
// The order of things: options.go says what is asked for, cases.go what is measured, backends.go, nginx.go, haproxy.go and
// sallyport.go start who takes part, load.go and pace.go are the clients, handshake.go is about TLS without requests,
// report.go writes down what came out. Nothing here judges a figure; nothing is left running when the program ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// The kernel ends children when the thread that started them ends, not when the process does (see process.go). The
// main goroutine starts all of them, and stays on the one thread that ends with the process.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := readOptions(args)
	if err != nil {
		return err
	}
	if err := findTools(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	folder, err := os.MkdirTemp("", "sallyport-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	b := &bench{options: o, folder: folder}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer b.backends.stop()
	for _, c := range o.cases {
		for _, logging := range o.logging {
			if err := b.measure(ctx, c, logging); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	if err := b.measureTLS(ctx); err != nil {
		return err
	}
	text := b.report()
	fmt.Print(text)
	if o.write != "" {
		return replaceBetweenMarks(o.write, text)
	}
	return nil
}
