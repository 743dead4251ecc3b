package upstream

import (
	"io"
	"time"
)

// What is read of an answer that nobody gets, so that its connection can be used again.
const (
	dropSize = 64 << 10
	dropTime = 100 * time.Millisecond // between two reads
)

// replaces reports whether a page of the route's takes the place of the endpoint's answer, which nobody gets then. The
// page is served when the connection has been disposed of.
func (x *trip) replaces(status int) bool {
	pages := x.e.ErrorPages
	if pages == nil || !pages.Takes(status, true) {
		return false
	}
	x.e.ErrorPages = nil // its own errors stand
	x.pages, x.page = pages, status
	return true
}

// servePage answers instead of the endpoint. Of its answer nothing is in the header: only relay copies that.
func (x *trip) servePage() { x.pages.Serve(x.w, x.r, x.page) }

// drop reads what is left of an answer, if that is little and comes soon, and reports whether the connection is good for
// another request.
func (x *trip) drop(c *conn) (keep bool) {
	res := &c.answer
	if x.uploading() || res.Length > dropSize || res.Length < 0 && !res.Chunked {
		return false
	}
	c.readGap = dropTime
	for read := 0; read <= dropSize; {
		piece, err := c.reader.Body()
		read += len(piece)
		if err != nil {
			return err == io.EOF && c.reader.Reusable()
		}
	}
	return false
}
