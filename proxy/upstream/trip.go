package upstream

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// A trip is one request on its way to an endpoint and back. It belongs to the handler's goroutine.
type trip struct {
	t *Transport
	w http.ResponseWriter
	r *http.Request
	e *proxy.Exchange

	target   string
	small    smallBody // the body, when it was read before anything was sent
	streamed bool      // the body is sent while the answer is awaited
	expect   bool      // the client waits for 100 before it sends the body
	upgrade  bool      // the client asks for a WebSocket
	trailers []string  // names of the fields that may be sent behind the body

	host      string  // that the endpoint is told
	upload    *upload // the body on its way; nil: none, or not begun
	committed bool    // the head of the final answer went to the client
	hijacked  bool    // the client's connection is ours
}

var noEndpoints = &fault{http.StatusServiceUnavailable, proxy.NoEndpoints, errors.New("the Service has no endpoint that is ready")}

// prepare decides how the request will be sent, and reads a body that is small enough to be sent with the head.
func (x *trip) prepare() *fault {
	x.target = x.e.Target
	if x.target == "" {
		x.target = x.r.URL.RequestURI()
	}
	x.upgrade = wantsWebSocket(x.r)
	if x.r.ContentLength == 0 || x.r.Body == nil || x.r.Body == http.NoBody {
		return nil
	}
	x.expect = x.r.ProtoAtLeast(1, 1) && http1.HasToken(x.r.Header.Get("Expect"), "100-continue")
	if x.expect || x.r.ContentLength < 0 || x.r.ContentLength > maxSmall {
		x.streamed = true
		return nil
	}
	if x.t.pool.Len() == 0 {
		return noEndpoints // an endpoint that appears now must not get the request without its body
	}
	if err := x.small.read(x.r.Body, int(x.r.ContentLength)); err != nil {
		return bodyFault(x.r.Context(), err)
	}
	return nil
}

// maxRefusals bounds the endpoints that may refuse one request. That costs no time, and happens to many at once while a
// Deployment is rolled.
const maxRefusals = 32

// send tries endpoints until one can be connected to, and relays its answer.
func (x *trip) send() *fault {
	last := noEndpoints
	refusals := 0
	for tries := 0; tries < max(1, x.t.options.Tries); tries++ {
		endpoint := x.t.pool.pick(x.e)
		if endpoint == nil {
			return last
		}
		f, again := x.try(endpoint)
		if f == nil || !again {
			return f
		}
		if last = f; f.reason == proxy.ConnectRefused && refusals < maxRefusals {
			refusals++
			tries--
		}
	}
	return last
}

// try sends the request to one endpoint. After a fault, again says that another endpoint may have the request.
func (x *trip) try(endpoint *Endpoint) (f *fault, again bool) {
	if x.host = x.r.Host; x.host == "" {
		x.host = endpoint.addr.String() // HTTP/1.0 needs none, HTTP/1.1 does (RFC 9112 section 3.2)
	}
	endpoint.inFlight.Add(1)
	defer endpoint.inFlight.Add(-1)
	for fresh := false; ; fresh = true {
		a := x.e.Try(endpoint.addr)
		begun := time.Now()
		c, f := x.connect(endpoint, a, fresh)
		if f != nil {
			a.Reason, a.Total = f.reason, time.Since(begun)
			if !f.client() {
				endpoint.setAside(a.Total)
			}
			return f, !f.client()
		}
		if !a.Reused && endpoint.aside.Load() != 0 {
			endpoint.aside.Store(0)
		}
		repeat := false
		f, repeat = x.exchange(c, endpoint, a, begun)
		a.Total = time.Since(begun)
		if f == nil {
			return nil, false
		}
		a.Reason = f.reason
		if !repeat {
			return f, false
		}
		if !a.Reused {
			endpoint.setAside(a.Total) // a program that ends has connections waiting that it never took
			return f, true
		}
	}
}

// repeatable reports whether the request may be sent again because the connection broke before a byte of an answer came:
// over another connection if this one was used before and the endpoint only closed it, else to another endpoint (reference
// A14). The endpoint may have acted on the request all the same, so either nothing of it can have arrived, or it is one that
// means no harm twice (RFC 9110 section 9.2.2) and has no body. Idempotency-Key does not count: any client could send it.
func (x *trip) repeatable(c *conn, f *fault) bool {
	if f.reason != proxy.UpstreamReset || c.reader.Started() || x.streamed {
		return false
	}
	switch x.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		if x.small.bytes == nil && !x.upgrade {
			return true
		}
	}
	return c.rejected()
}

// connect takes an idle connection, unless fresh, or makes one.
func (x *trip) connect(endpoint *Endpoint, a *proxy.Attempt, fresh bool) (*conn, *fault) {
	if !fresh {
		if c := endpoint.take(); c != nil {
			a.Reused = true
			return c, nil
		}
	}
	ctx := x.r.Context()
	begun := time.Now()
	c, err := dial(ctx, endpoint.addr, x.t.options.ConnectTimeout)
	a.Connect = time.Since(begun)
	if err != nil {
		return nil, connectFault(ctx, err)
	}
	return c, nil
}

// exchange sends the request over c and relays the answer. It disposes of c. After a fault, repeat says that the
// request may be sent again.
func (x *trip) exchange(c *conn, endpoint *Endpoint, a *proxy.Attempt, begun time.Time) (f *fault, repeat bool) {
	c.begin(x.r.Context(), x.r.Method, &x.t.options)
	keep := false
	defer func() {
		stayed := c.unwatch()
		if x.endUpload(c) && keep && stayed {
			endpoint.put(c)
			return
		}
		c.close()
	}()
	if f := x.sendHead(c); f != nil {
		return f, x.repeatable(c, f)
	}
	if f := x.head(c, a, begun); f != nil {
		return f, x.repeatable(c, f)
	}
	if c.answer.Status == http.StatusSwitchingProtocols {
		return x.switchProtocols(c, a), false
	}
	if f := x.relay(c, a); f != nil {
		return f, false
	}
	keep = c.reader.Reusable()
	return nil, false
}

// sendHead writes the head and with it a body that was read before, and begins to send any other.
func (x *trip) sendHead(c *conn) *fault {
	out, err := x.appendHead(c.out[:0])
	if err != nil {
		return &fault{http.StatusBadRequest, proxy.BadRequest, err}
	}
	out = append(out, x.small.bytes...)
	if cap(out) <= maxKeptHead {
		c.out = out
	}
	if x.streamed && !x.expect {
		c.sending.Store(true) // before an answer is awaited
	}
	if len(out) > maxKeptHead {
		c.watch() // it may not fit into the socket's buffer
	}
	if _, err := c.Write(out); err != nil {
		return sendFault(x.r.Context(), err)
	}
	if x.streamed && !x.expect {
		x.startUpload(c)
	}
	return nil
}

// maxKeptHead is the size of a buffer for request heads that a connection keeps while it is idle.
const maxKeptHead = 4 << 10

// maxInterims bounds the 1xx answers to one request: an endpoint that sends them without end never answers.
const maxInterims = 64

var errInterims = fmt.Errorf("more than %d interim answers", maxInterims)

// head reads heads until the final one, which is left in c.answer.
func (x *trip) head(c *conn, a *proxy.Attempt, begun time.Time) *fault {
	if x.streamed && x.upload == nil {
		c.readGap = x.t.options.ContinueTimeout
	}
	for interims := 0; ; interims++ {
		if interims > maxInterims {
			return &fault{http.StatusBadGateway, proxy.UpstreamInvalid, errInterims}
		}
		c.beginHead()
		err := c.reader.Head(&c.answer)
		c.endHead()
		if err != nil {
			if x.streamed && x.upload == nil && errors.Is(err, errDeadline) {
				x.proceed(c) // an endpoint that knows nothing of Expect waits for the body
				continue
			}
			return x.readFault(err, proxy.HeaderTimeout)
		}
		if a.Header == 0 {
			a.Header = time.Since(begun)
		}
		if !c.answer.Interim() {
			a.Status = c.answer.Status
			c.readGap = x.t.options.ReadTimeout
			return nil
		}
		x.interim(c)
	}
}

// interim relays a 1xx answer. 100 is for the client only if it waits for it, and begins the upload. All others go to
// clients that can know of them, with Link as their only field.
func (x *trip) interim(c *conn) {
	if c.answer.Status == http.StatusContinue {
		x.proceed(c)
		return
	}
	if !x.r.ProtoAtLeast(1, 1) {
		return
	}
	var links []string
	for _, field := range c.answer.Fields {
		if field.Name == "Link" && !nominated(&c.answer, "Link") {
			links = append(links, field.Value)
		}
	}
	x.sendInterim(c.answer.Status, links)
}

// sendInterim sends a 1xx answer. What features have set on the final answer stays out of it.
func (x *trip) sendInterim(status int, links []string) {
	header := x.w.Header()
	kept := maps.Clone(header)
	clear(header)
	if len(links) > 0 {
		header["Link"] = links
	}
	x.w.WriteHeader(status)
	clear(header)
	maps.Copy(header, kept)
}

// proceed begins an upload that waited for the endpoint's word, and passes the word on to a client that waits too. Over
// HTTP/1 net/http would do so by itself when the body is first read, but on the goroutine that reads it, in the middle of
// whatever this one is writing.
func (x *trip) proceed(c *conn) {
	if !x.streamed || x.upload != nil {
		return
	}
	c.readGap = x.t.options.ReadTimeout
	if x.r.ProtoMajor == 1 {
		x.sendInterim(http.StatusContinue, nil)
	}
	x.startUpload(c)
}

// readFault classifies a failed read of the answer. If the body could not be sent, that came first and is the cause.
func (x *trip) readFault(err error, late proxy.Reason) *fault {
	if x.upload != nil {
		if x.r.Context().Err() != nil {
			x.upload.settle()
		}
		if f := x.upload.fault.Load(); f != nil {
			return f
		}
	}
	return readFault(x.r.Context(), err, late)
}

// A smallBody is a request body that was read before the request was sent.
type smallBody struct {
	bytes  []byte // nil: none
	buffer *[maxSmall]byte
}

// maxSmall is the size up to which a body is read first, the amount that ingress-nginx keeps in memory.
const maxSmall = 8 << 10

func (s *smallBody) read(body io.Reader, n int) error {
	s.buffer = smallBodies.Get().(*[maxSmall]byte)
	_, err := io.ReadFull(body, s.buffer[:n])
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	s.bytes = s.buffer[:n]
	return err
}

func (s *smallBody) free() {
	if s.buffer != nil {
		smallBodies.Put(s.buffer)
		s.buffer, s.bytes = nil, nil
	}
}
