package proxy

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/proxy/http1"
)

// HTTP/2 has frames that cost whoever sends them a few bytes and nothing else: resets of streams that were just opened,
// settings, pings, priorities, windows, empty pieces of heads and bodies. net/http bounds the memory that they take (streams
// and handlers at a time, bytes of a head, frames that wait to be written), and not their number: it takes fifty thousand
// requests with their resets as fast as they come, and would go on until the client is tired.
//
// So every connection has a balance. What does no work costs one, and what we have to say in answer pays:
//
//	from the client                                         to the client
//	RST_STREAM, SETTINGS, PING, PRIORITY, CONTINUATION,     RST_STREAM            costs 1: a request we had to cut
//	GOAWAY, PUSH_PROMISE, unknown ones           cost 1     HEADERS               pays 1: a reset after it is free
//	WINDOW_UPDATE of data that it got, 1 KiB
//	or more of it                                cost 0
//	another WINDOW_UPDATE                        cost 1
//	DATA that is empty or all padding            costs 1    DATA of 5 bytes or    pays 3: two windows and a ping
//	HEADERS, other DATA                          cost 0     more; all others      pay 0
//
// A connection that owes [floodLimit] within [floodTime] is a flood, and is closed. So is one whose requests reach no
// handler of ours as often: net/http answers heads that are too long itself, however little of the wire they took (an entry
// of HPACK's table that is named again and again). What takes longer starts anew: the clock is read once in so many frames.
//
// What clients do in earnest stays far below. A download's windows are free where a client opens one for every 4 KiB, as
// Go's does, and paid for where it opens one for every small frame; the pings with which gRPC measures its round trips come
// once for a frame of data, of which the least has 5 bytes; cancelling is free once an answer has begun, and before that a
// client may cancel a hundred requests a second.
//
// To see frames we must stand between TLS and net/http, which takes HTTP/2 from nobody but a [tls.Conn], or in the clear.
// So it gets it in the clear, from a connection that is decrypted on its way, and that says itself what its TLS is.
const (
	floodLimit = 1000
	floodTime  = 10 * time.Second

	// maxAhead is how much may be paid before it is owed: for what is on its way to a client, and will be read. Without an
	// end to it a client that has read much could flood all the more.
	maxAhead = 4 * floodLimit

	leastWindow = 1 << 10 // bytes that are worth a frame

	lastReads = 256 << 10              // bytes that are taken, and not looked at, so that the client may read why
	lastWait  = 500 * time.Millisecond // for the same
)

// The frames of HTTP/2 that are told apart (RFC 9113 section 6).
const (
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
	frameGoAway   = 0x7
	frameWindow   = 0x8

	flagAck       = 0x1 // of SETTINGS
	flagEndStream = 0x1 // of DATA and HEADERS
	flagPadded    = 0x8

	enhanceYourCalm = 0xb // an error code (section 7)

	maxPadding = 256 // bytes of it, with its length

	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frames finds the heads of frames among the bytes of one direction of a connection.
type frames struct {
	head [headSize + 8]byte // and the payload of a WINDOW_UPDATE, or of a GOAWAY as far as its code
	have int                // bytes of head
	rest int                // bytes to come that belong to no head
}

const headSize = 9

// next returns what follows on the next head in p; ok is false where p ends before one is complete.
func (f *frames) next(p []byte) (behind []byte, ok bool) {
	skip := min(f.rest, len(p))
	f.rest -= skip
	p = p[skip:]
	if f.have == 0 && len(p) >= headSize { // as net/http reads them
		*(*[headSize]byte)(f.head[:]) = [headSize]byte(p)
		f.have, p = headSize, p[headSize:]
	}
	for f.have < f.want() {
		n := copy(f.head[f.have:f.want()], p)
		if n == 0 {
			return nil, false
		}
		f.have += n
		p = p[n:]
	}
	f.rest = f.length() - (f.have - headSize)
	f.have = 0
	return p, true
}

// want is the size of the head, as far as it is known.
func (f *frames) want() int {
	switch {
	case f.have < headSize:
	case f.kind() == frameWindow && f.length() == 4:
		return headSize + 4
	case f.kind() == frameGoAway && f.length() >= 8:
		return headSize + 8
	}
	return headSize
}

func (f *frames) length() int    { return int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2]) }
func (f *frames) kind() byte     { return f.head[3] }
func (f *frames) flags() byte    { return f.head[4] }
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31) }

// window is by how much a WINDOW_UPDATE opens one; 0 where it is none.
func (f *frames) window() int64 {
	if f.kind() != frameWindow || f.length() != 4 {
		return 0
	}
	return int64(binary.BigEndian.Uint32(f.head[headSize:]) &^ (1 << 31))
}

// calms reports whether it is a GOAWAY of ENHANCE_YOUR_CALM.
func (f *frames) calms() bool {
	return f.kind() == frameGoAway && f.length() >= 8 && binary.BigEndian.Uint32(f.head[headSize+4:]) == enhanceYourCalm
}

// between reports whether one frame has ended and no other has begun.
func (f *frames) between() bool { return f.have == 0 && f.rest == 0 }

// fromClient is what the frame costs whoever sends it to us.
func (f *frames) fromClient() int64 {
	switch f.kind() {
	case frameHeaders:
		return 0
	case frameData:
		if f.flags()&flagEndStream == 0 && (f.length() == 0 || f.flags()&flagPadded != 0 && f.length() <= maxPadding) {
			return 1
		}
		return 0
	case frameSettings:
		if f.flags()&flagAck != 0 {
			return 0 // one too many ends the connection anyway
		}
	}
	return 1
}

// toClient is the same for what we send.
func (f *frames) toClient() int64 {
	switch f.kind() {
	case frameHeaders:
		return -1
	case frameData:
		if f.length() >= 5 {
			return -3
		}
	case frameReset:
		return 1
	}
	return 0
}

// A watched is a connection of HTTP/2 whose frames are counted. It reads and writes them without their TLS.
type watched struct {
	net.Conn // a [tls.Conn]
	state    *tls.ConnectionState
	server   *Server

	owes    atomic.Int64 // what its frames cost, less what was paid for
	unread  atomic.Int64 // bytes of data in frames that no window has answered: twice, for the stream and the connection
	strays  atomic.Int64 // requests that began, less those that reached a handler
	flooded atomic.Bool  // and nothing may be written any more
	counted sync.Once    // as a flood
	closing sync.Once

	// Of the goroutine that reads.
	in       frames
	seen     int       // frames
	since    time.Time // when the count of what is owed began
	lastSeen uint32    // the last stream that was opened

	mu  sync.Mutex // guards what follows, and writing
	out frames
}

func (s *Server) watch(c *tls.Conn) *watched {
	state := c.ConnectionState()
	return &watched{Conn: c, state: &state, server: s, in: frames{rest: len(clientPreface)}, since: time.Now()}
}

func (c *watched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for behind, ok := c.in.next(p[:n]); ok; behind, ok = c.in.next(behind) {
		if !c.count() {
			c.end()
			return 0, net.ErrClosed
		}
	}
	return n, err
}

// count charges for a frame of the client, and reports whether that goes on.
func (c *watched) count() bool {
	c.seen++
	if stream := c.in.stream(); c.in.kind() == frameHeaders && stream > c.lastSeen { // others are trailers
		c.lastSeen = stream
		c.strays.Add(1)
	}
	cost := c.in.fromClient()
	if n := c.in.window(); n >= leastWindow && n <= c.unread.Load() {
		c.unread.Add(-n)
		cost = 0
	}
	if c.owes.Load() < floodLimit && c.strays.Load() < floodLimit {
		if cost != 0 {
			c.owes.Add(cost)
		}
		return true
	}
	now := time.Now()
	if now.Sub(c.since) < floodTime {
		return false
	}
	c.since = now
	c.owes.Store(cost)
	c.strays.Store(0)
	return true
}

func (c *watched) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for behind, ok := c.out.next(p); ok; behind, ok = c.out.next(behind) {
		if cost := c.out.toClient(); cost != 0 && c.owes.Add(cost) < -maxAhead {
			c.owes.Store(-maxAhead)
		}
		switch c.out.kind() {
		case frameData:
			c.unread.Add(2 * int64(c.out.length()))
		case frameGoAway:
			if c.out.calms() { // net/http has had enough: requests wait for handlers that are reset already
				c.counted.Do(c.server.flooded)
			}
		}
	}
	if c.flooded.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// end says why the connection ends, if the client can be told: not in the middle of another frame.
func (c *watched) end() {
	c.flooded.Store(true)
	c.counted.Do(c.server.flooded)
	c.server.log().Debug("closed a connection for a flood of HTTP/2 frames", "client", c.RemoteAddr(), "frames", c.seen, "last", c.in.kind())
	c.SetWriteDeadline(time.Now().Add(lastWait)) // also of what is being written, which may wait for a client that reads nothing
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.between() {
		c.Conn.Write(calm(c.lastSeen))
	}
}

// calm is a GOAWAY of ENHANCE_YOUR_CALM (RFC 9113 section 6.8).
func calm(last uint32) []byte {
	const why = "too many frames to no end"
	b := []byte{0, 0, byte(8 + len(why)), frameGoAway, 0, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, enhanceYourCalm)
	return append(b, why...)
}

// Close waits a moment for a client that is still flooding: bytes that were not taken from a connection that is closed
// make the kernel reset it, and the client would not read why.
func (c *watched) Close() error {
	if c.flooded.Load() {
		c.closing.Do(func() {
			beneath := c.Conn.(*tls.Conn).NetConn()
			beneath.SetReadDeadline(time.Now().Add(lastWait))
			io.CopyN(io.Discard, beneath, lastReads)
		})
	}
	return c.Conn.Close()
}

// flooded counts a connection that is closed for what it sends.
func (s *Server) flooded() { s.floods.Add(1) }

// Floods is the number of connections of HTTP/2 that were closed because what they sent did no work.
func (s *Server) Floods() uint64 { return s.floods.Load() }

type watchedKey struct{}

// withWatched is for [http.Server].ConnContext.
func withWatched(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, watchedKey{}, c)
	return context.WithValue(ctx, http1.NetConnKey{}, c.(*watched).Conn)
}

// unveiled gives the requests of watched connections the TLS that they came over, of which net/http knows nothing.
type unveiled struct{ http.Handler }

func (h unveiled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(watchedKey{}).(*watched)
	c.strays.Add(-1)
	r.TLS = c.state
	h.Handler.ServeHTTP(w, r)
}
