package feature

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

var bodyFeatures = []func(*Annotations, *Draft){bodySize, requestBuffering}

// measure answers with how the body came and how long it was.
var measure = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "announced %d, got %d", r.ContentLength, n)
})

// unsized hides how long a body is, so that it is sent in chunks.
func unsized(n int) io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", n))) }

func sized(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }

func TestBodiesOverTheLimitAreRefused(t *testing.T) {
	for _, c := range []struct {
		limit string
		size  int
		want  int
	}{
		{"", 1 << 20, 200}, {"", 1<<20 + 1, 413},
		{"1k", 1024, 200}, {"1k", 1025, 413}, {"1k", 100_000, 413}, {"1k", 0, 200},
		{"0", 3 << 20, 200}, {"2m", 2 << 20, 200}, {"3", 4, 413}, {"3", 3, 200},
		{"ten", 1 << 20, 200}, {"ten", 1<<20 + 1, 413},
	} {
		for _, buffering := range []string{"on", "off"} {
			annotations := map[string]string{"proxy-request-buffering": buffering}
			if c.limit != "" {
				annotations["proxy-body-size"] = c.limit
			}
			p := (&passage{annotations: annotations, features: bodyFeatures, endpoints: []http.Handler{measure}}).open(t)
			for _, scheme := range []string{"http", "https"} {
				for how, body := range map[string]func(int) io.Reader{"sized": sized, "unsized": unsized} {
					answer, text := p.do(t, request(t, "POST", scheme+"://h.test/", body(c.size)))
					e := p.became(t)
					claim := fmt.Sprintf("limit %q, buffering %s, %s, %d bytes %s", c.limit, buffering, scheme, c.size, how)
					if answer.StatusCode != c.want {
						t.Errorf("%s: %s %s, want %d", claim, answer.Status, text, c.want)
						continue
					}
					if c.want == 200 {
						if !strings.HasSuffix(text, fmt.Sprintf("got %d", c.size)) {
							t.Errorf("%s: the endpoint says %q", claim, text)
						}
						continue
					}
					if e.Reason != proxy.BodyTooLarge {
						t.Errorf("%s: reason %q, want %q", claim, e.Reason, proxy.BodyTooLarge)
					}
					if n := len(e.Attempts); n > 0 && (how == "sized" || buffering == "on") {
						t.Errorf("%s: %d endpoints were asked", claim, n)
					}
				}
			}
		}
	}
}

func TestABodyTooLargeIsRefusedBeforeCredentialsAreAskedFor(t *testing.T) {
	guarded := func(_ *Annotations, d *Draft) {
		d.Guard(func(*http.Request) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxy.Fail(w, r, 401, proxy.Unauthenticated) })
		})
	}
	p := (&passage{
		annotations: map[string]string{"proxy-body-size": "1k"}, endpoints: []http.Handler{measure},
		features: []func(*Annotations, *Draft){bodySize, guarded, requestBuffering},
	}).open(t)
	for size, want := range map[int]int{2000: 413, 1000: 401} {
		if answer, _ := p.do(t, request(t, "POST", "http://h.test/", sized(size))); answer.StatusCode != want {
			t.Errorf("%d bytes: %s, want %d", size, answer.Status, want)
		}
	}
}

func TestABodyTooLargeIsNotAskedFor(t *testing.T) {
	p := (&passage{annotations: map[string]string{"proxy-body-size": "1k"}, features: bodyFeatures, endpoints: []http.Handler{measure}}).open(t)
	c, reader := p.dial(t)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: h.test\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n")
	answer, err := http.ReadResponse(reader, nil)
	if err != nil || answer.StatusCode != 413 {
		t.Errorf("%v, %v; want 413 at once", answer, err)
	}
}

// TestAClientThatGoesOnSendingReadsThatItsBodyIsTooLarge sends all of a body before it reads: a connection closed at once
// would be reset under it.
func TestAClientThatGoesOnSendingReadsThatItsBodyIsTooLarge(t *testing.T) {
	p := (&passage{features: bodyFeatures, endpoints: []http.Handler{measure}}).open(t)
	for how, head := range map[string]string{"sized": "Content-Length: 3000000\r\n\r\n", "unsized": "Transfer-Encoding: chunked\r\n\r\n2dc6c0\r\n"} {
		c, reader := p.dial(t)
		go func() {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: h.test\r\n"+head)
			io.Copy(c, sized(3_000_000))
		}()
		answer, err := http.ReadResponse(reader, nil)
		if err != nil || answer.StatusCode != 413 {
			t.Errorf("%s: %v, %v; want 413", how, answer, err)
			continue
		}
		if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "body_too_large") {
			t.Errorf("%s: %q, %v; want the whole answer", how, text, err)
		}
		if !answer.Close {
			t.Errorf("%s: the connection is to go on, in the middle of a body", how)
		}
	}
}

// TestBodiesArriveAsTheyWere sends bodies around the sizes at which they go to the file, and looks for files that have a
// name while they are in use.
func TestBodiesArriveAsTheyWere(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	content := make([]byte, 300_000)
	rand.Read(content)
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if named, err := os.ReadDir(folder); len(named) > 0 || err != nil {
			t.Errorf("files with a name: %v, %v", named, err)
		}
		w.Header().Set("X-Announced", fmt.Sprint(r.ContentLength))
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	})
	for _, memory := range []string{"", "0", "1", "1k", "16k", "128k", "4g"} {
		annotations := map[string]string{}
		if memory != "" {
			annotations["client-body-buffer-size"] = memory
		}
		p := (&passage{annotations: annotations, features: bodyFeatures, endpoints: []http.Handler{echo}}).open(t)
		for _, size := range []int{0, 1, 2, 1023, 1024, 1025, 8191, 8192, 8193, 16384, 16385, 131072, 300_000} {
			for _, scheme := range []string{"http", "https"} {
				for how, body := range map[string]io.Reader{"sized": bytes.NewReader(content[:size]), "unsized": io.MultiReader(bytes.NewReader(content[:size]))} {
					answer, text := p.do(t, request(t, "PUT", scheme+"://h.test/", body))
					if answer.StatusCode != 200 || text != string(content[:size]) || answer.Header.Get("X-Announced") != fmt.Sprint(size) {
						t.Errorf("memory %q, %d bytes %s over %s: %s, %d bytes, announced as %s", memory, size, how, scheme, answer.Status, len(text), answer.Header.Get("X-Announced"))
					}
				}
			}
		}
	}
}

// TestTheEndpointIsAskedWhenTheBodyIsWhole sends half a body, has another client served, then sends the rest.
func TestTheEndpointIsAskedWhenTheBodyIsWhole(t *testing.T) {
	for buffering, want := range map[string]string{"on": "/second /first", "off": "/first /second"} {
		asked := make(chan string, 2)
		p := (&passage{
			annotations: map[string]string{"proxy-request-buffering": buffering}, features: bodyFeatures,
			endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.URL.Path
				io.Copy(io.Discard, r.Body)
			})},
		}).open(t)
		c, reader := p.dial(t)
		io.WriteString(c, "POST /first HTTP/1.1\r\nHost: h.test\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 10000))
		var order []string
		if buffering == "off" {
			order = append(order, <-asked)
		}
		p.get(t, "/second")
		order = append(order, <-asked)
		io.WriteString(c, strings.Repeat("x", 10000))
		if answer, err := http.ReadResponse(reader, nil); err != nil || answer.StatusCode != 200 {
			t.Errorf("buffering %s: %v, %v", buffering, answer, err)
		}
		if buffering == "on" {
			order = append(order, <-asked)
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("buffering %s: asked in the order %s, want %s", buffering, got, want)
		}
	}
}

func TestBodiesThatNeverComeWholeReachNobody(t *testing.T) {
	for _, c := range []struct {
		claim, request string
		leaves         bool
		status         int
		reason         proxy.Reason
	}{
		{"a client that leaves", "Content-Length: 20000\r\n\r\nhalf", true, 499, proxy.ClientClosed},
		{"one that leaves between chunks", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", true, 499, proxy.ClientClosed},
		{"one that says no more", "Content-Length: 20000\r\n\r\nhalf", false, 408, proxy.BodyTimeout},
		{"one that breaks the framing", "Transfer-Encoding: chunked\r\n\r\nfour\r\nhalf\r\n", false, 400, proxy.BadBody},
	} {
		p := (&passage{features: bodyFeatures, endpoints: []http.Handler{measure}, bodyTimeout: 200 * time.Millisecond}).open(t)
		connection, reader := p.dial(t)
		io.WriteString(connection, "POST / HTTP/1.1\r\nHost: h.test\r\n"+c.request)
		if c.leaves {
			connection.Close()
		} else if answer, err := http.ReadResponse(reader, nil); err != nil || answer.StatusCode != c.status {
			t.Errorf("%s: %v, %v; want %d", c.claim, answer, err, c.status)
		}
		if e := p.became(t); e.Status != c.status || e.Reason != c.reason || len(e.Attempts) != 0 {
			t.Errorf("%s: status %d, reason %q, %d endpoints asked; want %d, %q and none", c.claim, e.Status, e.Reason, len(e.Attempts), c.status, c.reason)
		}
	}
}

func TestABufferedBodyIsAskedForOnce(t *testing.T) {
	p := (&passage{features: bodyFeatures, endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%v%s", r.Header["Expect"], body)
	})}}).open(t)
	c, reader := p.dial(t)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: h.test\r\nContent-Length: 10000\r\nExpect: 100-continue\r\n\r\n")
	if line, err := reader.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v; want 100", line, err)
	}
	reader.ReadString('\n')
	io.WriteString(c, strings.Repeat("x", 10000))
	answer, err := http.ReadResponse(reader, nil)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%v, %v; want 200 next", answer, err)
	}
	if text, _ := io.ReadAll(answer.Body); string(text) != "[]"+strings.Repeat("x", 10000) {
		t.Errorf("the endpoint saw %.20s..., %d bytes", text, len(text))
	}
}

func TestFieldsBehindABufferedBodyArrive(t *testing.T) {
	p := (&passage{features: bodyFeatures, endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-Sum"))
	})}}).open(t)
	for _, scheme := range []string{"http", "https"} {
		r := request(t, "POST", scheme+"://h.test/", unsized(3))
		r.Trailer = http.Header{"X-Sum": {"42"}}
		if answer, text := p.do(t, r); text != "xxx 42" {
			t.Errorf("%s: %s %q, want the field behind the body", scheme, answer.Status, text)
		}
	}
}

// TestABufferedBodyIsSentAgain has the first endpoint read everything and break the connection.
func TestABufferedBodyIsSentAgain(t *testing.T) {
	content := strings.Repeat("0123456789", 5000)
	broken := make(chan struct{}, 1)
	endpoint := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case broken <- struct{}{}:
			panic(http.ErrAbortHandler)
		default:
			w.Write(body)
		}
	})
	p := (&passage{features: bodyFeatures, endpoints: []http.Handler{endpoint, endpoint}}).open(t)
	answer, text := p.do(t, request(t, "PUT", "http://h.test/", strings.NewReader(content)))
	if e := p.became(t); answer.StatusCode != 200 || text != content || len(e.Attempts) != 2 {
		t.Errorf("%s, %d bytes after %d tries; want 200, %d bytes after 2", answer.Status, len(text), len(e.Attempts), len(content))
	}
}

func TestABodyThatCannotBeKeptIsNoFaultOfTheClient(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere/at/all")
	p := (&passage{features: bodyFeatures, endpoints: []http.Handler{measure}}).open(t)
	for size, want := range map[int]int{8192: 200, 8193: 500} {
		answer, _ := p.do(t, request(t, "POST", "http://h.test/", sized(size)))
		e := p.became(t)
		if answer.StatusCode != want || want == 500 && (e.Reason != proxy.BufferFailed || len(e.Attempts) != 0) {
			t.Errorf("%d bytes: %s, reason %q, %d endpoints asked; want %d", size, answer.Status, e.Reason, len(e.Attempts), want)
		}
	}
}

func TestStreamsOfGRPCAreNotBuffered(t *testing.T) {
	for protocol, want := range map[string]bool{"HTTP": true, "HTTPS": true, "grpc": false, "GRPCS": false} {
		// The protocol is read later than the buffering, which must know it all the same.
		p := passage{annotations: map[string]string{"backend-protocol": protocol}, features: []func(*Annotations, *Draft){requestBuffering, backendProtocol}}
		buffered := false
		last := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, buffered = r.Body.(upstream.Rewinder) })
		p.drafted().Handler(Place{}, last).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", sized(10)))
		if buffered != want {
			t.Errorf("%s: buffered %v, want %v", protocol, buffered, want)
		}
	}
}

func TestASmallBodyCostsNoAllocation(t *testing.T) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, handler := range map[string]http.Handler{"buffering": &bodyBuffer{next, 8 << 10}, "limit": &bodyLimit{next, 1 << 20}} {
		for size, body := range map[int]*bytes.Reader{0: nil, 8000: bytes.NewReader(make([]byte, 8000))} {
			r := httptest.NewRequest("POST", "/", nil)
			var closer io.ReadCloser = http.NoBody
			if body != nil {
				closer = io.NopCloser(body)
			}
			if n := testing.AllocsPerRun(1000, func() {
				if r.Body, r.ContentLength = closer, int64(size); body != nil {
					body.Seek(0, io.SeekStart)
				}
				handler.ServeHTTP(nil, r)
			}); n != 0 {
				t.Errorf("%s allocates %v times for %d bytes", name, n, size)
			}
		}
	}
}

func TestAHeldBodyReadsAsAnyReader(t *testing.T) {
	content := make([]byte, 5000)
	rand.Read(content)
	for _, memory := range []int{0, 1, 4999, 5000, 5001} {
		for _, size := range []int{0, 1, 5000} {
			b := heldBodies.Get().(*heldBody)
			if err := b.fill(iotest.OneByteReader(bytes.NewReader(content[:size])), memory); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := iotest.TestReader(b, content[:size]); err != nil {
					t.Errorf("%d bytes, %d in memory: %v", size, memory, err)
				}
				b.Rewind()
			}
			b.free()
		}
	}
}

func TestWhatAFailedReadMeans(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		reason proxy.Reason
	}{
		{&http.MaxBytesError{Limit: 1}, 413, proxy.BodyTooLarge},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), 408, proxy.BodyTimeout},
		{io.ErrUnexpectedEOF, 499, proxy.ClientClosed},
		{errors.New("malformed chunk"), 400, proxy.BadBody},
		{&bufferError{os.ErrDeadlineExceeded}, 500, proxy.BufferFailed},
	} {
		if status, reason := bodyFault(t.Context(), c.err); status != c.status || reason != c.reason {
			t.Errorf("%v: %d %s, want %d %s", c.err, status, reason, c.status, c.reason)
		}
	}
}

// BenchmarkBufferedBody is what buffering costs over streaming, for a body of the usual size and one that goes to the file.
func BenchmarkBufferedBody(b *testing.B) {
	for _, size := range []int{100, 8000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := bytes.NewReader(make([]byte, size))
			closer := io.NopCloser(bufio.NewReader(body))
			buffer := &bodyBuffer{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }), 8 << 10}
			r := httptest.NewRequest("POST", "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				body.Seek(0, io.SeekStart)
				r.Body, r.ContentLength = closer, int64(size)
				buffer.ServeHTTP(nil, r)
			}
		})
	}
}
