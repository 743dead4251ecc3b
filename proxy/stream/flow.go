package stream

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sallyport/proxy/upstream"
)

// A flow is the datagrams of one client. It has a socket of its own, connected to one endpoint: so what comes to that socket
// is from the endpoint, for this client, and a host that has nobody at the port can say so (ICMP).
//
// It is over when the client has had its answers, as many for each of its datagrams as the Service says; when it was
// silent for too long; or when another needs its room. With the next datagram of the client another one begins, perhaps at
// another endpoint.
//
// An endpoint that turns out not to be there is left for another, which gets what has had no answer: the last datagram. The
// one that was refused had nobody to act on it.
type flow struct {
	listener *udpListener
	*served
	peer    peer
	control []byte // says which of our addresses answers come from; nil: there is only one
	idle    time.Duration
	element *list.Element // of the listener's list
	active  atomic.Int64  // Unix nanoseconds of the last datagram in either direction

	mu      sync.Mutex // guards all below; locked before the listener's
	leg     *upstream.Leg
	raw     syscall.RawConn // of leg
	ended   bool
	waiting []byte           // the last datagram, while it has no answer; nil: it has
	tried   []netip.AddrPort // endpoints that were not there
	asked   int64            // datagrams of the client
	answers int64            // of the endpoint
}

// idleUDP is how long a flow may be silent in both directions. It is short, because whoever sends a datagram need not even
// exist.
const idleUDP = time.Minute

// maxKept is the longest datagram that is kept for another endpoint.
const maxKept = 2048

// dial connects to an endpoint. The lock is held, or nobody else knows the flow.
func (f *flow) dial() error {
	if f.stream == nil {
		return upstream.ErrNoEndpoint
	}
	leg, err := f.stream.Dial(f.listener.server.cutting, "udp", unmapped(f.peer.client).Addr(), f.tried...)
	if err != nil {
		return err
	}
	raw, err := leg.Conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		leg.Close()
		return err
	}
	f.leg, f.raw = leg, raw
	f.active.Store(time.Now().UnixNano())
	f.extend(leg, f.idle)
	return nil
}

// extend lets a leg be silent for a while.
func (f *flow) extend(leg *upstream.Leg, d time.Duration) {
	if f.idle > 0 {
		leg.SetReadDeadline(time.Now().Add(d))
	}
}

// send passes a datagram of the client on. False: the flow has ended.
func (f *flow) send(datagram []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.asked++
	f.active.Store(time.Now().UnixNano())
	f.listener.server.counts.udpSent.Add(int64(len(datagram)))
	f.waiting = append(f.waiting[:0], datagram[:min(len(datagram), maxKept)]...)
	if len(datagram) > maxKept {
		f.waiting = nil
	}
	if _, err := f.leg.Write(datagram); isAbsent(err) && f.moveLocked() {
		f.leg.Write(datagram)
	}
	if f.Options.Responses < 0 {
		f.endLocked()
	}
	return true
}

// moveLocked leaves an endpoint that is not there for another. False: there is none, and the flow has ended.
func (f *flow) moveLocked() bool {
	gone := f.leg
	gone.Refused()
	f.tried = append(f.tried, gone.Endpoint())
	err := f.dial()
	gone.Close()
	if err != nil {
		f.listener.server.refuse(&f.Service, unmapped(f.peer.client), "no endpoint can be reached", err)
		f.endLocked()
		return false
	}
	return true
}

// isAbsent reports whether an error says that there is no endpoint at all.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// run is the goroutine of the flow: it passes answers on.
func (f *flow) run() {
	for {
		leg, raw := f.current()
		if leg == nil {
			return
		}
		b, n, err := readDatagram(leg.Conn.(*net.UDPConn), raw)
		switch {
		case err == nil:
			leg.Answered()
			f.answer(b[:n])
			buffers.Put(b)
		case errors.Is(err, os.ErrDeadlineExceeded):
			left := f.idle - time.Duration(time.Now().UnixNano()-f.active.Load())
			if left <= 0 {
				f.end()
				return
			}
			f.extend(leg, left)
		default:
			f.failed(leg, err)
		}
	}
}

// current is the way to the endpoint; nil: the flow has ended.
func (f *flow) current() (*upstream.Leg, syscall.RawConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, nil
	}
	return f.leg, f.raw
}

// answer passes a datagram of the endpoint on.
func (f *flow) answer(datagram []byte) {
	f.active.Store(time.Now().UnixNano())
	f.listener.server.counts.udpReceived.Add(int64(len(datagram)))
	f.listener.socket.WriteMsgUDPAddrPort(datagram, f.control, f.peer.client)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = nil
	f.answers++
	if f.answers >= int64(max(f.Options.Responses, 1))*f.asked {
		f.endLocked()
	}
}

// failed is told why an endpoint could not be read from.
func (f *flow) failed(leg *upstream.Leg, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended || f.leg != leg: // it was closed, or left, by the other direction
	case !isAbsent(err):
		f.endLocked()
	case f.moveLocked() && f.waiting != nil:
		f.leg.Write(f.waiting)
	}
}

// end ends the flow, unless it has ended.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endLocked()
}

func (f *flow) endLocked() {
	if f.ended {
		return
	}
	f.ended = true
	f.leg.Close()
	f.listener.forget(f)
}
