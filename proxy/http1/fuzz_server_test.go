package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A memoryConn is a connection whose client has sent all that it ever will, and closed its direction.
type memoryConn struct {
	in      piecewise
	witness *witness
	closed  chan struct{} // by the server
	once    sync.Once

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

func (c *memoryConn) Read(b []byte) (int, error) { return c.in.Read(b) }
func (c *memoryConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}
func (c *memoryConn) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *memoryConn) LocalAddr() net.Addr              { return memoryAddr{} }
func (c *memoryConn) RemoteAddr() net.Addr             { return memoryAddr{} }
func (c *memoryConn) SetDeadline(time.Time) error      { return nil }
func (c *memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "192.0.2.1:1" }

// memoryListener is a listener of connections that a test makes.
type memoryListener chan net.Conn

func (l memoryListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l memoryListener) Close() error   { return nil }
func (l memoryListener) Addr() net.Addr { return memoryAddr{} }

// seen is what a handler saw of a request.
type seen struct {
	method, target, host string
	minor                int
	url                  url.URL
	escaped              string // path
	header, trailer      http.Header
	coding               []string
	length               int64
	body                 []byte // as far as the handler read it
	err                  error
}

// A witness is a handler that writes down what it sees, and answers in one of several ways.
type witness struct {
	mode   uint8
	most   int // requests, after which enough is closed; 0: any number
	enough chan struct{}

	mu  sync.Mutex
	all []seen // guarded by mu
}

const (
	modeUnread  = 1 << iota // the body is left unread
	modeFlush               // the answer is of unknown length
	modeEmpty               // the answer has no body
	modeCloses              // the second answer ends the connection
	modeHalf                // half of the body is read
	modeTrailer             // the answer has a trailer
	modeWords               // the bytes stand for words
)

// words are what messages are made of, so that chance makes some that are nearly right.
var words = strings.Split("GET |POST |HEAD |PUT |CONNECT |OPTIONS |/|/a/b?c=d|%2f|%|*|http://a/|a:80| HTTP/1.1\r\n| HTTP/1.0\r\n| HTTP/1.2\r\n|"+
	"\r\n|\n|\r|\x00|\t| |:|: |;|,|Host: a\r\n|Host: |host: b\r\n|Content-Length: |Content-Length: 5\r\n|Content-Length: 0\r\n|"+
	"Transfer-Encoding: chunked\r\n|Transfer-Encoding: |chunked|gzip, |identity|Connection: close\r\n|Connection: keep-alive\r\n|Connection: |close|"+
	"Trailer: X\r\n|Trailer: |X: y\r\n|X|Expect: 100-continue\r\n|Upgrade: h2c\r\n|Pragma: no-cache\r\n|\r\n\r\n|0\r\n\r\n|5\r\nhello\r\n|5|0|1|a|A|"+
	"hello|00000000|5;x=y\r\nhello\r\n|GET / HTTP/1.1\r\nHost: a\r\n\r\n|POST / HTTP/1.1\r\nHost: a\r\n|\x80|\x7f", "|")

// spell writes a word for each byte.
func spell(data []byte, words []string) (text []byte) {
	for _, b := range data {
		text = append(text, words[int(b)%len(words)]...)
	}
	return text
}

func (h *witness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := seen{method: r.Method, target: r.RequestURI, host: r.Host, minor: min(r.ProtoMinor, 1), header: r.Header.Clone(), coding: r.TransferEncoding,
		length: r.ContentLength, url: *r.URL, escaped: r.URL.EscapedPath()}
	switch {
	case h.mode&modeUnread != 0:
	case h.mode&modeHalf != 0:
		s.body = make([]byte, max(0, r.ContentLength/2)%4096)
		_, s.err = io.ReadFull(r.Body, s.body)
	default:
		s.body, s.err = io.ReadAll(r.Body)
		s.trailer = r.Trailer.Clone()
	}
	h.mu.Lock()
	h.all = append(h.all, s)
	n := len(h.all)
	h.mu.Unlock()
	if n == h.most {
		close(h.enough)
	}
	if s.err != nil {
		w.WriteHeader(400)
		return
	}
	if n == 2 && h.mode&modeCloses != 0 {
		w.Header().Set("Connection", "close")
	}
	if h.mode&modeTrailer != 0 {
		w.Header().Set("Trailer", "X-Sum")
		defer w.Header().Set("X-Sum", "1")
	}
	text := answerText(n, h.mode)
	if h.mode&modeFlush != 0 {
		io.WriteString(w, text)
		w.(http.Flusher).Flush()
		io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	io.WriteString(w, text)
}

func answerText(n int, mode uint8) string {
	if mode&modeEmpty != 0 {
		return ""
	}
	return fmt.Sprintf("answer %d", n)
}

// whole is what is to be read of the body of the n-th answer.
func (h *witness) whole(n int) string {
	text := answerText(n, h.mode)
	if h.mode&modeFlush != 0 {
		return text + text
	}
	return text
}

// An oracle is net/http's server.
type oracle struct{ conns memoryListener }

type witnessKey struct{}

func newOracle(t testing.TB) *oracle {
	o := &oracle{make(memoryListener)}
	server := &http.Server{
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Context().Value(witnessKey{}).(*witness).ServeHTTP(w, r)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, witnessKey{}, c.(*memoryConn).witness)
		},
	}
	done := make(chan struct{})
	go func() { server.Serve(o.conns); close(done) }()
	t.Cleanup(func() { close(o.conns); <-done })
	return o
}

// ask serves data until the connection has ended or has brought as many requests as most. Waiting for its end would often
// be waiting half a second for nothing.
func (o *oracle) ask(data []byte, step int, mode uint8, most int) []seen {
	if most == 0 {
		return nil
	}
	h := &witness{mode: mode, most: most, enough: make(chan struct{})}
	c := &memoryConn{in: piecewise{data: data, step: step}, witness: h, closed: make(chan struct{})}
	o.conns <- c
	select {
	case <-h.enough:
	case <-c.closed:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// differs says in what, beyond order, a request is another one for us than for net/http; empty: in nothing. Header fields
// that net/http adds or resolves are no difference:
//
//   - an absolute target replaces Host there. Here both are kept, and the front refuses what does not agree;
//   - Pragma: no-cache there adds a Cache-Control;
//   - fields that have no place in a trailer, and announcements of names that are none, are kept there and left out here.
func differs(ours, theirs *seen) string {
	absolute := !strings.HasPrefix(ours.target, "/")
	if ours.header.Get("Pragma") == "no-cache" && ours.header["Cache-Control"] == nil {
		delete(theirs.header, "Cache-Control")
	}
	for name := range theirs.trailer {
		if ForbiddenTrailer(name) || !ValidToken(name) {
			delete(theirs.trailer, name)
		}
	}
	switch {
	case ours.method != theirs.method, ours.target != theirs.target, ours.minor != theirs.minor:
		return "request line"
	case !absolute && ours.host != theirs.host:
		return "host"
	case ours.url.Path != theirs.url.Path, ours.escaped != theirs.escaped, ours.url.RawQuery != theirs.url.RawQuery, ours.url.ForceQuery != theirs.url.ForceQuery,
		ours.url.Host != theirs.url.Host, ours.url.Scheme != theirs.url.Scheme, ours.url.Opaque != theirs.url.Opaque:
		return "URL"
	case !reflect.DeepEqual(ours.header, theirs.header):
		return "header"
	case !slices.Equal(ours.coding, theirs.coding), ours.length != theirs.length:
		return "framing"
	case ours.err != nil:
		return "" // what we refuse may be anything there
	case !bytes.Equal(ours.body, theirs.body), theirs.err != nil:
		return "body"
	case !(len(ours.trailer) == 0 && len(theirs.trailer) == 0) && !reflect.DeepEqual(ours.trailer, theirs.trailer):
		return "trailer"
	}
	return ""
}

// refusedThere says why net/http may refuse a request that we take; empty: it may not.
//
//   - what a Host may hold is the front's business here: it knows hosts better (proxy/host.go);
//   - an empty line before a request is skipped there behind a POST only;
//   - what a trailer may hold is not refused by its announcement here: such fields are left out;
//   - the connection ends there behind a body that the client was asked for and that was not read to its end. Here the rest is
//     read away.
func refusedThere(s *seen, data []byte, mode uint8) string {
	if mode&(modeUnread|modeHalf) != 0 && bytes.Contains(bytes.ToLower(data), []byte("\nexpect:")) {
		return "unread body that was asked for"
	}
	for i := range len(s.host) {
		if c := s.host[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!$%&'()*+,-.:;=[]_~", c) >= 0) {
			return "host"
		}
	}
	if bytes.HasPrefix(data, []byte("\r\n")) || bytes.Contains(data, []byte("\r\n\r\n\r\n")) {
		return "empty line"
	}
	if at := bytes.Index(data, []byte("\r\n"+s.method+" "+s.target+" HTTP/1.")); at > 0 && !bytes.HasSuffix(data[:at], []byte("\r\n")) {
		return "empty line behind a body"
	}
	if bytes.Contains(bytes.ToLower(data), []byte("\ntrailer:")) {
		return "announced trailer"
	}
	return ""
}

// FuzzServer holds the server against net/http's: whatever it hands to its handler, net/http hands on alike, request by
// request. What comes back are as many answers as there were requests, with at most one refusal behind them, and each is
// read as it was written.
func FuzzServer(f *testing.F) {
	for i, data := range seeds(f) {
		f.Add(data, uint8(255), uint8(0))
		f.Add(append(slices.Clone(data), "GET /second HTTP/1.1\r\nHost: a\r\n\r\n"...), uint8(i), uint8(i))
	}
	for _, text := range []string{
		"POST | /|/a/b?c=d| HTTP/1.1\r\n|Host: a\r\n|Transfer-Encoding: chunked\r\n|Trailer: X\r\n|\r\n|5;x=y\r\nhello\r\n|0|\r\n|X: y\r\n|\r\n|GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"PUT |*| HTTP/1.0\r\n|Connection: keep-alive\r\n|Content-Length: 5\r\n|\r\n|hello|GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		var data []byte
		for word := range strings.SplitSeq(text, "|") {
			data = append(data, byte(max(0, slices.Index(words, word))))
		}
		f.Add(data, uint8(9), uint8(modeWords))
	}
	o := newOracle(f)
	var ours *witness
	server := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ours.ServeHTTP(w, r) })}
	f.Cleanup(func() { server.Close() })
	f.Fuzz(func(t *testing.T, data []byte, step, mode uint8) {
		if mode&modeWords != 0 {
			data = spell(data, words)
		}
		ours = &witness{mode: mode}
		c := &memoryConn{in: piecewise{data: data, step: int(step) + 1}, closed: make(chan struct{})}
		server.ServeConn(c)
		theirs := o.ask(data, int(step)+1, mode, len(ours.all))
		for i := range ours.all {
			if i == len(theirs) {
				if ours.all[i].err == nil && refusedThere(&ours.all[i], data, mode) == "" {
					t.Fatalf("request %d is none for net/http: %+v", i, ours.all[i])
				}
				break
			}
			if what := differs(&ours.all[i], &theirs[i]); what != "" {
				t.Fatalf("request %d, %s:\n    ours %+v\nnet/http %+v", i, what, ours.all[i], theirs[i])
			}
			if ours.all[i].err != nil {
				break
			}
		}
		ours.checkAnswers(t, c.out.Bytes())
	})
}

// checkAnswers reads what came back as a client does that has sent what the handler saw.
func (h *witness) checkAnswers(t *testing.T, out []byte) {
	in := bufio.NewReader(bytes.NewReader(out))
	for i := 0; ; i++ {
		method := ""
		if i < len(h.all) {
			method = h.all[i].method
		}
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		for err == nil && res.StatusCode == http.StatusContinue {
			res, err = http.ReadResponse(in, &http.Request{Method: method})
		}
		if err != nil {
			if i < len(h.all) || in.Buffered() > 0 || err != io.ErrUnexpectedEOF {
				t.Fatalf("answer %d of %d: %v in %q", i, len(h.all), err, out)
			}
			return
		}
		body, err := io.ReadAll(res.Body)
		switch {
		case err != nil:
			t.Fatalf("answer %d of %d: body: %v in %q", i, len(h.all), err, out)
		case i > len(h.all) || i == len(h.all) && res.StatusCode < 400:
			t.Fatalf("answer %d to %d requests: %d", i, len(h.all), res.StatusCode)
		case i == len(h.all), h.all[i].err != nil:
		case res.StatusCode != 200 || method != "HEAD" && string(body) != h.whole(i+1):
			t.Fatalf("answer %d of %d: %d %q in %q", i, len(h.all), res.StatusCode, body, out)
		}
	}
}
