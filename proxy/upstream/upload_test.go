package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/proxy"
)

// B30
func TestEarlyAnswerReachesAClientThatIsUploading(t *testing.T) {
	const size = 5 << 20
	for name, body := range map[string]func() io.Reader{
		"length":  func() io.Reader { return bytes.NewReader(make([]byte, size)) },
		"chunked": func() io.Reader { return io.MultiReader(bytes.NewReader(make([]byte, size))) },
	} {
		t.Run(name, func(t *testing.T) {
			bothVersions(t, func(t *testing.T, version int) {
				f := front(t, version, New(poolOf(t, endpoint(t, func(s *session) {
					s.head()
					s.send("HTTP/1.1 413 Too Big\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
					s.hang()
				})), Options{}))
				got, e := f.do(t, f.request(t, "POST", "/", body())), f.exchange(t)
				if got.StatusCode != 413 || got.text != "big" || e.Reason != "" {
					t.Errorf("status %d, %q, reason %q; want the endpoint's 413", got.StatusCode, got.text, e.Reason)
				}
			})
		})
	}
}

func TestBothDirectionsStreamAtOnce(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		f := front(t, version, New(poolOf(t, endpoint(t, func(s *session) {
			r := s.request()
			s.send("HTTP/1.1 200 OK\r\n\r\n")
			io.Copy(s.Conn, r.Body) // an echo
		})), Options{}))
		in, out := io.Pipe()
		res, err := f.client.Do(f.request(t, "POST", "/", in))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for _, word := range []string{"one", "two", "three"} {
			io.WriteString(out, word)
			got := make([]byte, len(word))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
				t.Fatalf("got %q, %v; want %q", got, err, word)
			}
		}
		out.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
			t.Errorf("then %q, %v; want the end", rest, err)
		}
	})
}

func TestLargeUploadArrivesWhole(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		got := make(chan []byte, 2)
		f := front(t, version, New(poolOf(t, endpoint(t, func(s *session) {
			for r := s.request(); r != nil; r = s.request() {
				b, _ := io.ReadAll(r.Body)
				got <- b
				s.send(ok2)
			}
		})), Options{}))
		for _, body := range []io.Reader{bytes.NewReader(want), io.MultiReader(bytes.NewReader(want))} {
			f.do(t, f.request(t, "PUT", "/", body))
			if b := <-got; !bytes.Equal(b, want) {
				t.Errorf("the endpoint got %d bytes, want the %d sent", len(b), len(want))
			}
		}
	})
}

func TestTimeToAnswerBeginsWhenTheUploadIsOver(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, answers(ok2))), quick))
	in, out := io.Pipe()
	go func() {
		for range 6 { // 300 ms in all, while an answer may take 200
			io.WriteString(out, "x")
			<-time.After(50 * time.Millisecond)
		}
		out.Close()
	}()
	if got, e := f.do(t, f.request(t, "POST", "/", in)), f.exchange(t); got.StatusCode != 200 {
		t.Errorf("status %d, reason %q; want 200", got.StatusCode, e.Reason)
	}
}

func TestEndpointThatStopsReadingIs504(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		s.head()
		<-s.done
	})), quick))
	r := f.request(t, "POST", "/", io.LimitReader(zeros{}, 64<<20))
	if got, e := f.do(t, r), f.exchange(t); got.StatusCode != 504 || e.Reason != proxy.SendTimeout {
		t.Errorf("status %d, reason %q; want 504, send_timeout", got.StatusCode, e.Reason)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A fault of the client's body is the client's, whatever the endpoint does meanwhile.
func TestFaultsOfTheRequestBodyAreTheClients(t *testing.T) {
	for _, c := range []struct {
		name, request string
		leave         bool
		status        int
		reason        proxy.Reason
	}{
		{"bad chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0x5\r\n", false, 400, proxy.BadBody},
		{"leaves within chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", true, 499, proxy.ClientClosed},
		{"leaves within a large body", "Content-Length: 100000\r\n\r\nhel", true, 499, proxy.ClientClosed},
		{"leaves within a small body", "Content-Length: 10\r\n\r\nhel", true, 499, proxy.ClientClosed},
		{"stalls in a large body", "Content-Length: 100000\r\n\r\nhel", false, 408, proxy.BodyTimeout},
		{"stalls in a small body", "Content-Length: 10\r\n\r\nhel", false, 408, proxy.BodyTimeout},
		{"too large", "Transfer-Encoding: chunked\r\n\r\n20\r\n01234567890123456789012345678901\r\n0\r\n\r\n", false, 413, proxy.BodyTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			last := New(poolOf(t, endpoint(t, stall(""))), Options{})
			f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.reason == proxy.BodyTimeout {
					http.NewResponseController(w).SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				}
				r.Body = http.MaxBytesReader(nil, r.Body, 100000)
				if c.reason == proxy.BodyTooLarge {
					r.Body = http.MaxBytesReader(nil, r.Body, 10)
				}
				last.ServeHTTP(w, r)
			}))
			conn, in := f.raw(t, "POST / HTTP/1.1\r\nHost: a\r\n"+c.request)
			if c.leave {
				conn.CloseWrite()
			}
			e := f.exchange(t)
			if e.Reason != c.reason || len(e.Attempts) > 0 && e.Attempts[0].Reason != c.reason {
				t.Errorf("reason %q, attempts %+v; want %q", e.Reason, e.Attempts, c.reason)
			}
			if res, err := http.ReadResponse(in, nil); !c.leave && (err != nil || res.StatusCode != c.status) {
				t.Errorf("answer %v, %v; want %d", res, err, c.status)
			}
		})
	}
}

// expecting sends a request that waits for 100 and returns the first line of the answer.
func expecting(t *testing.T, f *frontdoor) (io.Writer, *bufio.Reader, string) {
	t.Helper()
	c, in := f.raw(t, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, in, line
}

func TestContinueIsTheEndpointsToSay(t *testing.T) {
	said := make(chan bool, 1)
	f := front(t, 1, New(poolOf(t, endpoint(t, func(s *session) {
		if head := s.head(); !strings.Contains(head, "\r\nExpect: 100-continue\r\n") {
			s.send("HTTP/1.1 500 no Expect\r\nContent-Length: 0\r\n\r\n")
			return
		}
		said <- true
		s.send("HTTP/1.1 100 Continue\r\n\r\n")
		b := make([]byte, 4)
		io.ReadFull(s.in, b)
		s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + string(b))
	})), Options{}))
	c, in, line := expecting(t, f)
	if line != "HTTP/1.1 100 Continue\r\n" || len(said) != 1 {
		t.Fatalf("first line %q, endpoint asked %d times; want 100 after the endpoint's", line, len(said))
	}
	in.ReadString('\n')
	io.WriteString(c, "body")
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "body" {
		t.Errorf("got %q, %v; want the body back", b, err)
	}
}

func TestRefusalStopsAnUploadThatWaits(t *testing.T) {
	pool := poolOf(t, endpoint(t, stall("HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n")))
	f := front(t, 1, New(pool, Options{}))
	_, _, line := expecting(t, f)
	f.exchange(t)
	if line != "HTTP/1.1 401 Unauthorized\r\n" {
		t.Errorf("first line %q, want the endpoint's 401", line)
	}
	if len(kept(pool.members()[0])) != 0 {
		t.Error("the connection is kept, though the endpoint may still take the next request for the body")
	}
}

func TestEndpointThatIgnoresExpectGetsTheBodyInTime(t *testing.T) {
	f := front(t, 1, New(poolOf(t, endpoint(t, answers(ok2))), quick))
	c, in, line := expecting(t, f)
	if line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("first line %q, want 100", line)
	}
	in.ReadString('\n')
	io.WriteString(c, "body")
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 200 {
		t.Errorf("answer %v, %v; want 200", res, err)
	}
}

// TestUploadsThatAreWholeEndNoConnection: an endpoint that has the last bytes answers at once, often before the goroutine that
// has written them can say so.
func TestUploadsThatAreWholeEndNoConnection(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	f := front(t, 1, New(poolOf(t, endpoint(t, answers(ok2))), Options{}))
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			body := "1\r\na\r\n0\r\n\r\n"
			head := "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
			if i%2 == 0 {
				body = strings.Repeat("a", maxSmall+1)
				head = fmt.Sprintf("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n", len(body))
			}
			c, in := f.raw(t, "")
			for n := range 300 {
				io.WriteString(c, head+body)
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.Close {
					t.Errorf("answer %d: %v, %v; want one that is not the last", n, res, err)
					return
				}
				io.Copy(io.Discard, res.Body)
			}
		})
	}
	clients.Wait()
}
