package proxy

import (
	"io"
	"net/http"
	"strings"
)

// Linger makes an HTTP/1 client's connection end after this answer in a way that lets the client read it, though it is
// still sending: the server closes its side and waits a moment before it closes the whole. Closed at once with bytes
// unread, the connection would be reset, and the reset would often overtake the answer.
//
// net/http does so by itself for some ways of leaving a body unread, but not for a chunked one, and asked to keep such a
// connection after [http.ResponseController.EnableFullDuplex] it panics (it reads the rest of the body when it has
// already stopped watching for the client, which makes it watch again). The one door to its lingering close is the
// limit on bodies, so a limit is overstepped here.
func Linger(w http.ResponseWriter) {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap()
	}
	var b [1]byte
	http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0).Read(b[:])
}
