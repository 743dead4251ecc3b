package http1

import (
	"bytes"
	"io"
)

// A Request is the head of a request. Its Fields are good until the next Request of the same Reader; the strings in them
// for ever.
type Request struct {
	Method string
	Target string // as it came: origin, absolute, authority or asterisk form (RFC 9112 section 3.2)
	Minor  int    // of the version HTTP/1.Minor: 0 or 1
	head

	// Host is the Host field's value; HasHost says that there is one.
	Host    string
	HasHost bool
	// Length is the bytes of the body that follows: 0 when there is none, -1 when Chunked.
	Length  int64
	Chunked bool
	// Close says that the client wants no further request on the connection.
	Close bool
	// Expect says that the client waits for 100 before it sends the body.
	Expect bool
	// Upgrade says that the client asks for another protocol.
	Upgrade bool
}

// A Limit is what a request's head may cost. Zero means the package's own: [MaxHead], 1000 fields.
type Limit struct {
	Bytes  int // of the whole head
	Fields int
}

// Request reads the next head into req. It returns io.EOF when the connection ended before its first byte,
// io.ErrUnexpectedEOF when it ended within, a [SyntaxError], [ErrHeadTooBig], or the connection's own error.
//
// One empty line before the head is skipped: old clients send it behind a body (RFC 9112 section 2.2).
func (r *Reader) Request(req *Request, limit Limit) error {
	if limit.Bytes == 0 {
		limit.Bytes = MaxHead
	}
	if limit.Fields == 0 {
		limit.Fields = maxFields
	}
	r.body, r.trailer.Fields = bodyNone, r.trailer.Fields[:0]
	if err := r.plausible(); err != nil {
		return err
	}
	next, err := r.line(0, limit.Bytes)
	if err == ErrHeadTooBig {
		return errLongTarget
	}
	if err != nil {
		return err
	}
	method, target, err := requestLine(r.buf[r.r:r.r+next-2], req)
	if err != nil {
		return err
	}
	end, err := r.fields(&req.head, next, limit.Bytes, limit.Fields)
	if err != nil {
		return err
	}
	text := string(r.buf[r.r : r.r+end])
	req.Method, req.Target = text[:method], text[method+1:target]
	req.assemble(text)
	r.r += end
	return r.frameRequest(req)
}

// plausible waits for the first bytes of a request and refuses what cannot begin one, which might never send a line end.
func (r *Reader) plausible() error {
	for skipped := false; ; {
		for r.w == r.r {
			if err := r.fill(MaxHead); err != nil {
				return err
			}
		}
		first := r.buf[r.r]
		if first != '\r' || skipped {
			switch {
			case classes[first]&tokenByte == 0:
				return errMethod
			case first >= 'a' && first <= 'z':
				// No method that anybody uses is in small letters: more likely this is the rest of something. Whether a line
				// end has come yet must not matter, or the answer would be left to the network.
				return errSmallMethod
			}
			return nil
		}
		for r.w-r.r < 2 {
			if err := r.fill(MaxHead); err != nil {
				return unexpected(err)
			}
		}
		if r.buf[r.r+1] != '\n' {
			return errMethod
		}
		r.r += 2
		skipped = true
	}
}

// requestLine checks "method SP target SP HTTP/1.x" and returns where the first two end.
func requestLine(l []byte, req *Request) (method, target int, err error) {
	method = bytes.IndexByte(l, ' ')
	target = bytes.LastIndexByte(l, ' ')
	if method <= 0 || !all(l[:method], tokenByte) {
		return 0, 0, errMethod
	}
	if target <= method+1 || !all(l[method+1:target], targetByte) {
		return 0, 0, errTarget
	}
	version := l[target+1:]
	switch {
	case len(version) != len("HTTP/1.1") || string(version[:5]) != "HTTP/" || version[6] != '.' || !digit(version[5]) || !digit(version[7]):
		return 0, 0, errVersion
	case version[5] != '1':
		return 0, 0, errMajor
	}
	req.Minor = min(int(version[7]-'0'), 1) // a later minor version is understood as ours (RFC 9110 section 2.5)
	return method, target, nil
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// frameRequest decides how the body of req ends (RFC 9112 section 6.3). What two recipients could read in two ways is
// refused, whatever a single one might do about it.
func (r *Reader) frameRequest(req *Request) error {
	req.Host, req.HasHost, req.Chunked, req.Expect, req.Upgrade = "", false, false, false, false
	req.Length = -1
	req.Close = req.Minor == 0
	keep := false
	for i := range req.Fields {
		value := req.Fields[i].Value
		switch req.Fields[i].Name {
		case "Host":
			if req.HasHost {
				return errTwoHosts
			}
			req.Host, req.HasHost = value, true
		case "Content-Length":
			if req.Length >= 0 {
				return errTwoLengths
			}
			if req.Length = parseLength(value); req.Length < 0 {
				return errLength
			}
		case "Transfer-Encoding":
			if req.Chunked {
				return errCoding
			}
			if !equalFold(value, "chunked") {
				return codingError(value)
			}
			req.Chunked = true
		case "Connection":
			req.Close = req.Close || HasToken(value, "close")
			keep = keep || HasToken(value, "keep-alive")
		case "Upgrade":
			req.Upgrade = true
		case "Expect":
			if !equalFold(value, "100-continue") {
				return errExpect
			}
			req.Expect = req.Minor == 1
		}
	}
	switch {
	case req.Chunked && req.Length >= 0:
		return errBothFraming
	case req.Chunked && req.Minor == 0:
		return errOldCoding
	case req.Minor == 1 && !req.HasHost:
		return errNoHost
	}
	if req.Minor == 0 && keep {
		req.Close = false
	}
	r.left, r.excess, r.close = 0, 0, req.Close
	switch {
	case req.Chunked:
		r.body = bodySize
	case req.Length > 0:
		r.body, r.left = bodyFixed, req.Length
	default:
		req.Length = 0
	}
	req.Expect = req.Expect && r.body != bodyNone
	return nil
}

// codingError tells codings that we do not have, ended by chunked as they must be, from nonsense.
func codingError(list string) error {
	chunked, known := false, true
	for rest := list; rest != ""; {
		var item string
		item, rest = NextToken(rest)
		if !ValidToken(item) || chunked {
			known = false
		}
		chunked = equalFold(item, "chunked")
	}
	if known && chunked && list != "" {
		return errUnknownCoding
	}
	return errCoding
}

// Status is the status with which a request is refused because of an error of [Reader.Request] or of [Reader.Body]; 0 for
// one that is not about the request: the connection has ended.
func Status(err error) int {
	if err == ErrHeadTooBig {
		return 431
	}
	if e, ok := err.(*SyntaxError); ok {
		if e.status != 0 {
			return e.status
		}
		return 400
	}
	return 0
}

// Skip reads and forgets the body until its end, or limit bytes of it, and reports whether that was the end.
func (r *Reader) Skip(limit int64) (bool, error) {
	for r.body != bodyNone {
		piece, err := r.Body()
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		if limit -= int64(len(piece)); limit < 0 {
			return false, nil
		}
	}
	return true, nil
}
