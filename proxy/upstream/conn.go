package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"sallyport/proxy/http1"
)

// A conn is one connection to an endpoint. It serves one exchange at a time; while a body is being sent, one goroutine
// writes and another reads.
type conn struct {
	tcp    *net.TCPConn
	raw    syscall.RawConn // of tcp, kept because asking for it allocates
	tls    *tls.Conn       // over tcp; nil: in the clear
	line   line            // what the connection is good for
	reader http1.Reader    // reads the conn itself, so that each read has its deadline
	answer http1.Response  // the head being relayed
	out    []byte          // the request head being written

	reused bool      // an exchange went over it before
	wrote  uint64    // bytes written to tcp, ever
	before uint64    // of them, before the exchange
	begun  time.Time // the exchange
	since  time.Time // idle since; guarded by the endpoint's mutex

	look    func(fd uintptr) bool // what quiet runs
	silent  bool                  // what look found
	looking bool                  // tls is not to wait for more to read
	asking  asking
	pending error // of a read that was made already
	waited  bool  // the patience was, for what is read now

	ctx  context.Context // of the exchange; the client is gone when it is done
	stop func() bool     // ends the watch over ctx; nil: it is not watched

	readGap, sendGap time.Duration // of the exchange; 0 or less: none
	readEnd, sendEnd time.Time     // the deadlines set now; zero: none

	// A head that has begun must be whole within another read gap, however small the steps it comes in.
	heading   bool      // a head is being read
	headReads int       // of it
	headEnd   time.Time // good from the second of them on

	// An exchange can be moved elsewhere while its answer is awaited from an endpoint that has gone silent.
	silence *silence // of the endpoint
	movable bool     // it may be sent twice, and has another try
	probe   bool     // it was to see whether the endpoint is well again
	budget  int      // of its route, for retries
	awaits  bool     // silence knows of it; set by silence only
	moved   bool     // guarded by silence.mu; it was given up

	// While a body is being sent the endpoint owes no answer, so its time to answer begins when sending is over.
	sending atomic.Bool
	sentAt  atomic.Int64 // Unix nanoseconds; when sending was over; 0: nothing was sent apart from the head
}

// dial connects to addr. Nothing of the process's environment has a say in it: no HTTP_PROXY, no resolver.
func dial(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (*conn, error) {
	d := net.Dialer{Timeout: max(0, timeout), KeepAlive: 15 * time.Second}
	// DialTCP would bind the socket first, for which the kernel looks for a port that is free towards everybody: among the many
	// of connections that were closed lately that takes longer than everything else.
	dialed, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	tcp := dialed.(*net.TCPConn) // with TCP_NODELAY, by default
	raw, err := tcp.SyscallConn()
	if err != nil {
		tcp.Close()
		return nil, err
	}
	c := &conn{tcp: tcp, raw: raw}
	c.reader.Reset(c)
	return c, nil
}

// begin prepares for an exchange with the gaps of its route. Now is when it begins, or a moment before.
func (c *conn) begin(ctx context.Context, method string, o *Options, now time.Time) {
	c.ctx, c.stop, c.pending, c.waited, c.begun = ctx, nil, nil, false, now
	c.readGap, c.sendGap = o.ReadTimeout, o.SendTimeout
	c.before = c.wrote
	c.sending.Store(false)
	c.sentAt.Store(0)
	c.reader.Begin(method)
}

// rest prepares for lying idle: the buffer goes back. A deadline may stay, and run out: see wake.
func (c *conn) rest(now time.Time) {
	c.reader.Release()
	c.answer.Fields = c.answer.Fields[:0]
	c.since = now
}

// wake takes away a deadline that was left, which would make a good connection look bad.
func (c *conn) wake() { c.setReadEnd(time.Time{}, !c.readEnd.IsZero()) }

func (c *conn) close() {
	c.reader.Release()
	if c.tls != nil {
		c.tls.Close() // says goodbye, which fits into the socket's buffer of a connection that is not broken already
		return
	}
	c.tcp.Close()
}

// stream is the connection for a tunnel.
func (c *conn) stream() net.Conn {
	if c.tls != nil {
		return c.tls
	}
	return c.tcp
}

// read and write are those of tls, if there is one. Deadlines are the socket's in either case; one that passes while tls
// reads does no harm to it.
func (c *conn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.tcp.Read(p)
}

func (c *conn) write(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Write(p) // wire counts
	}
	n, err := c.tcp.Write(p)
	c.wrote += uint64(n)
	return n, err
}

// patience is how long a read may take, at least, before the conn begins to watch whether the client is still there; one
// that leaves is noticed up to twice that much later. Most answers are sooner, and the watch costs 6 allocations. Since it
// may be twice as long, a busy connection sets no timer for most of its requests.
const patience = 25 * time.Millisecond

// watch makes the connection end when the client leaves. Only the goroutine of the exchange may call it.
func (c *conn) watch() {
	if c.stop == nil {
		c.stop = context.AfterFunc(c.ctx, c.abort)
	}
}

// unwatch ends the watch and reports whether the connection was left alone by it.
func (c *conn) unwatch() bool {
	stop := c.stop
	c.ctx, c.stop = nil, nil
	return stop == nil || stop()
}

// slack is the part of a gap by which a deadline may be early or late, so that not every read and write of a busy
// connection has to set one: that costs a timer each.
const slack = 8

// arm returns the deadline to set for a gap that begins now, and whether the one in place will not do.
func arm(end time.Time, gap time.Duration) (time.Time, bool) {
	if gap <= 0 {
		return time.Time{}, !end.IsZero()
	}
	now := time.Now()
	left := end.Sub(now)
	if left >= gap && left <= gap+gap/slack {
		return end, false
	}
	return now.Add(gap + gap/slack), true
}

func (c *conn) beginHead() {
	c.heading, c.headReads = true, 0
	if len(c.reader.Buffered()) > 0 {
		c.headReads = 1
	}
}

// endHead reports whether the exchange was moved elsewhere meanwhile.
func (c *conn) endHead() (moved bool) {
	c.heading = false
	return c.awaits && c.silence.unawait(c)
}

// Read reads from the endpoint, waiting no longer than the read gap. The gap does not run while a body is being sent.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.pending; err != nil {
		c.pending = nil
		return 0, err
	}
	if c.heading {
		if c.headReads++; c.headReads > 1 && c.readGap > 0 {
			return c.readRest(p)
		}
	}
	if c.stop == nil {
		if n, err := c.readSoon(p); err == nil || !errors.Is(err, errDeadline) {
			return n, err
		}
		c.waited = true
		c.watch()
	}
	if c.heading && c.movable && !c.awaits {
		c.silence.await(c)
	}
	gap := c.readGap
	if c.waited && gap > 2*patience {
		gap -= patience
	}
	c.waited = false
	end, change := arm(c.readEnd, gap)
	for {
		c.setReadEnd(end, change)
		n, err := c.read(p)
		if err == nil || !errors.Is(err, errDeadline) {
			return n, err
		}
		if end, change = c.owed(); !change {
			return n, err
		}
	}
}

// readRest reads more of a head that has begun.
func (c *conn) readRest(p []byte) (int, error) {
	if c.headReads == 2 {
		c.headEnd = time.Now().Add(c.readGap)
	}
	c.watch()
	c.setReadEnd(c.headEnd, c.readEnd != c.headEnd)
	return c.read(p)
}

// readSoon reads what comes within the patience.
func (c *conn) readSoon(p []byte) (int, error) {
	c.armPatience(time.Now())
	return c.read(p)
}

func (c *conn) armPatience(now time.Time) {
	if left := c.readEnd.Sub(now); left < patience || left > 2*patience {
		c.setReadEnd(now.Add(2*patience), true)
	}
}

func (c *conn) setReadEnd(end time.Time, change bool) {
	if change {
		c.readEnd = end
		c.tcp.SetReadDeadline(end)
	}
}

// owed says, when the read deadline has passed, until when the endpoint may have more time because it had not yet got the
// whole request for as long as the gap.
func (c *conn) owed() (until time.Time, ok bool) {
	if c.sending.Load() {
		return time.Now().Add(c.readGap), true
	}
	at := c.sentAt.Load()
	if at == 0 {
		return time.Time{}, false
	}
	until = time.Unix(0, at).Add(c.readGap)
	return until, time.Until(until) > 0
}

// Write writes to the endpoint, which must take it within the send gap.
func (c *conn) Write(p []byte) (int, error) {
	if end, change := arm(c.sendEnd, c.sendGap); change {
		c.sendEnd = end
		c.tcp.SetWriteDeadline(end)
	}
	return c.write(p)
}

// abort closes the connection from any goroutine: whoever waits on it wakes. The one who owns the conn still closes it.
func (c *conn) abort() { c.tcp.Close() }
