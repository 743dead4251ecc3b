package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"sallyport/proxy"
)

// A tunnel joins two connections. Each direction ends by itself: an end of the one side's stream becomes a half-close of
// the other, which may still have much to say. A failure, or silence in both directions for too long, ends both.
type tunnel struct {
	client, upstream net.Conn
	idle, stall      time.Duration // 0 or less: no limit

	last                 atomic.Int64 // Unix nanoseconds of the last byte in either direction
	half                 atomic.Bool  // one direction has ended
	toClient, toUpstream atomic.Int64 // bytes, of the tunnel's own protocol
}

// halfIdle is how long a tunnel may be silent once one direction has ended: a peer that never closes its own side must
// not hold the connections for an hour.
const halfIdle = time.Minute

// run moves bytes until both directions have ended or ctx is done. early goes to the endpoint first; head
// and then first, with which the tunnel's own protocol begins, to the client.
func (t *tunnel) run(ctx context.Context, early, head, first []byte) *fault {
	stop := context.AfterFunc(ctx, t.close)
	defer stop()
	t.last.Store(time.Now().UnixNano())
	t.client.SetDeadline(time.Time{}) // those of the requests that the connections served
	t.upstream.SetDeadline(time.Time{})
	up := make(chan error, 1)
	go t.upward(early, up)
	downErr := t.downward(head, first)
	upErr := <-up
	switch {
	case ctx.Err() != nil:
		return left(ctx.Err())
	case downErr == nil && upErr == nil:
		return nil
	case errors.Is(downErr, errDeadline) || errors.Is(upErr, errDeadline):
		return &fault{0, proxy.ReadTimeout, errDeadline}
	case isUpstreams(downErr) || isUpstreams(upErr):
		return &fault{0, proxy.UpstreamReset, errors.Join(downErr, upErr)}
	}
	return left(errors.Join(downErr, upErr))
}

// close ends both connections and wakes both directions.
func (t *tunnel) close() {
	t.client.Close()
	t.upstream.Close()
}

// upward is the goroutine that moves bytes from the client to the endpoint.
func (t *tunnel) upward(early []byte, done chan<- error) {
	err := t.write(t.upstream, early, &t.toUpstream)
	if err == nil {
		err = t.pump(t.upstream, t.client, &t.toUpstream)
	}
	t.end(err)
	done <- err
}

func (t *tunnel) downward(head, first []byte) error {
	var all atomic.Int64
	err := t.write(t.client, append(head, first...), &all)
	if err == nil {
		t.toClient.Add(int64(len(first)))
		err = t.pump(t.client, t.upstream, &t.toClient)
	}
	t.end(err)
	return err
}

// end closes everything after a failure.
func (t *tunnel) end(err error) {
	if err != nil {
		t.close()
	}
}

// pump moves bytes from src to dst until src has ended, then ends that direction of dst.
func (t *tunnel) pump(dst, src net.Conn, count *atomic.Int64) error {
	buffer := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buffer)
	var deadline time.Time
	for {
		half := t.half.Load()
		if end, change := arm(deadline, t.limit(half)); change {
			deadline = end
			src.SetReadDeadline(end)
		}
		if t.half.Load() != half {
			continue // the other direction ended just now, and its deadline may have been replaced by this one
		}
		n, err := src.Read(buffer[:])
		if n > 0 {
			t.last.Store(time.Now().UnixNano())
			if err := t.write(dst, buffer[:n], count); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return t.endDirection(dst)
		case errors.Is(err, errDeadline) && t.alive():
		default:
			return t.blame(src, err)
		}
	}
}

// endDirection tells dst that no more will come. The other direction, which reads dst, has a minute of silence from now.
func (t *tunnel) endDirection(dst net.Conn) error {
	t.half.Store(true)
	if t.idle <= 0 || t.idle > halfIdle {
		dst.SetReadDeadline(time.Now().Add(halfIdle))
	}
	h, ok := dst.(halfCloser)
	if !ok {
		t.close()
		return nil
	}
	h.CloseWrite()
	return nil
}

// limit is how long the tunnel may be silent; half says that one direction has ended.
func (t *tunnel) limit(half bool) time.Duration {
	if half && (t.idle <= 0 || t.idle > halfIdle) {
		return halfIdle
	}
	return t.idle
}

// alive reports whether the other direction moved while this one was silent.
func (t *tunnel) alive() bool {
	limit := t.limit(t.half.Load())
	return limit <= 0 || time.Since(time.Unix(0, t.last.Load())) < limit
}

func (t *tunnel) write(dst net.Conn, p []byte, count *atomic.Int64) error {
	if len(p) == 0 {
		return nil
	}
	if t.stall > 0 {
		dst.SetWriteDeadline(time.Now().Add(t.stall))
	}
	n, err := dst.Write(p)
	count.Add(int64(n))
	return t.blame(dst, err)
}

// upstreamError marks an error of the endpoint's connection.
type upstreamError struct{ error }

func (e upstreamError) Unwrap() error { return e.error }

func isUpstreams(err error) bool {
	var e upstreamError
	return errors.As(err, &e) && !errors.Is(err, net.ErrClosed)
}

func (t *tunnel) blame(side net.Conn, err error) error {
	if err != nil && side == t.upstream {
		return upstreamError{err}
	}
	return err
}
