package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// holding reads the bodies of requests as a buffering front does: those of paths that begin with /held are in memory.
func holding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/held") {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = &replay{Reader: strings.NewReader(string(text)), held: text}
		}
		next.ServeHTTP(w, r)
	})
}

// pattern is a body in which no two places look alike.
func pattern(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(strconv.Itoa(b.Len()) + ",")
	}
	return b.String()[:size]
}

func TestABodyThatIsHereArrivesWhole(t *testing.T) {
	config, _ := identity(t)
	script := func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			text, _ := io.ReadAll(r.Body)
			if want := pattern(int(r.ContentLength)); string(text) == want {
				s.send(ok2)
			} else {
				s.send("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
			}
		}
	}
	clear := New(poolOf(t, endpoint(t, script)), Options{})
	secure := New(poolOf(t, secured(t, config, script)), Options{Protocol: HTTPS})
	for name, last := range map[string]http.Handler{"clear": clear, "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			bothVersions(t, func(t *testing.T, version int) {
				f := front(t, version, holding(last))
				for _, size := range []int{1, maxSmall, maxSmall + 1, 16 << 10, maxTogether - 100, maxTogether, maxTogether + 1} {
					for range 2 {
						if got := f.do(t, f.request(t, "POST", "/held", strings.NewReader(pattern(size)))); got.text != "ok" {
							t.Errorf("%d bytes: status %d, want what was sent to arrive", size, got.StatusCode)
						}
					}
				}
			})
		})
	}
}

// narrow is an endpoint whose socket takes little before it is read.
func narrow(t *testing.T, script func(*session)) netip.AddrPort {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2<<10) })
		if err != nil {
			return err
		}
		return set
	}}
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return endpointOn(t, l, script)
}

// TestABodyThatIsHereAndDoesNotFit sends one over a connection that takes only some of it at once.
func TestABodyThatIsHereAndDoesNotFit(t *testing.T) {
	reads := func(s *session) {
		r := s.request()
		if text, _ := io.ReadAll(r.Body); string(text) == pattern(int(r.ContentLength)) {
			s.send(ok2)
		}
	}
	refuses := func(s *session) {
		s.head()
		s.send("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
		<-s.done
	}
	resets := func(s *session) {
		s.head()
		s.reset()
	}
	for _, c := range []struct {
		name     string
		path     string
		size     int
		script   func(*session)
		status   int
		attempts int
		kept     int
	}{
		{"the rest is sent", "/held", maxTogether, reads, 200, 1, 1},
		{"the rest of a small one too", "/", maxSmall, reads, 200, 1, 1},
		{"an early answer is not held up", "/held", maxTogether, refuses, 413, 1, 0},
		{"nor with a small one", "/", maxSmall, refuses, 413, 1, 0},
		{"it is sent again", "/held", maxTogether, resets, 200, 2, 1},
		{"a small one too", "/", maxSmall, resets, 200, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := poolOf(t, narrow(t, func(s *session) {
				if s.number > 1 {
					reads(s)
					return
				}
				s.request()
				s.send(ok2)
				c.script(s)
				s.hang()
			}))
			f := front(t, 1, holding(New(pool, Options{})))
			f.get(t, "/")
			f.exchange(t)
			idle := kept(pool.members()[0])
			if len(idle) != 1 {
				t.Fatalf("%d connections are idle, want 1", len(idle))
			}
			idle[0].tcp.SetWriteBuffer(1)
			got, e := f.do(t, f.request(t, "PUT", c.path, strings.NewReader(pattern(c.size)))), f.exchange(t)
			if got.StatusCode != c.status || len(e.Attempts) != c.attempts {
				t.Errorf("status %d after %d attempts, reason %q; want %d after %d", got.StatusCode, len(e.Attempts), e.Reason, c.status, c.attempts)
			}
			if n := len(kept(pool.members()[0])); n != c.kept {
				t.Errorf("%d connections are kept, want %d", n, c.kept)
			}
		})
	}
}
