package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// A call is one attempt over HTTP/2.
type call struct {
	x      *trip
	a      *proxy.Attempt
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   *outgoing // nil: none
	send   gap
	read   gap
	wrote  atomic.Bool // the head was sent
}

// What a call is cancelled with.
var (
	errSendGap = errors.New("the endpoint took nothing for too long")
	errReadGap = errors.New("the endpoint sent nothing for too long")
	errDone    = errors.New("the exchange is over")
)

// call is an attempt over HTTP/2. Interim answers are not relayed: who speaks gRPC has none.
func (x *trip) call(endpoint *Endpoint, a *proxy.Attempt, begun time.Time, fresh bool) outcome {
	if _, err := http1.AppendRequestLine(nil, x.r.Method, x.target, x.host); err != nil {
		return outcome{fault: &fault{http.StatusBadRequest, proxy.BadRequest, err}}
	}
	mux, f := endpoint.open(x, a, fresh)
	if f != nil {
		return outcome{fault: f, safe: true}
	}
	if !a.Reused {
		endpoint.welcome()
	}
	// The goroutines of a call hold on to its trip, which for their sake is another one: that of HTTP/1 needs no allocation.
	held := new(trip)
	*held = *x
	defer func() { *x = *held }()
	c := &call{x: held, a: a}
	c.ctx, c.cancel = context.WithCancelCause(x.r.Context())
	c.send = gap{limit: x.t.options.SendTimeout, late: func() { c.cancel(errSendGap) }}
	c.read = gap{limit: x.t.options.ReadTimeout, late: func() { c.cancel(errReadGap) }}
	o := c.run(endpoint, mux, begun)
	// A connection on which something was awaited in vain may be dead without anybody knowing.
	endpoint.muxes.leave(mux, o.fault != nil && afterFault(o.fault) == RetryOnTimeout)
	return o
}

func (c *call) run(endpoint *Endpoint, mux *mux, begun time.Time) outcome {
	x := c.x
	req := c.request()
	c.read.want(true)
	res, err := mux.RoundTrip(req)
	c.read.want(false)
	wake := func() bool { return true }
	if res != nil {
		// A read of the answer's body knows nothing of the context while the request's is being read.
		wake = context.AfterFunc(c.ctx, func() { res.Body.Close() })
	}
	defer func() {
		wake()
		c.cancel(errDone)
		c.read.stop()
		if res != nil {
			res.Body.Close()
		}
		c.body.end()
	}()
	if err != nil {
		return outcome{fault: c.fault(err, proxy.HeaderTimeout), sent: true, safe: !c.wrote.Load() || neverActedOn(err)}
	}
	c.a.Header, c.a.Status = time.Since(begun), res.StatusCode
	x.heard(endpoint, c.a.Status, c.a.Header)
	switch {
	case res.StatusCode < 200 || res.StatusCode > 599:
		return outcome{fault: &fault{http.StatusBadGateway, proxy.UpstreamInvalid, errUnasked}, sent: true, started: true}
	case x.movesOn(afterStatus(res.StatusCode), false):
		return outcome{again: true}
	case x.replaces(res.StatusCode):
		return outcome{}
	}
	return outcome{fault: c.relay(res), sent: true, started: true}
}

// request is the request as the endpoint is to see it.
func (c *call) request() *http.Request {
	x := c.x
	trace := &httptrace.ClientTrace{WroteHeaders: func() { c.wrote.Store(true) }}
	req := (&http.Request{
		Method: x.r.Method,
		URL:    &url.URL{Scheme: "http", Host: x.host, Opaque: x.target},
		Host:   x.host,
		Header: c.header(),
	}).WithContext(httptrace.WithClientTrace(c.ctx, trace))
	if x.line.secure() {
		req.URL.Scheme = "https"
	}
	if strings.HasPrefix(x.target, "//") {
		req.URL.Opaque = "//" + x.host + x.target // net/http takes what stands there for the host, and off
	}
	if x.streamed || len(x.small.bytes) > 0 {
		c.body = &outgoing{x: x, from: x.r.Body, send: &c.send, read: &c.read}
		req.Body, req.ContentLength = c.body, x.length
		c.read.hold(true)
		if x.streamed {
			x.startCall(c.body)
			req.Trailer = c.body.trailer
		} else {
			c.body.from = bytes.NewReader(x.small.bytes)
		}
	}
	return req
}

// startCall prepares for a body to be read while an answer is written.
func (x *trip) startCall(o *outgoing) {
	x.inviteBody()
	x.touched = true
	if x.rewinder == nil && x.r.ProtoMajor == 1 {
		http.NewResponseController(x.w).EnableFullDuplex() // see startUpload
	}
	if names := announced(x.r); len(names) > 0 {
		o.trailer = make(http.Header, len(names))
		for _, name := range names {
			o.trailer[name] = nil
		}
	}
}

// header is the fields that the endpoint gets, in memory of their own: net/http may be at them when the call is over and the
// client's connection has its next request in its.
func (c *call) header() http.Header {
	r := c.x.r
	header := make(http.Header, len(r.Header)+2)
	own := make([]string, 0, len(r.Header)+2)
	for name, values := range r.Header {
		if ofConnection(name) || name == "Host" || name == "Content-Length" || name == "Expect" || !valid(name, values) {
			continue
		}
		n := len(own)
		own = append(own, values...)
		header[name] = own[n:len(own):len(own)]
	}
	if acceptsTrailers(r.Header["Te"]) {
		header["Te"] = []string{"trailers"}
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = nil // else net/http says its own
	}
	return header
}

// valid reports whether net/http will send a field: one that it does not like spoils the whole request.
func valid(name string, values []string) bool {
	for _, value := range values {
		if !http1.ValidValue(value) {
			return false
		}
	}
	return http1.ValidToken(name)
}

// uploading reports whether the client may still be sending a body that nobody will read.
func (c *call) uploading() bool { return c.x.streamed && c.x.rewinder == nil && c.body.uploading() }

// relay passes the answer on: its head, its body as it comes, its trailer.
func (c *call) relay(res *http.Response) *fault {
	x := c.x
	header := x.w.Header()
	copyHeader(header, res, x.r.ProtoMajor == 1 && x.r.ProtoMinor == 1, x.e)
	if c.uploading() && x.r.ProtoMajor == 1 {
		header.Set("Connection", "close") // see trip.relay
	}
	x.committed = true
	x.e.Cookie = x.setCookie(c.a)
	x.w.WriteHeader(res.StatusCode)
	if res.ContentLength != 0 {
		x.flush() // else the head ends the stream, as that of a gRPC answer which is nothing but a trailer has to
	}
	buffer := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buffer)
	for {
		c.read.want(true)
		n, err := res.Body.Read(buffer[:])
		c.read.want(false)
		if n > 0 {
			c.a.Received += int64(n)
			if _, err := x.w.Write(buffer[:n]); err != nil {
				return left(err)
			}
			x.flush()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return c.fault(err, proxy.ReadTimeout)
		}
	}
	for name, values := range res.Trailer {
		if !http1.ForbiddenTrailer(name) && len(values) > 0 {
			header[http.TrailerPrefix+name] = values
		}
	}
	return nil
}

// copyHeader is copyFields for an answer that net/http has read.
func copyHeader(header http.Header, res *http.Response, http11 bool, e *proxy.Exchange) {
	noLength := res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified
	for name, values := range res.Header {
		if ofConnection(name) || name == "Server" && !e.ServerField || noLength && name == "Content-Length" {
			continue
		}
		if before := header[name]; len(before) > 0 {
			values = append(before[:len(before):len(before)], values...)
		}
		header[name] = values
	}
	if _, ok := header["Content-Type"]; !ok {
		header["Content-Type"] = nil // see trip.relay
	}
	for name := range res.Trailer {
		if !http1.ForbiddenTrailer(name) {
			header.Add("Trailer", name)
		}
	}
	if len(res.Trailer) > 0 && http11 {
		header.Del("Content-Length") // HTTP/1.1 has a length or a trailer, HTTP/2 can have both
	}
}

// fault classifies the end of a call. What was noticed here comes first: net/http only says that it was cancelled.
func (c *call) fault(err error, late proxy.Reason) *fault {
	ctx := c.x.r.Context()
	if c.body != nil {
		if ctx.Err() != nil {
			c.body.settle()
		}
		if f := c.body.fault.Load(); f != nil {
			return f
		}
	}
	switch {
	case ctx.Err() != nil:
		return left(err)
	case context.Cause(c.ctx) == errSendGap:
		return &fault{http.StatusGatewayTimeout, proxy.SendTimeout, errSendGap}
	case context.Cause(c.ctx) == errReadGap:
		return &fault{http.StatusGatewayTimeout, late, errReadGap}
	}
	return h2Fault(err)
}

// panicked is the fault of a handler's body that panics in a goroutine which is not the handler's.
func panicked(p any) *fault {
	return &fault{http.StatusInternalServerError, proxy.Panic, fmt.Errorf("read body: %v", p)}
}
