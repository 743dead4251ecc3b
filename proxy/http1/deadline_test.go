package http1

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// TestNothingIsWrittenBehindADeadline: an answer to a request without a body goes to the socket without the runtime, which
// would have known of a deadline that has passed, or that the server was closed.
func TestNothingIsWrittenBehindADeadline(t *testing.T) {
	for name, end := range map[string]func(s *Server, w http.ResponseWriter){
		"a deadline of the handler's": func(_ *Server, w http.ResponseWriter) {
			http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		},
		"a server that is closed": func(s *Server, _ http.ResponseWriter) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			s := &Server{}
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/end" {
					end(s, w)
				}
				io.WriteString(w, "answer")
				failed <- http.NewResponseController(w).Flush()
			})
			c := dial(t, serve(t, s))
			io.WriteString(c, simple)
			c.hear(t, "answer")
			if err := <-failed; err != nil {
				t.Fatalf("before: %v", err)
			}
			io.WriteString(c, "GET /end HTTP/1.1\r\nHost: a\r\n\r\n")
			if b, err := io.ReadAll(c.in); len(b) > 0 {
				t.Errorf("read %q, %v; want nothing", b, err)
			}
			if err := <-failed; err == nil {
				t.Error("the handler was not told")
			}
		})
	}
}
