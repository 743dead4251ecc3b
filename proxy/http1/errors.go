package http1

import "errors"

// A SyntaxError is a message that breaks the rules of RFC 9112 or the stricter ones of this package. The connection is
// of no use any more: where its next message begins is not known.
type SyntaxError struct {
	Part   string // "status line", "field", "framing", "chunk", "trailer" or "interim"
	Detail string // what is wrong with it, never bytes of the message
}

func (e *SyntaxError) Error() string { return "http1: " + e.Part + ": " + e.Detail }

// ErrHeadTooBig is a head or trailer of more than [MaxHead] bytes.
var ErrHeadTooBig = errors.New("http1: head is over 256 KiB")

// Errors that need no detail of their own, made once.
var (
	errStatusLine  = &SyntaxError{"status line", "want HTTP/1.0 or HTTP/1.1, a status of 100 to 599 and a reason of printable text"}
	errBareLF      = &SyntaxError{"field", "a line ends in LF without CR"}
	errFold        = &SyntaxError{"field", "a line begins with white space (folding is obsolete)"}
	errNoColon     = &SyntaxError{"field", "a line without a colon"}
	errName        = &SyntaxError{"field", "a name is not a token"}
	errValue       = &SyntaxError{"field", "a value holds a control character"}
	errFieldCount  = &SyntaxError{"field", "more than 1000 of them"}
	errLength      = &SyntaxError{"framing", "Content-Length is not a number"}
	errTwoLengths  = &SyntaxError{"framing", "Content-Length is given more than once"}
	errBothFraming = &SyntaxError{"framing", "both Content-Length and Transfer-Encoding are given"}
	errCoding      = &SyntaxError{"framing", "Transfer-Encoding is not a single chunked"}
	errOldCoding   = &SyntaxError{"framing", "Transfer-Encoding in an HTTP/1.0 message"}
	errInterim     = &SyntaxError{"interim", "more than 8 answers before the final one"}
	errChunkSize   = &SyntaxError{"chunk", "a size is not a hexadecimal number"}
	errChunkExt    = &SyntaxError{"chunk", "an extension is malformed"}
	errChunkLine   = &SyntaxError{"chunk", "a size line is too long"}
	errChunkEnd    = &SyntaxError{"chunk", "the data is not followed by CRLF"}
	errChunkWaste  = &SyntaxError{"chunk", "far more framing than content"}
	errMethod      = &SyntaxError{"request line", "the method is not a token"}
	errTarget      = &SyntaxError{"request line", "the target holds white space or a control character"}
	errHost        = &SyntaxError{"field", "Host holds white space or a control character"}
)
