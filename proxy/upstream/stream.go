package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"sallyport/proxy"
)

// StreamOptions are what holds for connections and datagrams that are taken to the endpoints of a pool as they are. They
// are comparable; the zero value has the defaults.
type StreamOptions struct {
	Balance Balance // default round robin

	ConnectTimeout time.Duration // to make a connection; default 5 s, negative no limit
	// Idle is how long a connection, or a flow of datagrams, may be silent in both directions. Zero is the default of its
	// protocol: 10 minutes for TCP, 1 minute for UDP. Negative: no limit.
	Idle time.Duration

	NoRetry      bool          // a connection that cannot be made is given up, where another endpoint would be tried
	Tries        int           // connections begun at most; default 3, negative no limit. Those refused at once do not count.
	RetryTimeout time.Duration // from the first try after which no other begins; default 10 minutes, negative no limit

	// Responses is how many datagrams answer each of the client's; a flow that has them all is over. Zero means 1, negative
	// none: what the client sends is never answered.
	Responses int
}

func (o StreamOptions) withDefaults() StreamOptions {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	switch {
	case o.NoRetry:
		o.Tries = 1
	case o.Tries == 0:
		o.Tries = 3
	case o.Tries < 0:
		o.Tries = maxTries
	}
	if o.RetryTimeout == 0 {
		o.RetryTimeout = 10 * time.Minute
	}
	return o
}

// ErrNoEndpoint says that a pool has no endpoint that has not been tried and has room.
var ErrNoEndpoint = errors.New("there is no endpoint")

// A Stream connects to the endpoints of one pool what is no request: connections and flows of datagrams that nobody looks
// into. It shares with requests what is known of the endpoints: which had better be left alone, how much each has to do.
type Stream struct {
	pool    *Pool
	policy  Policy
	options StreamOptions
}

// NewStream returns a Stream to a pool.
func NewStream(pool *Pool, o StreamOptions) *Stream {
	return &Stream{pool: pool, policy: pool.policy(o.Balance), options: o.withDefaults()}
}

// Dial connects a client to an endpoint over "tcp" or "udp", and tries others where the first cannot be connected to.
// Those in not were tried by the caller.
func (s *Stream) Dial(ctx context.Context, network string, client netip.Addr, not ...netip.AddrPort) (*Leg, error) {
	e := &proxy.Exchange{Client: client}
	for _, endpoint := range not {
		e.Try(endpoint)
	}
	if len(not) > 0 && (s.options.NoRetry || len(not) >= maxTries) {
		return nil, ErrNoEndpoint
	}
	begun := time.Now()
	reason := ErrNoEndpoint
	for tries := 0; ; {
		leg := s.pick(e)
		if leg == nil {
			return nil, reason
		}
		err := leg.dial(ctx, network, s.options.ConnectTimeout)
		if err == nil {
			return leg, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		e.Try(leg.endpoint.addr)
		reason = err
		if !errors.Is(err, syscall.ECONNREFUSED) || s.options.NoRetry {
			tries++
		}
		late := s.options.RetryTimeout > 0 && time.Since(begun) >= s.options.RetryTimeout
		if tries >= s.options.Tries || len(e.Attempts) >= maxTries || late {
			return nil, reason
		}
	}
}

// pick takes a place at an endpoint; nil: there is none. See trip.pick.
func (s *Stream) pick(e *proxy.Exchange) *Leg {
	var last *Endpoint
	for range maxPicks {
		endpoint := s.pool.pick(s.policy, Pick{Exchange: e})
		if endpoint == nil {
			return nil
		}
		h := &endpoint.health
		until := h.until.Load()
		over := until != 0 && time.Now().UnixNano() >= until
		probe := over && h.probing.CompareAndSwap(false, true)
		if (!over || probe || endpoint == last) && endpoint.enter() {
			return &Leg{pool: s.pool, endpoint: endpoint, probe: probe}
		}
		if probe {
			h.probing.Store(false)
		}
		last = endpoint
	}
	return nil
}

// A Leg is a connection to an endpoint, and a place at it until it is closed. Closing it twice does nothing more.
type Leg struct {
	net.Conn
	pool     *Pool
	endpoint *Endpoint
	probe    bool // it is to show whether the endpoint is well again
	left     atomic.Bool
}

// Endpoint is what the leg leads to.
func (l *Leg) Endpoint() netip.AddrPort { return l.endpoint.addr }

// dial connects, and has the health of the endpoint reckon with what came of it. A leg without a connection has given up its
// place.
func (l *Leg) dial(ctx context.Context, network string, timeout time.Duration) error {
	begun := time.Now()
	d := net.Dialer{Timeout: max(0, timeout), KeepAlive: 15 * time.Second}
	conn, err := d.DialContext(ctx, network, l.endpoint.addr.String())
	switch {
	case err == nil:
		l.Conn = conn
		if network == "tcp" { // a connected socket of UDP has not asked anybody
			l.Answered()
		}
		return nil
	case ctx.Err() == nil:
		l.endpoint.setAside(time.Since(begun))
		l.pool.failed(l.endpoint, unconnectedInARow, false)
	}
	l.leave()
	return err
}

// Answered says that the endpoint is there.
func (l *Leg) Answered() {
	h := &l.endpoint.health
	if h.failures.Load() != 0 {
		h.failures.Store(0)
	}
	if h.until.Load() != 0 {
		l.endpoint.takeBack()
	}
}

// Refused says that the endpoint turned out not to be there. The leg is still to be closed.
func (l *Leg) Refused() {
	l.endpoint.setAside(0)
	l.pool.failed(l.endpoint, unconnectedInARow, false)
}

// Close ends the connection.
func (l *Leg) Close() error {
	err := l.Conn.Close()
	l.leave()
	return err
}

func (l *Leg) leave() {
	if l.left.Swap(true) {
		return
	}
	if l.probe {
		l.endpoint.health.probing.Store(false)
	}
	l.endpoint.inFlight.Add(-1)
	if l.endpoint.limit.Load() != 0 {
		l.pool.care.queue.wake()
	}
}
