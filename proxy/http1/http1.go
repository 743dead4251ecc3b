// Package http1 is HTTP/1.1 on the wire (RFC 9112): one strict reading of heads, body framing and trailers.
//
// It has the client's side: what a proxy needs to talk to an endpoint over a connection that it owns. A request head is
// appended to a buffer, and a [Reader] reads what comes back:
//
//	b, err := http1.AppendRequestLine(nil, "GET", "/x?y", "a.test")
//	b = http1.AppendField(b, "Accept", "*/*")
//	b = http1.AppendEnd(b)
//	conn.Write(b)
//
//	var res http1.Response
//	r.Reset(conn)
//	r.Begin("GET")
//	for err = r.Head(&res); err == nil && res.Interim(); {
//		err = r.Head(&res)
//	}
//	for err == nil {
//		piece, err = r.Body() // io.EOF at the end
//	}
//
// The order is: Reset once a connection, Begin once a request, Head until the answer is a final one, Body until io.EOF,
// then Trailer and Reusable. Nothing is safe for concurrent use.
//
// Strict means: where RFC 9112 lets a recipient repair a message, this package refuses it. Lines end in CRLF, fields are
// not folded, a name is a token right before its colon, a value holds no control character, a message has one framing:
// one Content-Length of digits only, or one Transfer-Encoding that is "chunked", never both. Two recipients that repair
// differently disagree about where a message ends, and somebody gets somebody else's answer. Whatever this package
// accepts, net/http reads alike; a fuzz test holds that.
//
// It does not connect, set deadlines, decode content, follow redirects or decide which fields may be forwarded.
package http1

// Limits of what a peer may make us hold.
const (
	MaxHead    = 256 << 10 // bytes of all heads of one answer, its interim ones included, and again of its trailer
	MaxInterim = 8         // interim answers before a final one
	maxFields  = 1000      // fields in one head or trailer
	maxLine    = 4 << 10   // bytes of the line before a chunk
	maxExcess  = 16 << 10  // bytes of framing that a chunked body may have beyond twice its content
)

// A Field is one field line of a head or trailer: its name in canonical form ("Content-Type") and its value without the
// space around it.
type Field struct{ Name, Value string }
