package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBodyThatNobodyReadsIsGivenUp announces a body, sends a part of it, and is answered by a handler that wants none of
// it: net/http would wait for the rest before it writes the answer, for as long as the client likes.
func TestBodyThatNobodyReadsIsGivenUp(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a page":         func(w http.ResponseWriter, r *http.Request) { Fail(w, r, http.StatusNotFound, NoRoute) },
		"a long page":    func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 10000)) },
		"a flushed page": func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush() },
		"nothing":        func(w http.ResponseWriter, r *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, _ := front(t, &Server{BodyTimeout: 100 * time.Millisecond}, handler)
			c, err := net.Dial("tcp", plain)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhel")
			reader := bufio.NewReader(c)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(answer.Body); err != nil {
				t.Errorf("%s, %v; want a whole answer", answer.Status, err)
			}
			if _, err := reader.ReadByte(); err != io.EOF {
				t.Errorf("after the answer: %v, want the connection closed", err)
			}
		})
	}
}
