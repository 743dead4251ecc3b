package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/proxy"
)

// message frames a message of gRPC: a flag, the length, the bytes.
func message(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
}

// receive reads the next message.
func receive(r io.Reader) (string, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[1:]))
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// h2server is an endpoint that speaks HTTP/2 alone, over TLS if there is a config.
func h2server(t testing.TB, config *tls.Config, h http.HandlerFunc) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	if config != nil {
		s.Protocols.SetHTTP2(true)
		config = config.Clone()
		config.NextProtos = []string{"h2"}
		l = tls.NewListener(l, config)
	} else {
		s.Protocols.SetUnencryptedHTTP2(true)
	}
	var running sync.WaitGroup
	running.Go(func() { s.Serve(l) })
	t.Cleanup(func() {
		s.Close()
		running.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// chat is a server with the four kinds of calls.
func chat(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	flush := http.NewResponseController(w).Flush
	end := func() {
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", "1")
	}
	switch r.URL.Path {
	case "/unary":
		text, _ := receive(r.Body)
		w.Write(message("re: " + text))
	case "/server":
		text, _ := receive(r.Body)
		for range 3 {
			w.Write(message(text))
			flush()
		}
	case "/client":
		all := ""
		for text, err := receive(r.Body); err == nil; text, err = receive(r.Body) {
			all += text
		}
		w.Write(message(all))
	case "/both":
		flush()
		for text, err := receive(r.Body); err == nil; text, err = receive(r.Body) {
			w.Write(message("re: " + text))
			flush()
		}
	case "/refused": // nothing but a trailer, in the head
		w.Header().Del("Trailer")
		w.Header().Set("Grpc-Status", "7")
		w.Header().Set("Grpc-Message", "no")
		w.Header()["Content-Length"] = nil // net/http would say 0, servers of gRPC say nothing
		return
	case "/fails":
		w.Write(message("one"))
		flush()
		w.Header().Set("Grpc-Status", "10")
		return
	}
	end()
}

// begin begins a call through the front; what is written to out is its body.
func (f *frontdoor) begin(t *testing.T, ctx context.Context, path string) (res *http.Response, out *io.PipeWriter) {
	t.Helper()
	in, out := io.Pipe()
	t.Cleanup(func() { out.Close() })
	r := f.request(t, "POST", path, in).WithContext(ctx)
	r.Header = http.Header{"Content-Type": {"application/grpc+proto"}, "Te": {"trailers"}, "Grpc-Timeout": {"9S"}}
	type result struct {
		res *http.Response
		err error
	}
	done := make(chan result, 1)
	go func() {
		res, err := f.client.Do(r)
		done <- result{res, err}
	}()
	if path != "/both" {
		out.Write(message("a"))
		if path == "/client" {
			out.Write(message("b"))
		}
		out.Close()
	}
	got := <-done
	if got.err != nil {
		t.Fatalf("%s: %v", path, got.err)
	}
	t.Cleanup(func() { got.res.Body.Close() })
	return got.res, out
}

func TestFourKindsOfCalls(t *testing.T) {
	config, roots := identity(t)
	for name, last := range map[string]http.Handler{
		"in the clear": New(poolOf(t, h2server(t, nil, chat)), Options{Protocol: GRPC}),
		"over TLS":     New(poolOf(t, h2server(t, config, chat)), Options{Protocol: GRPCS}),
		"verified":     named("example.com", New(poolOf(t, h2server(t, config, chat)), Options{Protocol: GRPCS, TLS: &tls.Config{RootCAs: roots}})),
	} {
		t.Run(name, func(t *testing.T) {
			f := front(t, 2, last)
			for path, want := range map[string][]string{
				"/unary": {"re: a"}, "/server": {"a", "a", "a"}, "/client": {"ab"}, "/both": {"re: x", "re: y"},
			} {
				res, out := f.begin(t, t.Context(), path)
				for i, word := range want {
					if path == "/both" {
						out.Write(message([]string{"x", "y"}[i]))
					}
					if text, err := receive(res.Body); err != nil || text != word {
						t.Fatalf("%s: got %q, %v; want %q", path, text, err, word)
					}
				}
				out.Close()
				if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
					t.Errorf("%s: then %q, %v; want the end", path, rest, err)
				}
				if res.StatusCode != 200 || res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("X-Unannounced") != "1" || res.Header.Get("Grpc-Status") != "" {
					t.Errorf("%s: status %d, header %v, trailer %v", path, res.StatusCode, res.Header, res.Trailer)
				}
				if e := f.exchange(t); e.Reason != "" || e.Attempts[0].Status != 200 || e.Attempts[0].Received == 0 {
					t.Errorf("%s: reason %q, attempts %+v", path, e.Reason, e.Attempts)
				}
			}
		})
	}
}

func TestErrorsOfCallsPass(t *testing.T) {
	f := front(t, 2, New(poolOf(t, h2server(t, nil, chat)), Options{Protocol: GRPC}))
	res, _ := f.begin(t, t.Context(), "/refused")
	if b, err := io.ReadAll(res.Body); err != nil || len(b) != 0 || res.Header.Get("Grpc-Status") != "7" || res.Header.Get("Grpc-Message") != "no" || len(res.Trailer) != 0 {
		t.Errorf("body %q, %v, header %v, trailer %v; want grpc-status 7 in the head", b, err, res.Header, res.Trailer)
	}
	if res.ContentLength != 0 { // -1 when the head leaves open whether there is more
		t.Errorf("the head does not end the stream: to a gRPC client its grpc-status means nothing then")
	}
	res, _ = f.begin(t, t.Context(), "/fails")
	if b, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(b, message("one")) || res.Trailer.Get("Grpc-Status") != "10" {
		t.Errorf("body %q, %v, trailer %v; want one message and grpc-status 10", b, err, res.Trailer)
	}
}

func TestCallIsToldWhatItsEndpointMustKnow(t *testing.T) {
	got := make(chan *http.Request, 1)
	trailer := make(chan http.Header, 1)
	config, _ := identity(t)
	for name, c := range map[string]struct {
		protocol Protocol
		config   *tls.Config
	}{"http": {GRPC, nil}, "https": {GRPCS, config}} {
		last := New(poolOf(t, h2server(t, c.config, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			got <- r
			trailer <- r.Trailer
		})), Options{Protocol: c.protocol})
		for target, want := range map[string]string{"": "/p?q=%zz", "/other?a;b": "/other?a;b", "//double//": "//double//"} {
			f := front(t, 2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proxy.From(r).UpstreamTarget, proxy.From(r).UpstreamHost = target, "u.test"
				last.ServeHTTP(w, r)
			}))
			r := f.request(t, "POST", "/p?q=%zz", io.MultiReader(strings.NewReader("body")))
			r.Header = http.Header{"Te": {"trailers"}, "Keep-Alive": {"x"}, "X-Bin": {"1", "2"}, "User-Agent": {""}}
			r.Trailer = http.Header{"X-Sum": {"7"}}
			f.do(t, r)
			seen := <-got
			if seen.RequestURI != want || seen.Host != "u.test" || seen.ContentLength != -1 || seen.ProtoMajor != 2 || (seen.TLS != nil) != (name == "https") {
				t.Errorf("%s %q: the endpoint got %q for %q, length %d, %s", name, target, seen.RequestURI, seen.Host, seen.ContentLength, seen.Proto)
			}
			h := seen.Header
			if h.Get("Te") != "trailers" || len(h["X-Bin"]) != 2 || h.Get("Keep-Alive") != "" || h.Get("User-Agent") != "" || h.Get("Accept-Encoding") != "" {
				t.Errorf("%s: the endpoint got %v", name, h)
			}
			if sum := <-trailer; sum.Get("X-Sum") != "7" || len(sum) != 1 {
				t.Errorf("%s: the endpoint got the trailer %v, want X-Sum", name, sum)
			}
		}
	}
}

func TestClientThatLeavesCancelsTheCall(t *testing.T) {
	gone := make(chan bool)
	f := front(t, 2, New(poolOf(t, h2server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})), Options{Protocol: GRPC}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, _ := f.begin(t, ctx, "/both")
	cancel()
	res.Body.Close() // net/http's client notices at its next read or write only
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the endpoint's call goes on after 5 s")
	}
	if e := f.exchange(t); e.Reason != proxy.ClientClosed {
		t.Errorf("reason %q, want client_closed", e.Reason)
	}
}

// TestSilenceEndsACallWhoseClientIsSilentToo: the endpoint took all there was of the body, and neither side says more.
func TestSilenceEndsACallWhoseClientIsSilentToo(t *testing.T) {
	last := New(poolOf(t, h2server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})), tlsShort(GRPC, nil))
	f := front(t, 2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), quick.ReadTimeout) // somebody's patience ends, a feature's or the front's
		defer cancel()
		last.ServeHTTP(w, r.WithContext(ctx))
	}))
	res, _ := f.begin(t, t.Context(), "/both")
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the answer has an end, want it cut")
	}
	if e := f.exchange(t); e.Reason != proxy.ClientClosed {
		t.Errorf("reason %q, want client_closed", e.Reason)
	}
}

func TestCallsThatTheProxyAnswersAreInTheWordsOfGRPC(t *testing.T) {
	silent := h2server(t, nil, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	bad := tls.Config{MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		pool        *Pool
		protocol    Protocol
		kind        string // the content type
		status, via string
		reason      proxy.Reason
	}{
		"no endpoint":       {poolOf(t), GRPC, "application/grpc", "14", "503 no_endpoints", proxy.NoEndpoints},
		"refused":           {poolOf(t, refused(t)), GRPC, "application/grpc+proto", "14", "502 connect_refused", proxy.ConnectRefused},
		"silent":            {poolOf(t, silent), GRPC, "application/grpc;x=y", "4", "504 header_timeout", proxy.HeaderTimeout},
		"HTTP/1":            {poolOf(t, endpoint(t, func(s *session) { s.awaitRequest(); s.send("HTTP/1.1 400 Bad Request\r\n\r\n"); s.hang() })), GRPC, "application/grpc", "14", "502 upstream_invalid", proxy.UpstreamInvalid},
		"ends":              {poolOf(t, endpoint(t, func(s *session) { s.awaitRequest() })), GRPC, "application/grpc", "14", "502 upstream_reset", proxy.UpstreamReset},
		"no TLS":            {poolOf(t, silent), GRPCS, "application/grpc", "14", "502 upstream_tls", proxy.UpstreamTLS},
		"over HTTP/1":       {poolOf(t, refused(t)), HTTP, "application/grpc", "14", "502 connect_refused", proxy.ConnectRefused},
		"gRPC-Web":          {poolOf(t), GRPC, "application/grpc-web", "", "", proxy.NoEndpoints},
		"something else":    {poolOf(t), GRPC, "text/plain", "", "", proxy.NoEndpoints},
		"no handshake ever": {poolOf(t, endpoint(t, func(s *session) { s.hang() })), GRPCS, "application/grpc", "4", "504 connect_timeout", proxy.ConnectTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			f := front(t, 2, New(c.pool, tlsShort(c.protocol, &bad)))
			r := f.request(t, "POST", "/", bytes.NewReader(message("a")))
			r.Header.Set("Content-Type", c.kind)
			got, e := f.do(t, r), f.exchange(t)
			if e.Reason != c.reason || got.Header.Get("Grpc-Status") != c.status || got.Header.Get("Grpc-Message") != c.via {
				t.Errorf("reason %q, header %v; want %q, grpc-status %s, %q", e.Reason, got.Header, c.reason, c.status, c.via)
			}
			if inWords := c.status != ""; inWords != (got.StatusCode == 200) || inWords != (got.Header.Get("Content-Type") == "application/grpc") || inWords != (got.text == "") {
				t.Errorf("status %d, %s, %q", got.StatusCode, got.Header.Get("Content-Type"), got.text)
			}
		})
	}
}

// tlsShort is tlsQuick with a short time to connect.
func tlsShort(p Protocol, config *tls.Config) Options {
	o := tlsQuick(p, config)
	o.ConnectTimeout = quick.ConnectTimeout
	return o
}

func TestGapsOfACallAreSilences(t *testing.T) {
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		body   io.Reader
		reason proxy.Reason
		cut    bool
	}{
		"moves": {func(w http.ResponseWriter, r *http.Request) {
			for range 6 { // 300 ms in all, where 200 may pass in silence
				<-time.After(50 * time.Millisecond)
				w.Write([]byte("x"))
				http.NewResponseController(w).Flush()
			}
		}, nil, "", false},
		"slow client": {func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }, &slow{pieces: 6}, "", false},
		"silent":      {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, strings.NewReader("x"), proxy.HeaderTimeout, false},
		"stalls": {func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, nil, proxy.ReadTimeout, true},
		"takes nothing": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, io.LimitReader(zeros{}, 64<<20), proxy.SendTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := front(t, 2, New(poolOf(t, h2server(t, nil, c.serve)), tlsShort(GRPC, nil)))
			got, e := f.do(t, f.request(t, "POST", "/", c.body)), f.exchange(t)
			if e.Reason != c.reason || (got.err != nil) != c.cut || len(e.Attempts) != 1 {
				t.Errorf("reason %q, %v, status %d, %d attempts; want %q, cut %v", e.Reason, got.err, got.StatusCode, len(e.Attempts), c.reason, c.cut)
			}
		})
	}
}

// slow is a body that comes in pieces with 50 ms between them.
type slow struct{ pieces int }

func (s *slow) Read(p []byte) (int, error) {
	if s.pieces--; s.pieces < 0 {
		return 0, io.EOF
	}
	<-time.After(50 * time.Millisecond)
	return 1, nil
}

func TestCallsShareOneConnection(t *testing.T) {
	const many = 20
	var arrived atomic.Int64
	all := make(chan bool)
	var mu sync.Mutex
	peers := map[string]bool{}
	f := front(t, 2, New(poolOf(t, h2server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		if arrived.Add(1) == many {
			close(all)
		}
		<-all
	})), Options{Protocol: GRPC}))
	var clients sync.WaitGroup
	for range many {
		clients.Go(func() { f.get(t, "/") })
	}
	clients.Wait()
	if len(peers) != 1 {
		t.Errorf("%d connections for %d calls, want one", len(peers), many)
	}
}

func TestCallsAreNotSharedAcrossLines(t *testing.T) {
	config, _ := identity(t)
	pool := poolOf(t, h2server(t, config, chat))
	mine, others := &tls.Config{InsecureSkipVerify: true}, &tls.Config{InsecureSkipVerify: true}
	for i, c := range []struct {
		config *tls.Config
		host   string
		reused bool
	}{{mine, "a.test", false}, {others, "a.test", false}, {mine, "b.test", false}, {mine, "a.test", true}, {others, "a.test", true}} {
		f := front(t, 2, named(c.host, New(pool, tlsQuick(GRPCS, c.config))))
		f.get(t, "/")
		if e := f.exchange(t); e.Reason != "" || e.Attempts[0].Reused != c.reused {
			t.Errorf("call %d: reason %q, reused %v, want %v", i, e.Reason, e.Attempts[0].Reused, c.reused)
		}
	}
}

func TestCallInFlightOutlivesItsEndpointAndTheConnectionDoesNot(t *testing.T) {
	ended := make(chan bool, 1)
	l := httptest.NewUnstartedServer(http.HandlerFunc(chat))
	l.Config.Protocols = new(http.Protocols)
	l.Config.Protocols.SetUnencryptedHTTP2(true)
	l.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			ended <- true
		}
	}
	l.Start()
	defer l.Close()
	pool := poolOf(t, netip.MustParseAddrPort(l.Listener.Addr().String()))
	f := front(t, 2, New(pool, Options{Protocol: GRPC}))
	res, out := f.begin(t, t.Context(), "/both")
	pool.Set(nil)
	out.Write(message("late"))
	if text, err := receive(res.Body); text != "re: late" || err != nil {
		t.Fatalf("got %q, %v; want the call to go on", text, err)
	}
	select {
	case <-ended:
		t.Fatal("the connection ended under a call")
	default:
	}
	out.Close()
	io.Copy(io.Discard, res.Body)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the connection is there 5 s after its last call")
	}
}

// awaitRequest reads what a client of HTTP/2 sends until a request with a body is whole.
func (s *session) awaitRequest() bool {
	io.ReadFull(s.in, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	for {
		var head [9]byte
		if _, err := io.ReadFull(s.in, head[:]); err != nil {
			return false
		}
		io.CopyN(io.Discard, s.in, int64(binary.BigEndian.Uint32(head[:4])>>8))
		if data, end := head[3] == 0, head[4]&1 != 0; data && end {
			return true
		}
	}
}

// TestCallThatWasNotActedOnIsSentAgain: the endpoint goes away, or is full, and says so.
func TestCallThatWasNotActedOnIsSentAgain(t *testing.T) {
	for name, refuse := range map[string][]byte{
		"refused stream": {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7},
		"going away":     {0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			refusing := endpoint(t, func(s *session) {
				s.send("\x00\x00\x00\x04\x00\x00\x00\x00\x00") // SETTINGS
				if s.awaitRequest() {
					s.Write(refuse)
				}
				s.hang()
			})
			f := front(t, 2, New(poolOf(t, refusing, h2server(t, nil, chat)), tlsShort(GRPC, nil)))
			res, _ := f.begin(t, t.Context(), "/unary")
			text, err := receive(res.Body)
			if e := res.Header; text != "re: a" || err != nil {
				t.Errorf("got %q, %v, header %v; want the other endpoint's answer", text, err, e)
			}
		})
	}
}

func TestFaultOfTheBodyOfACallIsTheClients(t *testing.T) {
	last := New(poolOf(t, h2server(t, nil, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })), Options{Protocol: GRPC})
	f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 10)
		last.ServeHTTP(w, r)
	}))
	got, e := f.do(t, f.request(t, "POST", "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 100))))), f.exchange(t)
	if got.StatusCode != 413 || e.Reason != proxy.BodyTooLarge || len(e.Attempts) != 1 {
		t.Errorf("status %d, reason %q, %d attempts; want 413, body_too_large", got.StatusCode, e.Reason, len(e.Attempts))
	}
}

func TestBodyOfACallThatPanicsIsA500(t *testing.T) {
	last := New(poolOf(t, h2server(t, nil, chat)), Options{Protocol: GRPC})
	f := front(t, 2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = panicking{}
		last.ServeHTTP(w, r)
	}))
	got, e := f.do(t, f.request(t, "POST", "/unary", io.MultiReader(strings.NewReader("x")))), f.exchange(t)
	if got.StatusCode != 500 || e.Reason != proxy.Panic {
		t.Errorf("status %d, reason %q; want 500, panic", got.StatusCode, e.Reason)
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic(errors.New("a feature's mistake")) }
func (panicking) Close() error             { return nil }

func TestPagesReplaceAnswersOfCalls(t *testing.T) {
	f, p := paged(t, 2, New(poolOf(t, h2server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Lost", "1")
		w.WriteHeader(404)
	})), Options{Protocol: GRPC}))
	if got := f.get(t, "/"); got.text != "page" || <-p.asked != 404 || len(<-p.header) != 0 {
		t.Errorf("status %d, %q, %v; want the page", got.StatusCode, got.text, got.Header)
	}
}

func TestStatusesOfCallsAreRetried(t *testing.T) {
	busy := h2server(t, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	for method, status := range map[string]int{"GET": 200, "POST": 503} {
		o := retrying(RetryOn503, 0)
		o.Protocol = GRPC
		f := front(t, 2, New(poolOf(t, busy, h2server(t, nil, chat)), o))
		if got := f.do(t, f.request(t, method, "/", nil)); got.StatusCode != status {
			t.Errorf("%s: status %d, want %d", method, got.StatusCode, status)
		}
	}
}

// TestBodyOfACallThatWasReadIsNotSentAgain: it is too long to be kept. What is left of it must not pass for all of it.
func TestBodyOfACallThatWasReadIsNotSentAgain(t *testing.T) {
	o := retrying(RetryOn503, 0)
	o.Protocol = GRPC
	f := front(t, 2, New(poolOf(t, h2server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(503)
	})), o))
	got, e := f.do(t, f.request(t, "PUT", "/", io.LimitReader(zeros{}, 64<<10))), f.exchange(t)
	if got.StatusCode != 503 || len(e.Attempts) != 1 {
		t.Errorf("status %d, %d attempts; want 503 after one", got.StatusCode, len(e.Attempts))
	}
}

// TestAnswersOfHTTP1ClientsAreWhole: who speaks HTTP/1 gets calls answered too.
func TestAnswersOfHTTP1ClientsAreWhole(t *testing.T) {
	f := front(t, 1, New(poolOf(t, h2server(t, nil, chat)), Options{Protocol: GRPC}))
	r := f.request(t, "POST", "/unary", bytes.NewReader(message("a")))
	r.Header.Set("Expect", "100-continue")
	got := f.do(t, r)
	if got.text != string(message("re: a")) || got.Trailer.Get("Grpc-Status") != "0" || got.Trailer.Get("X-Unannounced") != "1" {
		t.Errorf("got %q, trailer %v", got.text, got.Trailer)
	}
}

// TestCallsHaveFieldsOfTheirOwn: those of the request belong to the client's connection, which uses them again.
func TestCallsHaveFieldsOfTheirOwn(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header = http.Header{"A": {"1"}, "B": {"2", "3"}}
	header := (&call{x: &trip{r: r}}).header()
	r.Header["A"][0], r.Header["B"][1] = "x", "x"
	if got, want := fmt.Sprint(header["A"], header["B"]), "[1] [2 3]"; got != want {
		t.Errorf("the fields are %s, want %s", got, want)
	}
}
