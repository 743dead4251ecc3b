package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// read reads one whole answer from in: heads up to the final one, then the body.
func read(in io.Reader, method string, res *Response) (body []byte, r *Reader, err error) {
	r = new(Reader)
	r.Reset(in)
	r.Begin(method)
	for err = r.Head(res); err == nil && res.Interim(); {
		err = r.Head(res)
	}
	for err == nil {
		var piece []byte
		piece, err = r.Body()
		body = append(body, piece...)
	}
	if err == io.EOF && res.Status >= 200 {
		err = nil
	}
	return body, r, err
}

// ways are the ways in which the same bytes may come from a connection.
func ways(text string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":           strings.NewReader(text),
		"byte by byte":    iotest.OneByteReader(strings.NewReader(text)),
		"with the end":    iotest.DataErrReader(strings.NewReader(text)),
		"in halves":       iotest.HalfReader(strings.NewReader(text)),
		"larger than all": io.MultiReader(strings.NewReader(text[:len(text)/2]), strings.NewReader(text[len(text)/2:])),
	}
}

func TestAnswersThatAreRead(t *testing.T) {
	long := strings.Repeat("0123456789", 10000)
	for _, c := range []struct {
		name, method, text, body string
		status                   int
		reusable                 bool
		trailer                  []Field
	}{
		{"fixed", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, true, nil},
		{"long", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long, long, 200, true, nil},
		{"long head", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: " + long + "\r\n\r\nok", "ok", 200, true, nil},
		{"empty", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200, true, nil},
		{"no reason", "GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "", 200, true, nil},
		{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\nok", "ok", 200, false, nil},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, nil},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, nil},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "", 200, true, nil},
		{"304", "GET", "HTTP/1.1 304 X\r\nContent-Length: 2\r\n\r\n", "", 304, true, nil},
		{"204", "GET", "HTTP/1.1 204 X\r\n\r\n", "", 204, true, nil},
		{"204 with a body", "GET", "HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\n", "", 204, false, nil},
		{"something behind", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP", "ok", 200, false, nil},
		{"interim", "GET", "HTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, true, nil},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n1\r\no\r\n0001 ;a=\"b\"\r\nk\r\n0\r\n\r\n", "ok", 200, true, nil},
		{"trailer", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum:  7 \r\nSet-Cookie: a\r\nContent-Length: 9\r\n\r\n", "ok", 200, true, []Field{{"X-Sum", "7"}}},
	} {
		for way, in := range ways(c.text) {
			if c.name == "something behind" && way != "whole" {
				continue // the Reader does not look for it
			}
			var res Response
			body, r, err := read(in, c.method, &res)
			if err != nil || string(body) != c.body || res.Status != c.status || r.Reusable() != c.reusable || !slices.Equal(r.Trailer(), c.trailer) {
				t.Errorf("%s, %s: status %d, %d bytes, reusable %v, trailer %v, %v", c.name, way, res.Status, len(body), r.Reusable(), r.Trailer(), err)
			}
		}
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	for text, want := range map[string]error{
		"":                            io.EOF,
		"HTTP/1.1 103 X\r\n\r\n":      io.EOF,
		"HTT":                         io.ErrUnexpectedEOF,
		ok:                            io.ErrUnexpectedEOF,
		"\r\n" + ok + "\r\n":          errStatusLine,
		"HTTP/1.2 200 OK\r\n\r\n":     errStatusLine,
		"http/1.1 200 OK\r\n\r\n":     errStatusLine,
		"HTTP/1.1  200 OK\r\n\r\n":    errStatusLine,
		"HTTP/1.1 2000 OK\r\n\r\n":    errStatusLine,
		"HTTP/1.1 20 OK\r\n\r\n":      errStatusLine,
		"HTTP/1.1 099 OK\r\n\r\n":     errStatusLine,
		"HTTP/1.1 600 OK\r\n\r\n":     errStatusLine,
		"HTTP/1.1 -20 OK\r\n\r\n":     errStatusLine,
		"HTTP/1.1 200 O\x00K\r\n\r\n": errStatusLine,
		"HTTP/1.1 200 OK\n\r\n":       errBareLF,
		ok + "A: b\n\r\n":             errBareLF,
		ok + "\n":                     errBareLF,
		ok + " A: b\r\n\r\n":          errFold,
		ok + "A: b\r\n\tc\r\n\r\n":    errFold,
		ok + "A\r\n\r\n":              errNoColon,
		ok + ": b\r\n\r\n":            errName,
		ok + "A : b\r\n\r\n":          errName,
		ok + "A\x80: b\r\n\r\n":       errName,
		ok + "A: b\rc\r\n\r\n":        errValue,
		ok + "A: b\x00\r\n\r\n":       errValue,
		ok + "A: b\x7f\r\n\r\n":       errValue,
		ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n":                   errTwoLengths,
		ok + "Content-Length: 1, 1\r\n\r\n":                                     errLength,
		ok + "Content-Length: -1\r\n\r\n":                                       errLength,
		ok + "Content-Length: 0x1\r\n\r\n":                                      errLength,
		ok + "Content-Length: \r\n\r\n":                                         errLength,
		ok + "Content-Length: 9999999999999999999\r\n\r\n":                      errLength,
		ok + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n":          errBothFraming,
		ok + "Transfer-Encoding: gzip, chunked\r\n\r\n":                         errCoding,
		ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n":       errCoding,
		ok + "Transfer-Encoding: \vchunked\r\n\r\n":                             errValue,
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n":                 errOldCoding,
		"HTTP/1.1 204 X\r\nContent-Length: x\r\n\r\n":                           errLength,
		strings.Repeat("HTTP/1.1 103 X\r\n\r\n", 9) + ok + "\r\n":               errInterim,
		ok + strings.Repeat("A: b\r\n", maxFields+1) + "\r\n":                   errFieldCount,
		ok + "A: " + strings.Repeat("x", MaxHead) + "\r\n\r\n":                  ErrHeadTooBig,
		ok + "Content-Length: 3\r\n\r\nok":                                      io.ErrUnexpectedEOF,
		chunked:                                                                 io.ErrUnexpectedEOF,
		chunked + "2\r\nok":                                                     io.ErrUnexpectedEOF,
		chunked + "2\r\nok\r\n0\r\n":                                            io.ErrUnexpectedEOF,
		chunked + "\r\n":                                                        errChunkSize,
		chunked + "0x2\r\nok\r\n":                                               errChunkSize,
		chunked + "+2\r\nok\r\n":                                                errChunkSize,
		chunked + " 2\r\nok\r\n":                                                errChunkSize,
		chunked + "2 \r\nok\r\n":                                                errChunkSize,
		chunked + "2\nok\r\n":                                                   errChunkSize,
		chunked + "0000000000000002\r\nok":                                      errChunkSize,
		chunked + "2;\x00\r\nok\r\n":                                            errChunkExt,
		chunked + "2\r\nokay":                                                   errChunkEnd,
		chunked + "2\r\nok\n0":                                                  errChunkEnd,
		chunked + "2;" + strings.Repeat("x", 5000) + "\r\nok\r\n":               errChunkLine,
		chunked + strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\no\r\n", 5): errChunkWaste,
		chunked + "0\r\nA b: c\r\n\r\n":                                         errName,
		chunked + "0\r\n A: c\r\n\r\n":                                          errFold,
		chunked + "0\r\nA: " + strings.Repeat("x", MaxHead) + "\r\n\r\n":        ErrHeadTooBig,
	} {
		for way, in := range ways(text) {
			if _, _, err := read(in, "GET", new(Response)); !errors.Is(err, want) {
				t.Errorf("%.80q, %s: %v, want %v", text, way, err, want)
			}
		}
	}
}

func TestReadyIsTrueOnlyOfWhatNeedsNoRead(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x\r\nyes\r\n0\r\nA: b\r\n\r\n"
	for cut := strings.Index(text, "2\r\n"); cut < len(text); cut++ {
		var r Reader
		var res Response
		r.Reset(strings.NewReader(text[:cut]))
		r.Begin("GET")
		if err := r.Head(&res); err != nil {
			t.Fatal(err)
		}
		for {
			ready := r.Ready()
			if _, err := r.Body(); err != nil {
				if ready {
					t.Errorf("cut after %q: Ready was true, but Body waited for more", text[:cut])
				}
				break
			}
		}
	}
}

func TestHeadsCostOneAllocation(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nX-A: b\r\nX-B: c\r\nContent-Length: 2\r\n\r\nok"
	var r Reader
	var res Response
	in := strings.NewReader("")
	r.Reset(in)
	n := testing.AllocsPerRun(1000, func() {
		in.Reset(text)
		r.Begin("GET")
		if err := r.Head(&res); err != nil || res.Fields[0] != (Field{"Content-Type", "text/plain"}) {
			t.Fatalf("%v, %v", res.Fields, err)
		}
		if b, err := r.Body(); string(b) != "ok" || err != io.EOF {
			t.Fatalf("%q, %v", b, err)
		}
	})
	if n != 1 {
		t.Errorf("an answer allocates %v times, want once", n)
	}
}

// answerWords are what answers are made of, so that chance makes some that are nearly right.
var answerWords = strings.Split("HTTP/1.1 200 OK\r\n|HTTP/1.0 200 OK\r\n|HTTP/1.1 103 X\r\n|HTTP/1.1 204 X\r\n|HTTP/1.1 304 X\r\n|HTTP/1.1 101 X\r\n|HTTP/1.1 |"+
	"200|99|600| |OK|\r\n|\n|\r|\x00|\t|: |:|;|,|Content-Length: |Content-Length: 5\r\n|Content-Length: 0\r\n|Transfer-Encoding: chunked\r\n|"+
	"Transfer-Encoding: |chunked|gzip, |identity|Connection: close\r\n|Connection: keep-alive\r\n|Connection: |close|Trailer: X\r\n|X: y\r\n|Link: a\r\n|"+
	"Set-Cookie: a\r\n|Pragma: no-cache\r\n|Upgrade: websocket\r\n|\r\n\r\n|0\r\n\r\n|5\r\nhello\r\n|5|0|1|a|hello|5;x=y\r\nhello\r\n|\x80|\x7f", "|")

// FuzzResponse holds that whatever is accepted, net/http reads alike, with the same end, and that it does not matter in which
// pieces it came.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nTrailer: X\r\n\r\n2;a\r\nok\r\n0\r\nX: 1\r\nSet-Cookie: a\r\n\r\n",
		"HTTP/1.0 200\r\nA:b\r\nA: \tc \r\n\r\nrest",
		"HTTP/1.1 304 X\r\nConnection: a, close\r\nContent-Length: 4\r\n\r\n",
		"HTTP/1.1 204 X\r\nContent-Length: 4\r\n\r\nabcd",
		"HTTP/1.1 103 X\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 000 X\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\rc\r\nB: \x00\r\nC d: e\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"HTTP/1.1 200 OK\nA: b\n c\n\nok",
		strings.Repeat("HTTP/1.1 103 X\r\n\r\n", 10),
	} {
		f.Add([]byte(s), false, false)
		f.Add([]byte(s), true, false)
	}
	f.Add([]byte{0, 25, 33, 12, 43, 42, 0, 22, 12}, false, true)
	f.Fuzz(func(t *testing.T, data []byte, head, words bool) {
		if words {
			data = spell(data, answerWords)
		}
		method := "GET"
		if head {
			method = "HEAD"
		}
		var res, again Response
		body, r, err := read(bytes.NewReader(data), method, &res)
		body2, r2, err2 := read(iotest.OneByteReader(bytes.NewReader(data)), method, &again)
		defer r.Release()
		defer r2.Release()
		if (err == nil) != (err2 == nil) || err == nil && (!bytes.Equal(body, body2) || !slices.Equal(res.Fields, again.Fields)) {
			t.Fatalf("whole: %q, %v; byte by byte: %q, %v", body, err, body2, err2)
		}
		if err == nil && res.Status != 101 {
			compare(t, data, method, &res, body, r)
		}
	})
}

// compare reads data with net/http and compares all that it shows.
func compare(t *testing.T, data []byte, method string, res *Response, body []byte, r *Reader) {
	in := bufio.NewReader(bytes.NewReader(data))
	var want *http.Response
	for {
		var err error
		if want, err = http.ReadResponse(in, &http.Request{Method: method}); err != nil {
			t.Fatalf("net/http refuses what was accepted: %v", err)
		}
		if want.StatusCode >= 200 || want.StatusCode == 101 {
			break
		}
	}
	wantBody, err := io.ReadAll(want.Body)
	if err != nil {
		t.Fatalf("net/http refuses the body: %v", err)
	}
	if want.StatusCode != res.Status || !bytes.Equal(wantBody, body) {
		t.Errorf("status %d, body %q; net/http %d, %q", res.Status, body, want.StatusCode, wantBody)
	}
	header := http.Header{}
	for _, field := range res.Fields {
		header.Add(field.Name, field.Value)
	}
	if header["Cache-Control"] == nil && header["Pragma"] != nil {
		delete(want.Header, "Cache-Control") // which net/http adds
	}
	for name, values := range want.Header {
		if !slices.Equal(header[name], values) {
			t.Errorf("%s: %q; net/http %q", name, header[name], values)
		}
	}
	for name := range header {
		switch name {
		case "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Cache-Control":
			continue // net/http takes these out or adds to them
		}
		if want.Header[name] == nil {
			t.Errorf("%s is unknown to net/http", name)
		}
	}
	if want.Close && !res.Close && want.ProtoAtLeast(1, 1) {
		t.Errorf("the connection is kept; net/http closes it")
	}
	left, _ := io.ReadAll(in)
	ours, _ := io.ReadAll(io.MultiReader(bytes.NewReader(r.Buffered()), r.src))
	if !bytes.Equal(ours, left) {
		t.Errorf("behind the answer comes %q; for net/http %q", ours, left)
	}
	for _, field := range r.Trailer() {
		if !slices.Contains(want.Trailer[field.Name], field.Value) {
			t.Errorf("trailer %v; net/http %v", field, want.Trailer)
		}
	}
}
