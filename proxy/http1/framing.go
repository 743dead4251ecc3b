package http1

// bodyMode is how the end of a body is found.
type bodyMode uint8

const (
	bodyNone       bodyMode = iota // there is none, or it has been read
	bodyFixed                      // left bytes
	bodyUntilClose                 // the connection's end
	bodySize                       // chunked: a size line comes next
	bodyChunk                      // chunked: left bytes of a chunk, then CRLF
	bodyChunkEnd                   // chunked: the CRLF after a chunk
	bodyTrailer                    // chunked: the trailer
)

// frame decides how the body of res ends, by RFC 9112 section 6.3, and refuses what two recipients could read in two
// ways even where the status allows no body at all.
func (r *Reader) frame(res *Response) error {
	length, coded := int64(-1), false
	res.Close = res.Minor == 0
	for i := range res.Fields {
		value := res.Fields[i].Value
		switch res.Fields[i].Name {
		case "Content-Length":
			if length >= 0 {
				return errTwoLengths
			}
			if length = parseLength(value); length < 0 {
				return errLength
			}
		case "Transfer-Encoding":
			if coded || !equalFold(value, "chunked") {
				return errCoding
			}
			coded = true
		case "Connection":
			res.Close = res.Close || HasToken(value, "close")
		}
	}
	switch {
	case coded && length >= 0:
		return errBothFraming
	case coded && res.Minor == 0:
		return errOldCoding
	}
	r.choose(res, length, coded)
	r.close = res.Close
	return nil
}

func (r *Reader) choose(res *Response, length int64, coded bool) {
	res.Chunked, res.Length = false, 0
	r.body, r.left, r.excess = bodyNone, 0, 0
	switch {
	case res.Status < 200 || res.Status == 204:
		// Neither may say how long its body is (RFC 9110 section 8.6). One that does may well send it too.
		res.Close = res.Close || coded || length > 0
	case r.bodiless || res.Status == 304:
		// Fields describe the body that a GET would have had; none follows.
	case coded:
		res.Chunked, res.Length = true, -1
		r.body = bodySize
	case length > 0:
		res.Length = length
		r.body, r.left = bodyFixed, length
	case length < 0:
		res.Length, res.Close = -1, true
		r.body = bodyUntilClose
	}
}

// parseLength reads digits and nothing else; -1 for anything that is not such a number or does not fit.
func parseLength(s string) int64 {
	if s == "" || len(s) > 18 {
		return -1
	}
	n := int64(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n
}
