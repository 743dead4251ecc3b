package upstream

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"sallyport/proxy"
)

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
		if c.endHead() {
			x.paid = true
			return &fault{http.StatusGatewayTimeout, proxy.HeaderTimeout, errSilent}
		}
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

// proceed begins an upload that waited for the endpoint's word, and passes the word on to a client that waits too.
func (x *trip) proceed(c *conn) {
	if !x.streamed || x.upload != nil {
		return
	}
	c.readGap = x.t.options.ReadTimeout
	x.invite = x.r.ProtoMajor == 1
	x.inviteBody()
	x.startUpload(c, nil)
}

// inviteBody tells a client that waits for it to send its body. net/http would do so by itself when the body is first read,
// but on the goroutine that reads it, in the middle of whatever this one is writing.
func (x *trip) inviteBody() {
	if x.invite {
		x.invite = false
		x.sendInterim(http.StatusContinue, nil)
	}
}
