package stream

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// maxFlows is how many flows a port has at a time.
const maxFlows = 65536

// A buffer has room for any datagram.
type buffer [64 << 10]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// A udpListener takes the datagrams of a port, and answers from it.
type udpListener struct {
	server  *Server
	socket  *net.UDPConn
	sources bool // the port is opened on more than one address
	serving atomic.Pointer[served]

	mu       sync.Mutex // guards all below
	most     int        // flows
	flows    map[peer]*flow
	silent   list.List // of the flows, the one whose client has been silent for longest first
	draining bool
}

// A peer is who a flow belongs to: a client, as it is known to one of our addresses.
type peer struct {
	client netip.AddrPort
	local  netip.Addr // zero: there is only one
}

func listenUDP(s *Server, address string) (*udpListener, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUDP("udp", at)
	if err != nil {
		return nil, err
	}
	l := &udpListener{server: s, socket: socket, most: maxFlows, flows: make(map[peer]*flow)}
	if at.IP == nil || at.IP.IsUnspecified() {
		l.sources = askForSources(socket)
	}
	return l, nil
}

func (l *udpListener) become(s *served) { l.serving.Store(s) }

func (l *udpListener) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
}

func (l *udpListener) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flows) > 0
}

// close ends the flows too: there is nothing to answer from any more.
func (l *udpListener) close() {
	l.drain()
	l.socket.Close()
	l.mu.Lock()
	all := make([]*flow, 0, len(l.flows))
	for _, f := range l.flows {
		all = append(all, f)
	}
	l.mu.Unlock()
	for _, f := range all {
		f.end()
	}
}

// receive is the goroutine of the listener.
func (l *udpListener) receive() {
	data, control := new(buffer), make([]byte, controlSize)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		n, controlled, _, from, err := l.socket.ReadMsgUDPAddrPort(data[:], control)
		switch {
		case err == nil:
			p := peer{client: from}
			if l.sources {
				p.local = sourceIn(control[:controlled])
			}
			l.take(p, data[:n])
		case errors.Is(err, net.ErrClosed):
			return
		default:
			pause.Reset(10 * time.Millisecond)
			<-pause.C
		}
	}
}

// take passes a datagram on. The flow that a client has may end at the same time; then it gets another.
func (l *udpListener) take(p peer, datagram []byte) {
	for range 2 {
		f := l.flowOf(p)
		if f == nil || f.send(datagram) {
			return
		}
	}
}

// flowOf is the flow of a client, a new one where it has none; nil: it cannot have one.
func (l *udpListener) flowOf(p peer) *flow {
	l.mu.Lock()
	f := l.flows[p]
	if f != nil {
		l.silent.MoveToBack(f.element)
	}
	full, draining := len(l.flows) >= l.most, l.draining
	l.mu.Unlock()
	switch {
	case f != nil:
		return f
	case draining:
		return nil
	}
	if full {
		l.endOldest()
	}
	return l.begin(p)
}

// endOldest makes room for a flow, and reports whether there was one to end.
func (l *udpListener) endOldest() bool {
	l.mu.Lock()
	oldest := l.silent.Front()
	l.mu.Unlock()
	if oldest == nil {
		return false
	}
	oldest.Value.(*flow).end()
	return true
}

// begin makes a flow. Only the goroutine of the listener calls it.
func (l *udpListener) begin(p peer) *flow {
	s, now := l.server, l.serving.Load()
	client := unmapped(p.client)
	for !s.files.take(filesOfFlow) {
		if !l.endOldest() {
			s.refuse(&now.Service, client, "there are too many flows and connections", nil)
			return nil
		}
	}
	f := &flow{listener: l, served: now, peer: p, idle: now.Options.Idle, control: sourceFor(p.local)}
	if f.idle == 0 {
		f.idle = idleUDP
	}
	if err := f.dial(); err != nil {
		s.files.give(filesOfFlow)
		s.refuse(&now.Service, client, "no endpoint can be reached", err)
		return nil
	}
	l.mu.Lock()
	f.element = l.silent.PushBack(f)
	l.flows[p] = f
	draining := l.draining
	l.mu.Unlock()
	s.counts.flows.Add(1)
	s.counts.openFlows.Add(1)
	s.running.Go(f.run)
	if draining { // just now; nobody else would end it
		f.end()
	}
	return f
}

// forget takes a flow that has ended out of the table.
func (l *udpListener) forget(f *flow) {
	l.mu.Lock()
	delete(l.flows, f.peer)
	l.silent.Remove(f.element)
	l.mu.Unlock()
	l.server.files.give(filesOfFlow)
	l.server.counts.openFlows.Add(-1)
}
