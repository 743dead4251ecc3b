package http1

import (
	"bytes"
	"errors"
	"io"
)

// A Response is the head of an answer. Its Fields are good until the next Head of the same Response; the strings in them
// for ever.
type Response struct {
	Status int // 100 to 599
	Minor  int // of the version HTTP/1.Minor: 0 or 1
	head

	// Length is the bytes of the body that follows: 0 when the status or the request's method allow none, -1 when only
	// its end will tell. Chunked says that the end is marked in the body, else it is the connection's.
	Length  int64
	Chunked bool
	// Close says that the connection ends with this answer.
	Close bool
}

// A head is the fields of a message or of a trailer.
type head struct {
	Fields []Field
	spans  []span // of the fields in the head, while it is still being read
}

// span is where a field's name and value stand, counted from the beginning of the head.
type span struct{ name, nameEnd, value, valueEnd int }

// Interim reports whether another head follows: 1xx, but not 101, which is the last word of HTTP on a connection.
func (res *Response) Interim() bool { return res.Status < 200 && res.Status != 101 }

// Get returns the value of the first field of that canonical name, "" if there is none.
func (h *head) Get(name string) string {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value
		}
	}
	return ""
}

// A Reader reads the messages of one direction of a connection: requests or answers. The zero value needs a Reset.
type Reader struct {
	src  io.Reader
	buf  []byte // nil between exchanges
	r, w int    // what is buffered: buf[r:w]

	bodiless bool // the request was a HEAD
	started  bool // a byte came since Begin
	budget   int  // bytes that heads may still have
	interim  int  // interim answers since Begin

	body    bodyMode
	left    int64 // of the body, or of the chunk
	excess  int64 // framing of a chunked body beyond its content
	close   bool  // the connection ends with the answer
	trailer head
}

var errStuck = errors.New("http1: 100 reads without data or error")

// Reset makes r read from src, which nothing else may read any more.
func (r *Reader) Reset(src io.Reader) {
	r.Release()
	r.src = src
}

// Begin prepares for the answer to a request of that method.
func (r *Reader) Begin(method string) {
	r.bodiless = method == "HEAD"
	r.started = r.w > r.r
	r.budget = MaxHead
	r.interim = 0
	r.body = bodyNone
	r.close = true // until a head says otherwise
	r.trailer.Fields = r.trailer.Fields[:0]
}

// Started reports whether a byte of an answer has come since Begin.
func (r *Reader) Started() bool { return r.started }

// Buffered is what was read from the connection and belongs to nothing yet: after a 101, the first bytes of the other
// protocol. It is good until the next call.
func (r *Reader) Buffered() []byte { return r.buf[r.r:r.w] }

// Release gives the buffer back, with what may be in it. The Reader takes another one when it needs it.
func (r *Reader) Release() {
	release(r.buf)
	r.buf, r.r, r.w = nil, 0, 0
}

// Head reads the next head into res, interim ones as well. It returns io.EOF when the connection ended before its first
// byte, io.ErrUnexpectedEOF when it ended within, a [SyntaxError], [ErrHeadTooBig], or the connection's own error.
func (r *Reader) Head(res *Response) error {
	start, err := r.statusLine(res)
	if err != nil {
		return err
	}
	end, err := r.fields(&res.head, start, r.budget, maxFields)
	if err != nil {
		return err
	}
	r.budget -= end
	res.assemble(string(r.buf[r.r : r.r+end]))
	r.r += end
	if res.Interim() {
		if r.interim++; r.interim > MaxInterim {
			return errInterim
		}
	}
	return r.frame(res)
}

// line finds the line that begins at r.r+from and returns the offset behind its LF. The line with its CRLF is
// r.buf[r.r+from : r.r+next].
func (r *Reader) line(from, limit int) (next int, err error) {
	seen := from
	for {
		if i := bytes.IndexByte(r.buf[r.r+seen:r.w], '\n'); i >= 0 {
			next = seen + i + 1
			if next > limit {
				return 0, ErrHeadTooBig
			}
			if i+seen == from || r.buf[r.r+next-2] != '\r' {
				return 0, errBareLF
			}
			return next, nil
		}
		seen = r.w - r.r
		if seen >= limit {
			return 0, ErrHeadTooBig
		}
		if err := r.fill(MaxHead); err != nil {
			if err == io.EOF && r.w > r.r {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

const versionPrefix = "HTTP/1."

// statusLine reads "HTTP/1.x SP status [SP reason] CRLF" and returns the offset behind it. Something that is no HTTP is
// refused at its first wrong byte: it might never send a line end.
func (r *Reader) statusLine(res *Response) (next int, err error) {
	for r.w-r.r < len(versionPrefix) {
		if err := r.fill(MaxHead); err != nil {
			if err == io.EOF && r.w > r.r {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		if have := r.buf[r.r:min(r.w, r.r+len(versionPrefix))]; string(have) != versionPrefix[:len(have)] {
			return 0, errStatusLine
		}
	}
	if string(r.buf[r.r:r.r+len(versionPrefix)]) != versionPrefix {
		return 0, errStatusLine
	}
	next, err = r.line(0, r.budget)
	if err != nil {
		return 0, err
	}
	l := r.buf[r.r+len(versionPrefix) : r.r+next-2] // "1 200 OK"
	if len(l) < 5 || l[0] != '0' && l[0] != '1' || l[1] != ' ' || len(l) > 5 && l[5] != ' ' || !all(l, valueByte) {
		return 0, errStatusLine
	}
	res.Minor = int(l[0] - '0')
	res.Status = 0
	for _, d := range l[2:5] {
		if d < '0' || d > '9' {
			return 0, errStatusLine
		}
		res.Status = res.Status*10 + int(d-'0')
	}
	if res.Status < 100 || res.Status > 599 {
		return 0, errStatusLine
	}
	return next, nil
}

// fields reads field lines from the offset from up to the empty line, checks them, makes their names canonical in place
// and notes where they stand. It returns the offset behind the empty line.
func (r *Reader) fields(h *head, from, limit, most int) (end int, err error) {
	h.spans = h.spans[:0]
	for {
		var s span
		length, colon := soundField(r.buf[r.r+from : r.w])
		next := from + length + len("\r\n")
		if length > 0 && next <= limit && len(h.spans) < most {
			s = fieldSpan(r.buf[r.r+from:r.r+from+length], colon)
		} else {
			next, err = r.line(from, limit)
			if err != nil {
				return 0, err
			}
			l := r.buf[r.r+from : r.r+next-2]
			if len(l) == 0 {
				return next, nil
			}
			if len(h.spans) == most {
				return 0, errFieldCount
			}
			if s, err = parseField(l); err != nil {
				return 0, err
			}
		}
		h.spans = append(h.spans, span{from, from + s.nameEnd, from + s.value, from + s.valueEnd})
		from = next
	}
}

// parseField checks one line without its CRLF.
func parseField(l []byte) (span, error) {
	if l[0] == ' ' || l[0] == '\t' {
		return span{}, errFold
	}
	colon := canonicalize(l)
	switch {
	case colon == len(l) || l[colon] != ':' && bytes.IndexByte(l, ':') < 0:
		return span{}, errNoColon
	case colon == 0 || l[colon] != ':':
		return span{}, errName
	}
	if valueLength(l[colon+1:]) != len(l)-colon-1 {
		return span{}, errValue
	}
	return fieldSpan(l, colon), nil
}

// fieldSpan is where the name and the value of a sound field line stand.
func fieldSpan(l []byte, colon int) span {
	value, end := colon+1, len(l)
	for value < end && (l[value] == ' ' || l[value] == '\t') {
		value++
	}
	for end > value && (l[end-1] == ' ' || l[end-1] == '\t') {
		end--
	}
	return span{0, colon, value, end}
}

// soundField finds a field line at the beginning of b and returns its length without its CRLF, and its colon; 0 if there is
// none, or not all of it: then line and parseField find out why.
func soundField(b []byte) (length, colon int) {
	colon = canonicalize(b)
	if colon == 0 || colon == len(b) || b[colon] != ':' {
		return 0, 0
	}
	length = colon + 1 + valueLength(b[colon+1:])
	if length+2 > len(b) || b[length] != '\r' || b[length+1] != '\n' {
		return 0, 0
	}
	return length, colon
}

// assemble cuts the fields out of one string, so that a head costs one allocation however many fields it has.
func (h *head) assemble(text string) {
	h.Fields = h.Fields[:0]
	for _, s := range h.spans {
		h.Fields = append(h.Fields, Field{text[s.name:s.nameEnd], text[s.value:s.valueEnd]})
	}
}
