package http1

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestReadersThatTakeNothingAreReset: an ordinary close would leave what was written with the kernel, and the client in the
// belief that its connection stands.
func TestReadersThatTakeNothingAreReset(t *testing.T) {
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})}
	s.SetPatience(Patience{Gap: 200 * time.Millisecond})
	c := dial(t, serve(t, s))
	io.WriteString(c, simple)
	s.open(t, 1)
	s.open(t, 0)
	if n, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes, %v; want a reset", n, err)
	}
}
