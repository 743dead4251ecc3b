package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// lingerTime is how long a client is read from that still sends when it has its answer: were the connection closed with
	// bytes unread, it would be reset, and the reset would often overtake the answer.
	lingerTime = 2 * time.Second
	// leftSize is how much of a body that its handler left is read away, so that another request can follow.
	leftSize = 256 << 10
)

// A conn is one connection of a Server. All but the atomic fields belong to its goroutine.
type conn struct {
	server *Server
	net    net.Conn
	remote string
	tls    *tls.ConnectionState // nil: in the clear
	fd     int                  // -1: there is none to look at
	raw    syscall.RawConn
	direct bool // the bytes on raw are those of HTTP
	pass   pass // over raw, where it is direct

	reader  Reader
	request Request
	served  int // requests

	blank  *http.Request // what each request is before it is filled in: it has the context
	req    *http.Request // the same for all requests; nil before the first, and at rest
	header http.Header
	values []string // one a field, in header
	url    urlRoom
	body   requestBody
	bodied bool // the request has one
	res    response
	cancel context.CancelFunc

	state    atomic.Int64 // phase and when it began: see enter
	reading  atomic.Int64 // since when the body is waited for; 0: it is not
	writing  atomic.Int64 // since when the client is to take something; 0: nothing
	chunked  atomic.Bool  // the body has no length
	complete atomic.Bool  // the request was read to its end
	waited   atomic.Int64 // milliseconds that were waited for the body
	received atomic.Int64 // bytes of it
	last     atomic.Bool  // the client wants no further request
	lost     atomic.Bool  // the client was seen to have left
	expired  atomic.Bool  // the connection was given up
	timed    atomic.Bool  // a deadline for writes was set, ever
	nudging  sync.Mutex   // held while nudged changes together with the deadline
	nudged   atomic.Bool  // the connection is to rest, or rests
	waits    bool         // for the first bytes of a request
	talks    bool         // the client may have more to say, and its answer is the last
	hijacked bool
}

func (c *conn) init() {
	c.fd = -1
	ctx, cancel := context.WithCancel(connContext{context.Background(), c})
	c.cancel = cancel
	if with := c.server.ConnContext; with != nil {
		ctx = with(ctx, c.net)
	}
	c.blank = (&http.Request{}).WithContext(ctx)
	c.reader.Reset(c)
}

// identify finds out whose the connection is, which may take a while where it says so itself.
func (c *conn) identify() {
	c.remote = c.net.RemoteAddr().String()
	plain := c.net
	if t, ok := plain.(*tls.Conn); ok {
		state := t.ConnectionState()
		c.tls, plain = &state, t.NetConn()
	}
	plain = beneath(plain)
	if tcp, ok := plain.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			c.server.mu.Lock() // who closes the server looks at all connections
			raw.Control(func(fd uintptr) { c.fd = int(fd) })
			c.server.mu.Unlock()
			c.raw, c.direct = raw, readsSockets && plain == c.net
		}
	}
}

// beneath is the connection that another one is made of, however deep.
func beneath(c net.Conn) net.Conn {
	for {
		wrapped, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = wrapped.NetConn()
	}
}

// serve serves requests until one ends the connection.
func (c *conn) serve() {
	rests := false
	defer func() {
		if !rests {
			if c.talks {
				c.linger()
			}
			c.finish()
		}
	}()
	if c.direct {
		rests = c.serveDirect()
		return
	}
	for more := true; more; {
		more, rests = c.next()
	}
}

// finish is called when nothing more is served.
func (c *conn) finish() {
	c.cancel()
	if c.hijacked {
		return
	}
	c.reader.Release()
	c.res.release()
	if c.res.failed && c.expired.Load() {
		c.reset()
	}
	c.net.Close()
	c.server.forget(c, http.StateClosed)
}

// reset has the connection end without what the client did not take, which would stay with the kernel for minutes, megabytes
// of it.
func (c *conn) reset() {
	if tcp, ok := beneath(c.net).(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
}

// next serves one request and reports whether another may follow, or whether the connection rests: then it is not ours.
func (c *conn) next() (more, rests bool) {
	if c.served > 0 {
		c.enter(phaseIdle)
	}
	if len(c.reader.Buffered()) == 0 {
		c.reader.Release()
		ending := c.server.ending()
		if ending {
			c.look()
		}
		if err := c.awaitBytes(); err != nil {
			if !ending && c.server.ending() && c.nudged.Load() && !c.expired.Load() {
				return true, false // for what has come meanwhile
			}
			return false, c.rest(err)
		}
	}
	if err := c.read(); err != nil {
		c.refuse(err)
		return false, false
	}
	return c.serveRequest(), false
}

// read reads the head of a request.
func (c *conn) read() error {
	c.enter(phaseHead)
	c.unnudge()
	return c.reader.Request(&c.request, c.server.limit())
}

// serveRequest answers the request whose head was read, and reports whether another may follow.
func (c *conn) serveRequest() bool {
	c.served++
	if status, err := c.prepare(); err != nil {
		c.refuseWith(status, err)
		return false
	}
	return c.answer()
}

// answer answers the request that was prepared, and reports whether another may follow.
func (c *conn) answer() bool {
	c.enter(phaseHandler)
	keep := c.handle()
	if c.hijacked {
		return false
	}
	return c.settle(keep)
}

// awaitBytes waits for the first bytes of a request. TLS may hold some of them already, where nobody can see them.
func (c *conn) awaitBytes() error {
	c.waits = true
	err := c.reader.fill(MaxHead)
	c.waits = false
	return err
}

// Read reads from the connection. It is the source of the reader.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.net.Read(p)
	if err != nil && n == 0 && !c.waits && errors.Is(err, os.ErrDeadlineExceeded) && c.unnudge() {
		n, err = c.net.Read(p)
	}
	if err != nil && c.expired.Load() {
		err = errLate
	}
	return n, err
}

// write writes to the connection all of what is given.
func (c *conn) write(head, rest []byte) error {
	var err error
	if len(rest) == 0 && c.direct {
		err = c.writeDirect(head)
	} else {
		err = c.writeAll(head, rest)
	}
	if err != nil && c.expired.Load() {
		err = errLate
	}
	return err
}

// writeAll waits until the client has taken everything, and the watch knows for how long.
func (c *conn) writeAll(head, rest []byte) (err error) {
	c.writing.Store(c.server.clock.Load())
	defer c.writing.Store(0)
	switch {
	case len(rest) == 0:
		_, err = c.net.Write(head)
	case len(head) == 0:
		_, err = c.net.Write(rest)
	case c.direct:
		pieces := net.Buffers{head, rest}
		_, err = pieces.WriteTo(c.net)
	default:
		if _, err = c.net.Write(head); err == nil {
			_, err = c.net.Write(rest)
		}
	}
	return err
}

// handle runs the handler and reports whether the connection may go on.
func (c *conn) handle() (keep bool) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		keep = false
		if fault != http.ErrAbortHandler && c.server.Panicked != nil {
			c.server.Panicked(fault)
		}
		if !c.hijacked {
			c.res.abort()
		}
	}()
	c.res.begin(c)
	c.server.Handler.ServeHTTP(&c.res, c.req)
	if c.hijacked {
		return false
	}
	return c.res.finish()
}

// lastRequest reports whether the connection has brought as many requests as it may.
func (c *conn) lastRequest() bool {
	most := c.server.patient().Requests
	return most > 0 && c.served >= most
}

// unread reports whether the rest of the body may be more than settle reads away, or is not to be read: it broke, or was
// not asked for. A client that is told so does not send another request behind it.
func (c *conn) unread() bool {
	if c.complete.Load() {
		return false
	}
	return c.request.Chunked || c.request.Length-c.received.Load() > leftSize || c.body.failed.Load() || c.body.waiting.Load()
}

// settle deals with what the handler left of the request, and reports whether another may follow.
func (c *conn) settle(keep bool) bool {
	if c.bodied {
		c.body.mu.Lock() // a read that somebody has left behind has its end first
		c.body.closed = true
		c.body.mu.Unlock()
	}
	if c.reader.Done() {
		c.talks = !keep && !c.res.failed && c.mayTalk()
		return keep
	}
	if !keep || c.body.failed.Load() || c.body.waiting.Load() {
		c.linger()
		return false
	}
	// What is there already, or nearly, is read away; for more than that another connection is cheaper.
	c.enter(phaseEnd)
	if over, err := c.reader.Skip(leftSize); err != nil || !over {
		c.linger()
		return false
	}
	return true
}

// mayTalk reports whether the client, whose last answer is written, has sent more than its request, or may: it may send the
// next request at any time where it is we who end the connection, and knows better where it has asked for that.
func (c *conn) mayTalk() bool {
	return !c.request.Close || len(c.reader.Buffered()) > 0 || c.raw == nil || unread(c.raw)
}

// linger ends the connection in a way that lets a client read its answer though it still sends.
func (c *conn) linger() {
	c.enter(phaseEnd)
	if w, ok := c.net.(interface{ CloseWrite() error }); !ok || w.CloseWrite() != nil {
		return
	}
	c.expired.Store(false)
	c.net.SetReadDeadline(time.Time{}) // a handler may have set one, or the watch
	c.reader.Release()
	buffer := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(buffer)
	for {
		if _, err := c.net.Read(buffer[:]); err != nil {
			return // the client has closed too, or has had its time: see late
		}
	}
}

// refuse answers a head that is none, or that was not sent in time, and ends the connection.
func (c *conn) refuse(err error) {
	status := Status(err)
	switch {
	case status != 0:
	case errors.Is(err, io.ErrUnexpectedEOF):
		status = http.StatusBadRequest
	case errors.Is(err, os.ErrDeadlineExceeded) && len(c.reader.Buffered()) > 0:
		status = http.StatusRequestTimeout
		c.revive()
	default:
		return // nobody is there
	}
	c.refuseWith(status, err)
}

// refuseWith answers a request that the handler is not to see, and ends the connection.
func (c *conn) refuseWith(status int, err error) {
	c.emptyHeader()
	c.request = Request{Minor: 1, Close: true, head: head{spans: c.request.spans, Fields: c.request.Fields[:0]}}
	r := c.emptyRequest()
	r.URL = new(url.URL)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.RemoteAddr, r.TLS, r.Header, r.Close = c.remote, c.tls, c.header, true
	r.Body = http.NoBody
	c.enter(phaseHandler)
	c.res.begin(c)
	if refuse := c.server.Refuse; refuse != nil {
		refuse(&c.res, r, status, err)
	} else {
		c.res.header["Content-Type"] = []string{"text/plain; charset=utf-8"}
		c.res.WriteHeader(status)
		io.WriteString(&c.res, http.StatusText(status)+"\n")
	}
	c.res.finish()
	if !c.res.failed {
		c.linger()
	}
}

// expire makes whatever waits for the client fail. The watch calls it.
func (c *conn) expire() {
	if c.server.endRestLocked(c) {
		return
	}
	if !c.expired.Swap(true) {
		c.timed.Store(true)
		c.net.SetDeadline(past)
	}
}

// revive lets a last word be said on a connection that was given up.
func (c *conn) revive() {
	c.expired.Store(false)
	c.net.SetDeadline(time.Now().Add(lingerTime))
}

var past = time.Unix(1, 0)

// left is told that the client has closed the connection: whole, or only its own direction, which a client may do that has
// said that this is its last request.
func (c *conn) left(whole bool) {
	if whole || !c.last.Load() {
		c.lost.Store(true)
		c.cancel()
	}
}

// closeIdle closes the connection if no request is under way.
func (c *conn) closeIdle() {
	if c.server.endRestLocked(c) {
		return
	}
	switch p, _ := c.inState(); p {
	case phaseNew:
		go c.net.Close() // which waits for a pass to end
	case phaseIdle:
		c.nudge()
	}
}

// cut ends the connection, whatever is under way.
func (c *conn) cut() {
	if c.server.endRestLocked(c) {
		return
	}
	c.timed.Store(true)
	c.net.SetDeadline(past) // before anybody can write
	c.cancel()
	go c.net.Close() // which waits for a pass to end
}

// hijack hands the connection over.
func (c *conn) hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.hijacked = true
	buffered := append([]byte(nil), c.reader.Buffered()...)
	c.reader.Release()
	c.server.forget(c, http.StateHijacked)
	c.net.SetDeadline(time.Time{}) // now that nobody sets another
	in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(buffered), c.net), max(4096, len(buffered)))
	in.Peek(len(buffered)) // so that they are what is buffered there
	return c.net, bufio.NewReadWriter(in, bufio.NewWriter(c.net)), nil
}

// NetConnKey is the key of a request's context for the connection it came on, a [net.Conn], as the server was given it.
type NetConnKey struct{}

// FieldsKey is the key of a connection's context for the fields of the request that was read last, a *[]Field: in the order
// they came, Host among them, before anybody changed the header. What it points to is good until the handler returns.
type FieldsKey struct{}

// connContext has the values of a connection's context.
type connContext struct {
	context.Context
	conn *conn
}

func (c connContext) Value(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return c.conn.net.LocalAddr()
	case NetConnKey{}:
		return c.conn.net
	case FieldsKey{}:
		return &c.conn.request.Fields
	}
	return c.Context.Value(key)
}
