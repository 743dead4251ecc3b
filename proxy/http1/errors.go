package http1

import "errors"

// A SyntaxError is a message that breaks the rules of RFC 9112 or the stricter ones of this package. The connection is
// of no use any more: where its next message begins is not known.
type SyntaxError struct {
	Part   string // "status line", "field", "framing", "chunk", "trailer" or "interim"
	Detail string // what is wrong with it, never bytes of the message

	status int // with which a request is refused; 0: 400
}

func (e *SyntaxError) Error() string { return "http1: " + e.Part + ": " + e.Detail }

// ErrHeadTooBig is a head or trailer of more than [MaxHead] bytes.
var ErrHeadTooBig = errors.New("http1: head is over 256 KiB")

// Errors that need no detail of their own, made once.
var (
	errStatusLine  = &SyntaxError{Part: "status line", Detail: "want HTTP/1.0 or HTTP/1.1, a status of 100 to 599 and a reason of printable text"}
	errBareLF      = &SyntaxError{Part: "field", Detail: "a line ends in LF without CR"}
	errFold        = &SyntaxError{Part: "field", Detail: "a line begins with white space (folding is obsolete)"}
	errNoColon     = &SyntaxError{Part: "field", Detail: "a line without a colon"}
	errName        = &SyntaxError{Part: "field", Detail: "a name is not a token"}
	errValue       = &SyntaxError{Part: "field", Detail: "a value holds a control character"}
	errFieldCount  = &SyntaxError{Part: "field", Detail: "too many of them", status: 431}
	errLength      = &SyntaxError{Part: "framing", Detail: "Content-Length is not a number"}
	errTwoLengths  = &SyntaxError{Part: "framing", Detail: "Content-Length is given more than once"}
	errBothFraming = &SyntaxError{Part: "framing", Detail: "both Content-Length and Transfer-Encoding are given"}
	errCoding      = &SyntaxError{Part: "framing", Detail: "Transfer-Encoding is not a single chunked"}
	errOldCoding   = &SyntaxError{Part: "framing", Detail: "Transfer-Encoding in an HTTP/1.0 message"}
	errInterim     = &SyntaxError{Part: "interim", Detail: "more than 8 answers before the final one"}
	errChunkSize   = &SyntaxError{Part: "chunk", Detail: "a size is not a hexadecimal number"}
	errChunkExt    = &SyntaxError{Part: "chunk", Detail: "an extension is malformed"}
	errChunkLine   = &SyntaxError{Part: "chunk", Detail: "a size line is too long"}
	errChunkEnd    = &SyntaxError{Part: "chunk", Detail: "the data is not followed by CRLF"}
	errChunkWaste  = &SyntaxError{Part: "chunk", Detail: "far more framing than content"}
	errMethod      = &SyntaxError{Part: "request line", Detail: "the method is not a token"}
	errTarget      = &SyntaxError{Part: "request line", Detail: "the target holds white space or a control character"}
	errHost        = &SyntaxError{Part: "field", Detail: "Host holds white space or a control character"}

	errSmallMethod   = &SyntaxError{Part: "request line", Detail: "the method is in small letters", status: 501}
	errLongTarget    = &SyntaxError{Part: "request line", Detail: "it is longer than a whole head may be", status: 414}
	errVersion       = &SyntaxError{Part: "request line", Detail: "want HTTP/1.0 or HTTP/1.1 at its end"}
	errMajor         = &SyntaxError{Part: "request line", Detail: "a major version other than 1", status: 505}
	errTwoHosts      = &SyntaxError{Part: "field", Detail: "Host is given more than once"}
	errNoHost        = &SyntaxError{Part: "field", Detail: "no Host"}
	errExpect        = &SyntaxError{Part: "field", Detail: "Expect is not 100-continue", status: 417}
	errUnknownCoding = &SyntaxError{Part: "framing", Detail: "Transfer-Encoding has a coding beside chunked", status: 501}
)
