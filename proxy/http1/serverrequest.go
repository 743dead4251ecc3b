package http1

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// urlRoom is where the URL of a request stands that is not parsed by net/url.
type urlRoom = url.URL

var (
	errURL    = &SyntaxError{Part: "request line", Detail: "the target is no URL"}
	chunkedTE = []string{"chunked"}
)

// prepare makes the http.Request of what was read. An error says with which status it is refused.
func (c *conn) prepare() (status int, err error) {
	in := &c.request
	u, err := c.parseTarget(in)
	if err != nil {
		return http.StatusBadRequest, err
	}
	c.fillHeader(in)
	r := c.emptyRequest()
	r.Method, r.URL, r.RequestURI = in.Method, u, in.Target
	r.ProtoMajor, r.ProtoMinor, r.Proto = 1, in.Minor, "HTTP/1.1"
	if in.Minor == 0 {
		r.Proto = "HTTP/1.0"
	}
	r.Host, r.RemoteAddr, r.TLS, r.Header = in.Host, c.remote, c.tls, c.header
	if r.Host == "" {
		r.Host = u.Host // of an absolute target (RFC 9112 section 3.2.2): HTTP/1.0 need not say it twice
	}
	r.ContentLength, r.Close = in.Length, in.Close
	setFlag(&c.last, in.Close)
	c.bodied = !c.reader.Done()
	if setFlag(&c.complete, !c.bodied); !c.bodied {
		r.Body = http.NoBody
		return 0, nil
	}
	c.waited.Store(0)
	c.received.Store(0)
	c.body.reset(c)
	c.chunked.Store(in.Chunked)
	if in.Chunked {
		r.TransferEncoding = chunkedTE
		r.Trailer = announced(c.header)
	}
	c.body.waiting.Store(in.Expect)
	r.Body = &c.body
	return 0, nil
}

// setFlag stores a flag that seldom changes: to store costs more than to look.
func setFlag(flag *atomic.Bool, to bool) {
	if flag.Load() != to {
		flag.Store(to)
	}
}

// parseTarget is the URL of a target. The usual one needs no parser.
func (c *conn) parseTarget(in *Request) (*url.URL, error) {
	if in.Target[0] == '/' && strings.IndexByte(in.Target, '%') < 0 {
		path, query, asked := strings.Cut(in.Target, "?")
		// RawPath keeps what EscapedPath would otherwise write in another way: '!', '('.
		c.url = url.URL{Path: path, RawPath: path, RawQuery: query, ForceQuery: asked && query == ""}
		return &c.url, nil
	}
	if in.Target[0] == '/' {
		path, query, asked := strings.Cut(in.Target, "?")
		unescaped, err := url.PathUnescape(path)
		if err != nil {
			return nil, errURL
		}
		c.url = url.URL{Path: unescaped, RawPath: path, RawQuery: query, ForceQuery: asked && query == ""}
		return &c.url, nil
	}
	target, authority := in.Target, in.Method == http.MethodConnect
	if authority {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, errURL
	}
	if authority {
		u.Scheme = "" // as net/http has it: nobody has named one
	}
	return u, nil
}

// fillHeader makes a map of the fields, as net/http has it: Host is not in it.
func (c *conn) fillHeader(in *Request) {
	c.emptyHeader()
	if cap(c.values) < len(in.Fields) {
		c.values = make([]string, 0, max(16, len(in.Fields)))
	}
	c.values = c.values[:0]
	for i := range in.Fields {
		f := &in.Fields[i]
		if f.Name == "Host" {
			continue
		}
		c.values = append(c.values, f.Value)
		n := len(c.values)
		c.header[f.Name] = c.values[n-1 : n : n]
	}
	if len(c.header) < len(c.values) { // a name came twice: seldom, and to look for it each time costs more
		clear(c.header)
		for i := range in.Fields {
			if f := &in.Fields[i]; f.Name != "Host" {
				c.header[f.Name] = append(c.header[f.Name], f.Value)
			}
		}
	}
	if in.Chunked {
		delete(c.header, "Transfer-Encoding")
	}
}

// emptyRequest is the request to fill in, whatever a handler has made of the one before.
func (c *conn) emptyRequest() *http.Request {
	if c.req == nil {
		c.req = new(http.Request)
	}
	*c.req = *c.blank
	return c.req
}

// emptyHeader makes room for fields. A connection has none before its first request, and none at rest: many bring none.
func (c *conn) emptyHeader() {
	if c.header == nil {
		c.header = make(http.Header, 16)
		return
	}
	clear(c.header)
}

// announced takes the Trailer field out of a header and returns the trailer that it announces, still without values.
func announced(header http.Header) http.Header {
	lines := header["Trailer"]
	if len(lines) == 0 {
		return nil
	}
	delete(header, "Trailer")
	trailer := make(http.Header)
	for _, line := range lines {
		for line != "" {
			var name string
			name, line = NextToken(line)
			if name = http.CanonicalHeaderKey(name); ValidToken(name) && !ForbiddenTrailer(name) {
				trailer[name] = nil
			}
		}
	}
	return trailer
}

// A requestBody is the body of a request as its handler reads it.
type requestBody struct {
	c       *conn
	mu      sync.Mutex  // held by a read
	piece   []byte      // read and not yet given out
	end     error       // behind piece
	waiting atomic.Bool // the client waits to be asked for the body
	failed  atomic.Bool // what follows on the connection is not known
	closed  bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.piece) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		if err := b.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	if len(b.piece) == 0 {
		return n, b.end
	}
	return n, nil
}

func (b *requestBody) reset(c *conn) {
	b.c, b.piece, b.end = c, nil, nil
	b.waiting.Store(false)
	b.failed.Store(false)
	b.closed = false
}

// fetch reads the next piece.
func (b *requestBody) fetch() error {
	c := b.c
	if b.waiting.Load() {
		if err := c.res.invite(); err != nil {
			b.failed.Store(true)
			b.end = err
			return err
		}
	}
	var err error
	if c.reader.Ready() {
		b.piece, err = c.reader.Body()
	} else {
		since := c.server.clock.Load()
		c.reading.Store(since)
		b.piece, err = c.reader.Body()
		c.reading.Store(0)
		c.waited.Add(c.server.clock.Load() - since)
	}
	c.received.Add(int64(len(b.piece)))
	switch {
	case err == nil:
		return nil
	case err == io.EOF:
		c.complete.Store(true)
		if fields := c.reader.Trailer(); len(fields) > 0 {
			if c.req.Trailer == nil {
				c.req.Trailer = make(http.Header, len(fields))
			}
			for _, f := range fields {
				c.req.Trailer[f.Name] = append(c.req.Trailer[f.Name], f.Value)
			}
		}
	default:
		b.failed.Store(true)
		if err == errLate {
			c.revive() // for the answer
		}
	}
	b.end = err
	return nil
}

// Close makes later reads fail. What is left of the body is dealt with when the handler has returned.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}
