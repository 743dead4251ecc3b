// Package stream passes TCP connections and UDP datagrams on to the endpoints of pools as they are.
//
//	server := &stream.Server{Log: log}
//	server.Set([]stream.Service{{Port: stream.Port{Network: "tcp", Number: 5432}, Name: "db/postgres:5432", Pool: pool}}, stream.Trust{})
//	...
//	server.Shutdown(ctx)
//
// Each [Service] has a port of its own, on which a [Server] listens for as long as the Service is among those that were set
// last. What has begun goes on when another Service takes the port, and when none has it any more: a change of
// configuration ends no connection. Datagrams are the exception: there is nothing to answer them from once the port is closed.
//
// A connection (tcp.go, splice.go) is joined to one to an endpoint until both directions have ended. Datagrams have no
// connections: those of one client's address and port are a flow (flow.go), which goes to one endpoint and ends with its
// answers, or when it was silent for too long.
//
// # Bounds
//
// Clients are strangers. A port takes [maxConnections] connections or [maxFlows] flows; of flows the one that has been
// silent for longest makes room for a new one, since a datagram's sender can be invented. All ports together use no more
// than half of the sockets that the process may have, so that the rest of it goes on (files_unix.go).
//
// # What it does not do
//
// It looks into nothing that passes, so it knows no TLS and no names of hosts: a port is one Service. Whoever has found out
// where a connection goes that it accepted itself hands it over (passage.go). It does not decide which pool a Service is;
// controller/streams.go and controller/passthrough.go do.
package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy/upstream"
)

// A Port is where clients come to.
type Port struct {
	Network string // "tcp" or "udp"
	Number  uint16
}

func (p Port) String() string { return strconv.Itoa(int(p.Number)) + "/" + p.Network }

// A Service is what clients reach at a Port. It is comparable.
type Service struct {
	Port
	Name    string         // namespace/name:port, for the log
	Pool    *upstream.Pool // nil: there is none, and nobody is let in
	Options upstream.StreamOptions
	// Expect has every connection begin with a PROXY header, and Send has one sent to the endpoint. TCP only.
	Expect, Send bool
}

// A Trust says whose PROXY headers are believed.
type Trust struct {
	// Peers are the networks whose connections may begin with one. Nil: everyone's may.
	Peers []netip.Prefix
	// Patience is the time that a connection has to send its header. Zero: 5 seconds.
	Patience time.Duration
}

func (t *Trust) patience() time.Duration {
	if t.Patience != 0 {
		return t.Patience
	}
	return 5 * time.Second
}

func (t *Trust) believes(peer netip.Addr) bool {
	return t.Peers == nil || slices.ContainsFunc(t.Peers, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// A Server listens on the ports of Services. The zero Server listens on none.
type Server struct {
	// Address is what ports are opened on. Not valid: every address.
	Address netip.Addr
	Log     *slog.Logger // nil: slog.Default()

	trust   atomic.Pointer[Trust] // good once there is a listener
	files   files
	counts  counts
	told    refusals
	running sync.WaitGroup // listeners, connections, flows

	mu        sync.Mutex // guards all below
	cutting   context.Context
	cut       context.CancelFunc // ends every connection; nil: nothing has begun
	listeners map[Port]listener
	missing   map[Port]Service // ports that could not be opened
	again     *time.Timer      // tries them again; nil: there are none
	ended     bool
}

// A listener has one port.
type listener interface {
	// become has whoever comes from now on meet another Service.
	become(*served)
	// drain lets in nobody any more. What has begun may go on.
	drain()
	// close ends the listener, and with it what cannot go on without.
	close()
	// busy reports whether something goes on that ends with the listener.
	busy() bool
}

// A served is a Service with the way to its endpoints.
type served struct {
	Service
	stream *upstream.Stream // nil: it has no pool
}

func newServed(service Service) *served {
	s := &served{Service: service}
	if service.Pool != nil {
		s.stream = upstream.NewStream(service.Pool, service.Options)
	}
	return s
}

// Set makes services those that are served. Ports that are new are opened, those that nobody has any more are closed. A port
// that cannot be opened is logged, and tried again every few seconds.
func (s *Server) Set(services []Service, trust Trust) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.trust.Store(&trust)
	s.beginLocked()
	wanted := make(map[Port]Service, len(services))
	for _, service := range services {
		wanted[service.Port] = service
	}
	for port, l := range s.listeners {
		if _, stays := wanted[port]; !stays {
			l.close()
			delete(s.listeners, port)
			s.log().Info("closed a port", "port", port.String())
		}
	}
	for port := range s.missing {
		if _, stays := wanted[port]; !stays {
			delete(s.missing, port)
		}
	}
	for port, service := range wanted {
		if l := s.listeners[port]; l != nil {
			l.become(newServed(service))
			continue
		}
		if _, failed := s.missing[port]; failed {
			s.missing[port] = service // its time comes with the others'
			continue
		}
		if err := s.openLocked(service); err != nil {
			s.missing[port] = service
			s.log().Error("a port cannot be opened; it is tried again until it can", "port", port.String(), "service", service.Name, "err", err)
		}
	}
	s.retryLocked()
}

// beginLocked makes the Server ready for its first connection.
func (s *Server) beginLocked() {
	if s.cut == nil {
		s.cutting, s.cut = context.WithCancel(context.Background())
		s.listeners, s.missing = make(map[Port]listener), make(map[Port]Service)
	}
}

// openLocked begins to listen on the port of a Service.
func (s *Server) openLocked(service Service) error {
	address := ":" + strconv.Itoa(int(service.Number))
	if s.Address.IsValid() {
		address = netip.AddrPortFrom(s.Address, service.Number).String()
	}
	var l listener
	switch service.Network {
	case "tcp":
		socket, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		t := &tcpListener{server: s, socket: socket.(*net.TCPListener)}
		t.become(newServed(service))
		s.running.Go(t.accept)
		l = t
	case "udp":
		u, err := listenUDP(s, address)
		if err != nil {
			return err
		}
		u.become(newServed(service))
		s.running.Go(u.receive)
		l = u
	default:
		return fmt.Errorf("%q is no network", service.Network)
	}
	s.listeners[service.Port] = l
	s.log().Info("opened a port", "port", service.Port.String(), "service", service.Name)
	return nil
}

// retry is the time between two tries to open a port that somebody else has.
const retry = 3 * time.Second

// retryLocked has the ports that are missing tried again after a while.
func (s *Server) retryLocked() {
	if len(s.missing) == 0 || s.ended {
		if s.again != nil {
			s.again.Stop()
			s.again = nil
		}
		return
	}
	if s.again == nil {
		s.again = time.AfterFunc(retry, s.openMissing)
	}
}

func (s *Server) openMissing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.again = nil
	for port, service := range s.missing {
		if s.openLocked(service) == nil {
			delete(s.missing, port)
		}
	}
	s.retryLocked()
}

// lastAnswers is the time that answers to datagrams have to come when the process ends.
const lastAnswers = time.Second

// Shutdown closes the ports and waits for the connections until ctx ends, then cuts what is left and says in the error how
// much that was. Nil: nothing was cut. Answers to datagrams have a second at most.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	s.retryLocked()
	listeners := s.listeners
	s.listeners = nil
	cut := s.cut
	s.mu.Unlock()
	if cut == nil {
		return nil
	}
	defer cut()
	for _, l := range listeners {
		l.drain()
	}
	answers, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	for _, l := range listeners {
		await(answers, func() bool { return !l.busy() })
		l.close()
	}
	await(ctx, func() bool { return s.counts.open.Load() == 0 })
	var err error
	if n := s.counts.open.Load(); n > 0 {
		err = fmt.Errorf("cut %d TCP connections: %w", n, context.Cause(ctx))
	}
	cut()
	s.running.Wait()
	return err
}

// await returns when done reports true, or when ctx ends.
func await(ctx context.Context, done func() bool) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) log() *slog.Logger { return cmp.Or(s.Log, slog.Default()) }

// counts are what has passed.
type counts struct {
	connections, flows, refused atomic.Int64
	open, openFlows             atomic.Int64 // open counts those of Passages too
	passed, openPassed          atomic.Int64
	unpassed                    atomic.Int64
	sent, received              atomic.Int64 // bytes
	udpSent, udpReceived        atomic.Int64 // likewise
}

// Counts are the numbers of a Server. Those that begin with Open are of now, the others of all time.
type Counts struct {
	Connections, OpenConnections int64 // of ports
	Flows, OpenFlows             int64
	Passed, OpenPassed           int64 // connections of Passages
	Unpassed                     int64 // connections of Passages that were turned away
	Sent, Received               int64 // bytes to endpoints and from them, over TCP
	FlowsSent, FlowsReceived     int64 // likewise over UDP
	Refused                      int64 // connections and datagrams that were turned away: for want of an endpoint, of room, of a PROXY header
}

// Counts returns what has passed so far.
func (s *Server) Counts() Counts {
	c := &s.counts
	return Counts{
		Connections: c.connections.Load(), OpenConnections: c.open.Load() - c.openPassed.Load(),
		Flows: c.flows.Load(), OpenFlows: c.openFlows.Load(),
		Passed: c.passed.Load(), OpenPassed: c.openPassed.Load(), Unpassed: c.unpassed.Load(),
		Sent: c.sent.Load(), Received: c.received.Load(),
		FlowsSent: c.udpSent.Load(), FlowsReceived: c.udpReceived.Load(),
		Refused: c.refused.Load(),
	}
}

// refuse counts one who was turned away, and tells about it now and then: anybody can cause any number of lines.
func (s *Server) refuse(service *Service, client netip.AddrPort, why string, err error) {
	s.counts.refused.Add(1)
	s.told.tell(func(untold int64) {
		s.log().Warn("turned a client away", "port", service.Port.String(), "service", service.Name, "client", client.String(),
			"why", why, "err", err, "others", untold)
	})
}

// refusals are told one in a while.
type refusals struct {
	last   atomic.Int64 // when, in Unix time; 0: never
	untold atomic.Int64
}

// quiet is the time between two lines about refusals, in seconds.
const quiet = 10

func (r *refusals) tell(write func(untold int64)) {
	now, last := time.Now().Unix(), r.last.Load()
	if now-last < quiet || !r.last.CompareAndSwap(last, now) {
		r.untold.Add(1)
		return
	}
	write(r.untold.Swap(0))
}
