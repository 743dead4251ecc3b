package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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
	orders  *orderer // nil: no certificates are ordered
	// feedback tells the cluster what became of its objects; nil: there is none, or it is only read.
	feedback *feedback.Writer

	built    chan struct{} // closed once the first table is in place
	serving  atomic.Bool   // the listeners of front are served
	draining atomic.Bool

	reporter reporter                           // used by apply alone
	again    *time.Timer                        // has apply be called when certificates begin or end; nil before the first
	nudge    func()                             // has apply be called again; from serve on
	passed   map[string]*stream.Service         // likewise
	passages map[stream.Service]*stream.Passage // likewise
	stapling bool                               // what authorities say was asked for, the last time
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
	options.ACMENamespace = ordersNamespace(w, c)
	options.Retain, options.Release = s.metrics.Retain, s.metrics.Release
	s.builder = controller.NewBuilder(options)
	if c.AccessLog != "off" {
		s.access = proxy.NewAccessLog(w.out, c.AccessLog)
		s.metrics.CountLines(s.access)
	}
	s.certs.Stapler = &certs.Stapler{Client: stapleClient(s.builder.RefuseAddress), Log: log}
	s.certs.Base = &tls.Config{NextProtos: proxy.Protocols()}
	s.front = &proxy.Server{
		Log:       log,
		AccessLog: s.access,
		Handshake: s.handshake,
		Admits:    s.admits,
		Trusted:   c.TrustedProxies,
		Observer:  s.metrics.Unrouted(),

		MaxConnections:           c.MaxConnections,
		MaxConnectionsPerAddress: c.MaxConnectionsPerAddress,
	}
	s.metrics.CountFloods(s.front)
	s.metrics.CountConnections(s.front)
	s.streams = &stream.Server{Address: c.BindAddress, Log: log}
	s.metrics.CountPassthrough(s.countPassthrough)
	s.metrics.CountStreams(func() admin.StreamCounts { return streamCounts(s.streams) })
	s.admin = newAdmin(s)
	return s, nil
}

// order has certificates ordered. Call it before serve.
func (s *server) order(o *orderer) {
	s.orders = o
	s.front.Answer, s.admin.Remark = o.manager.Answer, o.remark
}

// handshake and admits are what the certificates say, for the front, which knows nothing of them. A connection that only
// shows a certificate authority that a host is here has met nothing.
func (s *server) handshake(hello *tls.ClientHelloInfo) (config *tls.Config, met any, err error) {
	if s.orders != nil {
		if config := s.orders.manager.Handshake(hello); config != nil {
			return config, nil, nil
		}
	}
	return s.certs.Handshake(hello)
}

func (s *server) admits(met any, host string) bool {
	h, ok := met.(*certs.Host)
	return ok && s.certs.Admits(h, host)
}

// patience is how long connections wait in the listeners' queues for the first table. A folder has one before the
// first client comes; a cluster that cannot be reached must not let clients hang, they are told 503 instead.
const patience = time.Second

// serve runs until ctx ends, then drains and returns nil; or until something fails, and returns why.
func (s *server) serve(ctx context.Context, from source) error {
	s.names = names.New(names.Options{File: s.config.ResolvConf, Changed: from.Nudge, Log: s.log})
	defer s.names.Close()
	s.nudge = from.Nudge
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
	start("OCSP", func() error { s.certs.Stapler.Run(sourceCtx); return nil })
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
			return
		}
		var orders sync.WaitGroup
		if s.orders != nil {
			orders.Go(func() { s.orders.manager.Run(staying) })
		}
		s.rotateTickets(staying)
		orders.Wait()
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

// shareTickets has sessions be resumed with keys that all replicas have.
func (s *server) shareTickets(keys [][32]byte) {
	given := make([]certs.TicketKey, len(keys))
	for i, key := range keys {
		given[i] = key
	}
	if err := s.certs.SetTicketKeys(given); err != nil {
		s.log.Error("session tickets keep the keys they had", "err", err)
	}
}

// ticketLife is how long a key makes tickets where a process has its own; as many open them as replicas share otherwise.
const ticketLife = 12 * time.Hour

// rotateTickets changes the keys of this process's own.
func (s *server) rotateTickets(ctx context.Context) {
	var keys []certs.TicketKey
	for {
		key, err := certs.NewTicketKey()
		if err == nil {
			keys = append([]certs.TicketKey{key}, keys[:min(len(keys), 2)]...)
			err = s.certs.SetTicketKeys(keys)
		}
		if err != nil {
			s.log.Error("session tickets keep the keys they had", "err", err)
		}
		select {
		case <-time.After(ticketLife):
		case <-ctx.Done():
			return
		}
	}
}

// stapleClient asks OCSP servers. Certificates say where those are, and certificates are anybody's: what refuse has something to
// say about is not asked, whatever name led there.
func stapleClient(refuse func(netip.Addr) string) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if what := refuse(to.Addr()); what != "" {
			return fmt.Errorf("%s is %s, where no OCSP server is asked unless --allow-external-name-addresses says so", to.Addr(), what)
		}
		return nil
	}}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
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
	if s.orders != nil {
		s.orders.bring(now.snapshot)
	}
	result := s.builder.Build(now.snapshot)
	s.names.Follow(s.builder.Names())
	s.certs.Set(result.Certificates)
	switch { // only where something may be another: there are thousands
	case !result.Staple && s.stapling:
		s.certs.Stapler.Want(certs.Certificates{})
	case result.Staple && !(s.stapling && result.OnlyEndpoints):
		s.certs.Stapler.Want(result.Certificates)
	}
	s.stapling = result.Staple
	s.front.SetClients(result.Clients)
	s.front.SetAround(result.Around)
	s.streams.Set(result.Streams, trustOf(s.config, result.Clients))
	s.setPassthrough(result)
	if result.TableChanged {
		s.front.SetTable(result.Table)
	}
	s.wakeAt(result.Again)
	problems := result.Problems
	if s.orders != nil {
		ordered, changed := s.orders.review(result, s.builder.Orders)
		problems = append(slices.Clip(problems), ordered...)
		result.OnlyEndpoints = result.OnlyEndpoints && !changed
	}
	if now.report != nil {
		problems = now.report(problems)
	}
	s.metrics.Built(counted(result, problems, s.builder.SecretOf))
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

// longestSleep is how long a timer runs at most: the clock may be set meanwhile, of which timers know nothing.
const longestSleep = time.Hour

// wakeAt has apply be called at a time, or an hour from now if that is earlier; zero: never.
func (s *server) wakeAt(t time.Time) {
	if s.again != nil {
		s.again.Stop()
	}
	if !t.IsZero() && s.nudge != nil {
		s.again = time.AfterFunc(min(time.Until(t), longestSleep), s.nudge)
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
