package upstream

import (
	"errors"
	"net/http"
	"time"

	"sallyport/proxy"
)

// carry is an attempt over HTTP/1.
func (x *trip) carry(endpoint *Endpoint, a *proxy.Attempt, begun time.Time, fresh bool) outcome {
	for {
		c, f := x.connect(endpoint, a, fresh)
		if f != nil {
			return outcome{fault: f, safe: true}
		}
		if !a.Reused {
			endpoint.welcome()
		}
		if o := x.exchange(c, endpoint, a, begun); !o.stale {
			return o
		}
	}
}

// connect takes an idle connection, unless fresh, or makes one.
func (x *trip) connect(endpoint *Endpoint, a *proxy.Attempt, fresh bool) (*conn, *fault) {
	if !fresh {
		if c := endpoint.take(x.line); c != nil {
			a.Reused = true
			return c, nil
		}
	}
	a.Reused = false
	ctx := x.r.Context()
	begun := time.Now()
	limit := x.connectTimeout(endpoint)
	c, err := dial(ctx, endpoint.addr, limit)
	if err == nil && x.line.secure() {
		err = c.secure(ctx, x.line, "http/1.1", begun, limit)
	}
	a.Connect = time.Since(begun)
	if err != nil {
		return nil, connectFault(ctx, err)
	}
	c.silence = &endpoint.silence
	x.t.pool.care.connects.note(a.Connect)
	return c, nil
}

// errStale says that a connection that lay idle is no longer good. Nothing was sent.
var errStale = errors.New("the endpoint has closed the connection, or sent what nobody asked for")

// exchange sends the request over c and relays the answer, unless something else is to take its place. It disposes of c.
func (x *trip) exchange(c *conn, endpoint *Endpoint, a *proxy.Attempt, begun time.Time) outcome {
	c.begin(x.r.Context(), x.r.Method, &x.t.options, begun)
	c.movable, c.probe, c.budget = x.movable(), x.probe, x.t.options.RetryBudget
	keep := false
	defer func() {
		stayed := c.unwatch()
		if x.endUpload(c) && keep && stayed && !x.t.options.closes() {
			a.Total = time.Since(begun)
			endpoint.put(c, begun.Add(a.Total))
			return
		}
		c.close()
	}()
	if f := x.sendHead(c); f != nil {
		if f.err == errStale {
			return outcome{stale: true}
		}
		return x.failed(c, f)
	}
	if f := x.head(c, a, begun); f != nil {
		return x.failed(c, f)
	}
	status := c.answer.Status
	x.heard(endpoint, status, a.Header)
	switch {
	case status == http.StatusSwitchingProtocols:
		return outcome{fault: x.switchProtocols(c, a), sent: true, started: true}
	case x.movesOn(afterStatus(status), false):
		keep = x.drop(c)
		return outcome{again: true}
	case x.replaces(status):
		keep = x.drop(c)
		return outcome{}
	}
	if f := x.relay(c, a); f != nil {
		return outcome{fault: f, sent: true, started: true}
	}
	keep = c.reader.Reusable()
	return outcome{}
}

// failed is the outcome of an exchange that ended before the head of an answer was read. That nothing of the request can
// have arrived, where there is a doubt, is asked only about a request that would do harm twice: it takes a while.
func (x *trip) failed(c *conn, f *fault) outcome {
	o := outcome{fault: f, sent: true, started: c.reader.Started() && !x.paid}
	if f.reason == proxy.UpstreamReset && !o.started && !(x.harmless() && x.t.options.Retry.has(RetryOnError)) {
		// What an upload may have heard of the connection's end, the read was not told.
		o.safe = x.upload == nil && x.repeatable(true) && c.rejected(f.err)
	}
	return o
}

// sendHead writes the head and with it a body that is here, as far as the socket takes that at once, and begins to send any
// other.
func (x *trip) sendHead(c *conn) *fault {
	head, err := x.appendHead(c.out[:0])
	if err != nil {
		return &fault{http.StatusBadRequest, proxy.BadRequest, err}
	}
	if cap(head) <= maxKeptHead {
		c.out = head
	}
	if x.streamed && !x.expect {
		c.sending.Store(true) // before an answer is awaited
	}
	left, err := x.write(c, head, x.small.bytes)
	switch {
	case err != nil:
		return sendFault(x.r.Context(), err)
	case len(left) > 0:
		x.startUpload(c, left)
	case x.streamed && !x.expect:
		x.inviteBody()
		x.startUpload(c, nil)
	}
	return nil
}

// write sends the head and a body that is here, over a connection that was idle only if it is still good. Left is what is
// still to be sent of the body.
func (x *trip) write(c *conn, head, body []byte) (left []byte, err error) {
	asks := c.reused && c.tls == nil && !x.streamed && len(head) <= maxKeptHead
	if !asks && len(body) > maxSmall {
		left, body = body, nil // more than is written without an eye on the answer
	}
	out := head
	if len(body) > 0 {
		buffer := copyBuffers.Get().(*[copySize]byte)
		defer copyBuffers.Put(buffer)
		out = append(append(buffer[:0], head...), body...)
	}
	switch {
	case asks:
		if out, err = c.ask(out); err != nil {
			return nil, err
		}
		over := len(out) - len(body)
		if over <= 0 {
			return body[-over:], nil
		}
		left, out = body, out[:over] // not even the head was taken
	case c.reused && !c.quiet():
		return nil, errStale
	}
	if len(out) > maxKeptHead {
		c.watch() // it may not fit into the socket's buffer
	}
	_, err = c.Write(out)
	return left, err
}

// maxKeptHead is the size of a buffer for request heads that a connection keeps while it is idle.
const maxKeptHead = 4 << 10

// readFault classifies a failed read of the answer. If the body could not be sent, that came first and is the cause.
func (x *trip) readFault(err error, late proxy.Reason) *fault {
	if x.upload != nil {
		if x.r.Context().Err() != nil {
			x.upload.settle(settleTime)
		}
		if f := x.upload.fault.Load(); f != nil {
			return f
		}
	}
	return readFault(x.r.Context(), err, late)
}
