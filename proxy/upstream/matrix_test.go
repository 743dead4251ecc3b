package upstream

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sallyport/proxy"
)

// What may be wrong with an endpoint, by what may be asked of it, by who asks and how: what the client is told and why, how
// often each endpoint was asked, and that it took no longer than three times the longest gap. Each fault is met twice: with
// a good endpoint beside it, which has the next turn, and alone.

// A plight is a fault of an endpoint and what comes of it.
type plight struct {
	name  string
	http1 func(s *session, seen *atomic.Int64) // nil: this fault is of HTTP/2 alone
	http2 func(s *stream)                      // nil: this fault is of HTTP/1 alone
	at    func(t *testing.T) netip.AddrPort    // nil: a script is run
	tls   bool                                 // the route speaks TLS

	// What becomes of a request that may be repeated, and of one that may not, with a good endpoint beside it.
	get, post verdict
	// And alone.
	getAlone, postAlone verdict

	refuses bool // it says of each request that it did not act on it
}

// A verdict is what becomes of a request: "502 upstream_reset 1+0" is the status, the reason, and how often the endpoint with
// the fault was asked, and how often the good one. A status with a "!" is that of an answer that was cut.
type verdict string

func (v verdict) fields() (status int, cut bool, reason proxy.Reason, faulty, good int64) {
	f := strings.Fields(string(v))
	text, cut := strings.CutSuffix(f[0], "!")
	status, _ = strconv.Atoi(text)
	if len(f) == 3 {
		reason = proxy.Reason(f[1])
	}
	fmt.Sscanf(f[len(f)-1], "%d+%d", &faulty, &good)
	return status, cut, reason, faulty, good
}

// onceRead runs act for each request that was read, body and all.
func onceRead(act func(*session)) func(*session, *atomic.Int64) {
	return func(s *session, seen *atomic.Int64) {
		for r := s.request(); r != nil; r = s.request() {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			seen.Add(1)
			act(s)
		}
	}
}

func readThenSays(text string) func(*session, *atomic.Int64) {
	return onceRead(func(s *session) { s.send(text) })
}

// A stream is a request over HTTP/2 that was read, body and all.
type stream struct {
	*session
	*http2.Framer
	id uint32
}

// head sends the head of an answer.
func (s *stream) head(status string, last bool, more ...string) {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	for i := 0; i < len(more); i += 2 {
		e.WriteField(hpack.HeaderField{Name: more[i], Value: more[i+1]})
	}
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: last})
}

// framed is an endpoint of HTTP/2 in the clear that runs act for each request.
func framed(seen *atomic.Int64, act func(*stream)) func(*session) {
	return func(s *session) {
		io.ReadFull(s.in, make([]byte, len(http2.ClientPreface)))
		framer := http2.NewFramer(s.Conn, s.in)
		framer.WriteSettings()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			ended := false
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					framer.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				ended = frame.StreamEnded()
			case *http2.DataFrame:
				ended = frame.StreamEnded()
			}
			if ended {
				seen.Add(1)
				act(&stream{s, framer, frame.Header().StreamID})
			}
		}
	}
}

var plights = []plight{
	{
		name: "refuses", at: func(t *testing.T) netip.AddrPort { return refused(t) },
		get: "200 0+1", post: "200 0+1", getAlone: "502 connect_refused 0+0", postAlone: "502 connect_refused 0+0",
	}, {
		name: "black hole", at: full,
		get: "200 0+1", post: "200 0+1", getAlone: "504 connect_timeout 0+0", postAlone: "504 connect_timeout 0+0",
	}, {
		name: "speaks no TLS", tls: true, http1: readThenSays(ok2), http2: func(s *stream) {},
		get: "200 0+1", post: "200 0+1", getAlone: "502 upstream_tls 0+0", postAlone: "502 upstream_tls 0+0",
	}, {
		name: "silent", http1: onceRead(func(s *session) {}), http2: func(s *stream) {},
		get: "200 1+1", post: "504 header_timeout 1+0", getAlone: "504 header_timeout 3+0", postAlone: "504 header_timeout 1+0",
	}, {
		name: "resets before the head", http1: onceRead((*session).reset), http2: func(s *stream) { s.reset() },
		get: "200 1+1", post: "502 upstream_reset 1+0", getAlone: "502 upstream_reset 3+0", postAlone: "502 upstream_reset 1+0",
	}, {
		name: "ends before the head", http1: onceRead(func(s *session) { s.Close() }), http2: func(s *stream) { s.Close() },
		get: "200 1+1", post: "502 upstream_reset 1+0", getAlone: "502 upstream_reset 3+0", postAlone: "502 upstream_reset 1+0",
	}, {
		name: "resets in the head", http1: onceRead(func(s *session) { s.send("HTTP/1.1 200 OK\r\nX"); s.reset() }),
		get: "502 upstream_reset 1+0", post: "502 upstream_reset 1+0", getAlone: "502 upstream_reset 1+0", postAlone: "502 upstream_reset 1+0",
	}, {
		name:  "resets after the head",
		http1: onceRead(func(s *session) { s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha"); s.reset() }),
		http2: func(s *stream) { s.head("200", false); s.WriteData(s.id, false, []byte("ha")); s.reset() },
		get:   "200! upstream_reset 1+0", post: "200! upstream_reset 1+0", getAlone: "200! upstream_reset 1+0", postAlone: "200! upstream_reset 1+0",
	}, {
		name:  "half a body",
		http1: onceRead(func(s *session) { s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha"); s.Close() }),
		http2: func(s *stream) {
			s.head("200", false, "content-length", "4")
			s.WriteData(s.id, true, []byte("ha"))
		},
		get: "200! upstream_reset 1+0", post: "200! upstream_reset 1+0", getAlone: "200! upstream_reset 1+0", postAlone: "200! upstream_reset 1+0",
	}, {
		name: "half a body in chunks",
		http1: onceRead(func(s *session) {
			s.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n")
			s.Close()
		}),
		get: "200! upstream_reset 1+0", post: "200! upstream_reset 1+0", getAlone: "200! upstream_reset 1+0", postAlone: "200! upstream_reset 1+0",
	}, {
		name:  "stalls in the body",
		http1: readThenSays("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha"),
		http2: func(s *stream) { s.head("200", false); s.WriteData(s.id, false, []byte("ha")) },
		get:   "200! read_timeout 1+0", post: "200! read_timeout 1+0", getAlone: "200! read_timeout 1+0", postAlone: "200! read_timeout 1+0",
	}, {
		name: "trickles the head", http1: onceRead(func(s *session) { s.trickle("HTTP/1.1 200 OK\r\nX: 0123456789abcdefghijklmnopqrstuvwxyz") }),
		get: "504 header_timeout 1+0", post: "504 header_timeout 1+0", getAlone: "504 header_timeout 1+0", postAlone: "504 header_timeout 1+0",
	}, {
		name:  "trickles the body",
		http1: onceRead(func(s *session) { s.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"); s.trickle("whole!") }),
		http2: func(s *stream) {
			s.head("200", false)
			for i := range 6 {
				s.pause()
				s.WriteData(s.id, i == 5, []byte("whole!"[i:i+1]))
			}
		},
		get: "200 1+0", post: "200 1+0", getAlone: "200 1+0", postAlone: "200 1+0",
	}, {
		name: "two lengths", http1: readThenSays("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
		get: "502 upstream_invalid 1+0", post: "502 upstream_invalid 1+0", getAlone: "502 upstream_invalid 1+0", postAlone: "502 upstream_invalid 1+0",
	}, {
		name:  "more than its length",
		http1: readThenSays("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"),
		get:   "200 1+0", post: "200 1+0", getAlone: "200 1+0", postAlone: "200 1+0",
	}, {
		name: "500", http1: readThenSays(answer5xx(500)), http2: func(s *stream) { s.head("500", true) },
		get: "500 1+0", post: "500 1+0", getAlone: "500 1+0", postAlone: "500 1+0",
	}, {
		name: "503", http1: readThenSays(answer5xx(503)), http2: func(s *stream) { s.head("503", true) },
		get: "503 1+0", post: "503 1+0", getAlone: "503 1+0", postAlone: "503 1+0",
	}, {
		name: "GOAWAY, not acted on", http2: func(s *stream) { s.WriteGoAway(0, http2.ErrCodeNo, nil) }, refuses: true,
		get: "200 1+1", post: "200 1+1", getAlone: "502 upstream_reset 3+0", postAlone: "502 upstream_reset 3+0",
	}, {
		name: "GOAWAY, and the end", http2: func(s *stream) { s.WriteGoAway(s.id, http2.ErrCodeNo, nil); s.Close() },
		get: "200 1+1", post: "502 upstream_reset 1+0", getAlone: "502 upstream_reset 3+0", postAlone: "502 upstream_reset 1+0",
	}, {
		name: "RST_STREAM, not acted on", http2: func(s *stream) { s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) }, refuses: true,
		get: "200 1+1", post: "200 1+1", getAlone: "502 upstream_reset 3+0", postAlone: "502 upstream_reset 3+0",
	}, {
		name: "RST_STREAM", http2: func(s *stream) { s.WriteRSTStream(s.id, http2.ErrCodeInternal) },
		get: "200 1+1", post: "502 upstream_reset 1+0", getAlone: "502 upstream_reset 3+0", postAlone: "502 upstream_reset 1+0",
	}, {
		name:  "RST_STREAM after the head",
		http2: func(s *stream) { s.head("200", false); s.WriteRSTStream(s.id, http2.ErrCodeInternal) },
		get:   "200! upstream_reset 1+0", post: "200! upstream_reset 1+0", getAlone: "200! upstream_reset 1+0", postAlone: "200! upstream_reset 1+0",
	},
}

// pause waits for a part of a gap.
func (s *session) pause() {
	select {
	case <-time.After(quick.ReadTimeout / 10):
	case <-s.done:
	}
}

// trickle sends a byte at a time.
func (s *session) trickle(text string) {
	for i := range len(text) {
		s.pause()
		if _, err := io.WriteString(s.Conn, text[i:i+1]); err != nil {
			return
		}
	}
}

// A caller is who asks, and what the endpoints speak.
type caller struct {
	name    string
	version int // of the client's HTTP
	grpc    bool
}

func TestMatrixOfFaults(t *testing.T) {
	config, _ := identity(t)
	for _, p := range plights {
		for _, c := range []caller{{"HTTP1", 1, false}, {"HTTP2", 2, false}, {"gRPC", 2, true}} {
			if p.at == nil && (c.grpc && p.http2 == nil || !c.grpc && p.http1 == nil) {
				continue
			}
			for _, method := range []string{"GET", "POST", "POST streamed"} {
				want, alone := p.get, p.getAlone
				if method != "GET" {
					want, alone = p.post, p.postAlone
				}
				if method == "POST streamed" && p.refuses {
					want, alone = "502 upstream_reset 1+0", "502 upstream_reset 1+0" // the body is gone
				}
				t.Run(p.name+"/"+c.name+"/"+method, func(t *testing.T) {
					t.Parallel()
					p.suffer(t, c, method, config, want, true)
					p.suffer(t, c, method, config, alone, false)
				})
			}
		}
	}
}

// suffer sends one request to the endpoint with the fault, and compares what becomes of it.
func (p *plight) suffer(t *testing.T, c caller, method string, config *tls.Config, want verdict, beside bool) {
	var faulty, good atomic.Int64
	var addrs []netip.AddrPort
	switch {
	case p.at != nil:
		addrs = append(addrs, p.at(t))
	case c.grpc:
		addrs = append(addrs, endpoint(t, framed(&faulty, p.http2)))
	default:
		addrs = append(addrs, endpoint(t, func(s *session) { p.http1(s, &faulty) }))
	}
	if beside {
		addrs = append(addrs, p.good(t, c, config, &good))
	}
	options := quick
	switch {
	case c.grpc && p.tls:
		options.Protocol = GRPCS
	case c.grpc:
		options.Protocol = GRPC
	case p.tls:
		options.Protocol = HTTPS
	}
	f := front(t, c.version, New(poolOf(t, addrs...), options))
	begun := time.Now()
	got, e := f.do(t, c.request(t, f, method)), f.exchange(t)
	took := time.Since(begun)

	status, cut, reason, asked, askedGood := want.fields()
	if e.Reason != reason || faulty.Load() != asked || good.Load() != askedGood || (got.err != nil) != cut {
		t.Errorf("beside a good one %v: reason %q, asked %d+%d, cut %v (%v); want %s", beside, e.Reason, faulty.Load(), good.Load(), got.err != nil, got.err, want)
	}
	if told := statusTold(got, c.grpc && reason != "" && !cut); told != status {
		t.Errorf("beside a good one %v: status %d, header %v; want %s", beside, told, got.Header, want)
	}
	if most := 3*quick.ReadTimeout + 2*time.Second; took > most {
		t.Errorf("beside a good one %v: it took %v, want %v at most", beside, took, most)
	}
	if acted := faulty.Load() + good.Load(); method != "GET" && !p.refuses && acted > 1 {
		t.Errorf("a POST was executed %d times", acted)
	}
}

func (p *plight) good(t *testing.T, c caller, config *tls.Config, seen *atomic.Int64) netip.AddrPort {
	if !p.tls {
		config = nil
	}
	switch {
	case c.grpc:
		return h2server(t, config, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			seen.Add(1)
		})
	case config != nil:
		return secured(t, config, func(s *session) { readThenSays(ok2)(s, seen) })
	}
	return endpoint(t, func(s *session) { readThenSays(ok2)(s, seen) })
}

func (c caller) request(t *testing.T, f *frontdoor, method string) *http.Request {
	var body io.Reader
	switch method {
	case "POST":
		body = strings.NewReader("body")
	case "POST streamed":
		method, body = "POST", io.LimitReader(zeros{}, maxSmall+1)
	}
	r := f.request(t, method, "/", body)
	if c.grpc {
		r.Header.Set("Content-Type", "application/grpc")
	}
	return r
}

// grpcCodes are the codes of gRPC for statuses.
var grpcCodes = map[int]string{400: "13", 408: "2", 413: "8", 502: "14", 503: "14", 504: "4"}

// statusTold is the status that a client is told, which stands in grpc-message where the proxy answers a call.
func statusTold(a answer, call bool) int {
	if !call {
		return a.StatusCode
	}
	code, message := a.Header.Get("Grpc-Status"), a.Header.Get("Grpc-Message")
	status, _ := strconv.Atoi(message[:min(3, len(message))])
	if a.StatusCode != 200 || code != grpcCodes[status] {
		return -1
	}
	return status
}
