package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal returns a context that ends with the first SIGTERM or SIGINT. A second one ends the process at once: the
// person who sends it has waited long enough. Stop gives the signals their usual meaning back.
func untilSignal(parent context.Context, w world) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		select {
		case <-signals:
		case <-done:
			return
		}
		cancel()
		select {
		case second := <-signals:
			fmt.Fprintf(w.err, "sallyport: a second signal (%v): leaving at once\n", second)
			os.Exit(exitCannot)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}
