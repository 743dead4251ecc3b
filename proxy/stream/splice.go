package stream

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Two connections that are joined pass on to each other what they get. On Linux the bytes do not come into this process
// (splice(2)), so that a connection that says nothing holds no buffer.
//
// Each direction ends by itself: an end of the one stream becomes a half-close of the other, which may still have much to
// say. What is broken off is broken off on the other side too: a half of something must not look like a whole.

// idleTCP is how long a connection may be silent in both directions.
const idleTCP = 10 * time.Minute

// joined are two connections. The bytes of each direction are counted.
type joined struct {
	counts   *counts       // of the server
	idle     time.Duration // negative: no limit
	last     atomic.Int64  // Unix nanoseconds when something had moved, or later by as much as a window
	up, down atomic.Int64  // bytes to the endpoint, and from there
}

// looks is how often it is looked, in the time that a connection may be silent, whether it is. What is spliced is not seen
// to move until then.
const looks = 4

var errIdle = errors.New("nothing moved for too long")

// run passes on until both directions have ended. The connections are then to be closed.
func (j *joined) run(client, endpoint *net.TCPConn) error {
	j.last.Store(time.Now().UnixNano())
	upward := make(chan error, 1)
	go func() { upward <- j.pump(endpoint, client, &j.up, &j.counts.sent) }()
	return errors.Join(j.pump(client, endpoint, &j.down, &j.counts.received), <-upward)
}

// pump is one direction. Total is of all connections.
func (j *joined) pump(to, from *net.TCPConn, count, total *atomic.Int64) error {
	for {
		var late time.Time // when it is to that has taken nothing for too long
		if j.idle > 0 {
			now := time.Now()
			late = now.Add(j.idle/looks + j.idle)
			from.SetReadDeadline(now.Add(j.idle / looks))
			to.SetWriteDeadline(late)
		}
		n, err := to.ReadFrom(from)
		if n > 0 {
			count.Add(n)
			total.Add(n)
			j.last.Store(time.Now().UnixNano())
		}
		switch {
		case err == nil:
			to.CloseWrite()
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return j.broken(to, from, err)
		case !time.Now().Before(late): // what was on its way to it is lost
			abort(from)
			abort(to)
			return errIdle
		case time.Now().UnixNano()-j.last.Load() >= int64(j.idle):
			abort(from)
			abort(to)
			return errIdle
		}
	}
}

// broken is for a direction that has failed. Where it was from that did, to shall know. Where it was to, what that has said
// may still be on its way: the other direction passes it on, and ends by itself.
func (j *joined) broken(to, from *net.TCPConn, err error) error {
	if isClosed(err) { // by the other direction
		return nil
	}
	if !open(from) {
		abort(to)
		abort(from)
	}
	return err
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
