package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/certs"
	"sallyport/config"
	"sallyport/controller"
	"sallyport/controller/feedback"
	"sallyport/controller/names"
	"sallyport/proxy"
	"sallyport/proxy/admin"
	"sallyport/proxy/stream"
	"sallyport/proxy/upstream"
)

// A server is everything that one process serves with, joined: source → builder → table → front.
type server struct {
	config    config.Config
	log       *slog.Logger
	listeners *listeners
	ready     func([]routeRow) // called once requests are served; nil: nobody asked

	pools   upstream.Pools
	certs   certs.Store
	builder *controller.Builder
	names   *names.Resolver // of what the names of Services lead to; from serve on
	front   *proxy.Server
	streams *stream.Server
	access  *proxy.AccessLog // nil: none
	metrics *admin.Metrics
	admin   *admin.Server
	// feedback tells the cluster what became of its objects; nil: there is none, or it is only read.
	feedback *feedback.Writer

	built    chan struct{} // closed once the first table is in place
	serving  atomic.Bool   // the listeners of front are served
	draining atomic.Bool

	reporter reporter // used by apply alone
}

// newServer joins the parts. Nothing runs yet.
func newServer(w world, c config.Config, l *listeners, log *slog.Logger) (*server, error) {
	s := &server{config: c, log: log, listeners: l, built: make(chan struct{}), reporter: reporter{log: log}}
	s.metrics = newMetrics(w, c.IngressClass, &s.pools)
	options, err := builderOptions(c, portOf(l.https), &s.pools)
	if err != nil {
		return nil, err
	}
	options.APIServers = apiServers(w)
	options.OwnPorts = l.ports()
	options.Retain, options.Release = s.metrics.Retain, s.metrics.Release
	s.builder = controller.NewBuilder(options)
	if c.AccessLog != "off" {
		s.access = proxy.NewAccessLog(w.out, c.AccessLog)
		s.metrics.CountLines(s.access)
	}
	s.front = &proxy.Server{
		Log:            log,
		AccessLog:      s.access,
		GetCertificate: s.certs.GetCertificate,
		Trusted:        c.TrustedProxies,
		Observer:       s.metrics.Unrouted(),
	}
	s.streams = &stream.Server{Address: c.BindAddress, Log: log}
	s.metrics.CountStreams(func() admin.StreamCounts { return streamCounts(s.streams) })
	s.admin = newAdmin(s)
	return s, nil
}

// patience is how long connections wait in the listeners' queues for the first table. A folder has one before the
// first client comes; a cluster that cannot be reached must not let clients hang, they are told 503 instead.
const patience = time.Second

// serve runs until ctx ends, then drains and returns nil; or until something fails, and returns why.
func (s *server) serve(ctx context.Context, from source) error {
	s.names = names.New(names.Options{File: s.config.ResolvConf, Changed: from.Nudge, Log: s.log})
	defer s.names.Close()
	// The source goes on while requests are finished: endpoints may leave just then.
	sourceCtx, stopSource := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 4)
	var tasks sync.WaitGroup
	start := func(what string, task func() error) {
		tasks.Go(func() {
			if err := task(); err != nil {
				failed <- fmt.Errorf("%s: %w", what, err)
			}
		})
	}
	start("admin port", func() error { return s.admin.Serve(s.listeners.admin) })
	start("read objects", func() error { return from.Run(sourceCtx, s.apply) })
	select {
	// The first table is there; it takes too long; the process is to end, or something failed, which is seen below.
	case <-s.built:
	case <-time.After(patience):
		s.log.Warn("still waiting for the first table; requests are answered 503 until then")
	case <-ctx.Done():
	}
	start("HTTP", func() error { return s.front.Serve(s.listeners.http) })
	start("HTTPS", func() error { return s.front.ServeTLS(s.listeners.https) })
	s.serving.Store(true)
	s.log.Info("serving", "http", s.listeners.http.Addr().String(), "https", s.listeners.https.Addr().String(), "admin", s.listeners.admin.Addr().String())
	staying, leave := context.WithCancel(ctx)
	start("announce", func() error { return s.announce(staying) })
	told := make(chan struct{})
	go func() {
		defer close(told)
		if s.feedback != nil {
			s.feedback.Run(staying)
		}
	}()

	var err error
	select {
	case <-ctx.Done():
		s.drain(told)
	case err = <-failed:
		s.shutdown(ended())
	}
	leave()
	<-told
	stopSource()
	s.admin.Close()
	tasks.Wait()
	if s.access != nil {
		s.access.Close()
	}
	return err
}

// announce tells whoever asked that requests are served by a table.
func (s *server) announce(ctx context.Context) error {
	select {
	case <-s.built:
		if s.ready != nil {
			s.ready(s.reporter.routes())
		}
	case <-ctx.Done():
	}
	return nil
}

// drain lets what is in flight end: readiness fails and answers close their connections at once, so that clients and
// load balancers look elsewhere while connections are still taken; then the listeners close and the rest has its time.
// Another replica may tell the cluster what there is to tell as soon as told is closed.
func (s *server) drain(told <-chan struct{}) {
	s.log.Info("draining", "delay", s.config.DrainDelay.String(), "grace", s.config.ShutdownGracePeriod.String())
	s.draining.Store(true)
	s.front.Drain()
	<-time.After(s.config.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.ShutdownGracePeriod)
	defer cancel()
	var withdrawal sync.WaitGroup
	withdrawal.Go(func() {
		<-told
		if s.feedback != nil {
			s.feedback.Withdraw(ctx)
		}
	})
	s.shutdown(ctx)
	withdrawal.Wait()
	s.log.Info("bye")
}

// apply builds the table of a state and puts it in place.
func (s *server) apply(now state) {
	s.names.Bring(now.snapshot)
	result := s.builder.Build(now.snapshot)
	s.names.Follow(s.builder.Names())
	s.certs.Set(result.Certificates)
	s.front.SetClients(result.Clients)
	s.front.SetAround(result.Around)
	s.streams.Set(result.Streams, trustOf(s.config, result.Clients))
	if result.TableChanged {
		s.front.SetTable(result.Table)
	}
	problems := result.Problems
	if now.report != nil {
		problems = now.report(problems)
	}
	s.metrics.Built(counted(result, problems))
	s.tell(now, result, problems)
	var rows []routeRow
	if now.locate != nil {
		rows = routeRows(result.Table, &s.pools, now.locate)
	}
	s.reporter.report(now, result, problems, rows)
	s.reporter.reportIdle(idleMappings(s.config.Map, now.snapshot, &s.pools))
	select {
	case <-s.built:
	default:
		if s.names.Settled() { // which it nudges the source for
			close(s.built)
		}
	}
}

// tell hands over what the cluster is to know of a build.
func (s *server) tell(now state, result controller.Result, problems []controller.Problem) {
	switch {
	case s.feedback == nil:
	case result.OnlyEndpoints:
		s.feedback.UpdateEndpoints(now.snapshot)
	default:
		s.feedback.Update(now.snapshot, s.builder.Served(), problems)
	}
}

// ended is a context that has ended: nothing waits.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
