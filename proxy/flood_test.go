package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A flooder is a client that writes frames as fast as they are taken.
type flooder struct {
	*http2.Framer
	conn *tls.Conn
	out  *bufio.Writer
	head bytes.Buffer
	hpck *hpack.Encoder
}

func newFlooder(t testing.TB, addr string) *flooder {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: "a.test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	f := &flooder{conn: c, out: bufio.NewWriter(c)}
	f.Framer = http2.NewFramer(f.out, c)
	f.AllowIllegalWrites = true
	f.hpck = hpack.NewEncoder(&f.head)
	io.WriteString(f.out, clientPreface)
	f.WriteSettings()
	return f
}

// open begins a request.
func (f *flooder) open(stream uint32, end bool) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block(), EndHeaders: true, EndStream: end})
}

// block is the head of a request that nobody has anything against, and more fields.
func (f *flooder) block(more ...hpack.HeaderField) []byte { return f.blockFor("/", more...) }

func (f *flooder) blockFor(path string, more ...hpack.HeaderField) []byte {
	f.head.Reset()
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "a.test"}, {Name: ":path", Value: path},
	}, more...) {
		f.hpck.WriteField(field)
	}
	return f.head.Bytes()
}

// bomb is the head of a request with one field of four thousand bytes, two hundred and fifty times over, each but the
// first of which is a byte long. From the second on it is of the same bytes.
func (f *flooder) bomb(i uint32) []byte {
	if i > 1 {
		return f.head.Bytes()
	}
	cookie := hpack.HeaderField{Name: "cookie", Value: strings.Repeat("c", 4000)}
	return f.block(slices.Repeat([]hpack.HeaderField{cookie}, 250)...)
}

// A memo is a log that keeps what it is told of floods.
type memo struct {
	slog.Handler
	frames chan int64
}

func (m memo) Enabled(context.Context, slog.Level) bool { return true }

func (m memo) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "flood") {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "frames" {
				m.frames <- a.Value.Int64()
			}
			return true
		})
	}
	return nil
}

// TestFloodsAreClosed sends floods of every kind, each on a connection of its own, and looks at how soon the connection is
// closed, and at the most memory that the process, the client in it, has held meanwhile.
func TestFloodsAreClosed(t *testing.T) {
	const many = 50_000
	junk := make([]byte, 16<<10)
	for _, c := range []struct {
		name    string
		within  int64 // frames; 0: net/http closes it, and does not say when
		deaf    bool  // the client does not read before it has sent all
		prepare func(f *flooder)
		send    func(f *flooder, i uint32)
	}{
		{name: "requests with their resets", within: 4000, send: func(f *flooder, i uint32) {
			f.open(2*i+1, true)
			f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}},
		{name: "requests that are reset for what the client does next", within: 4000, send: func(f *flooder, i uint32) {
			f.open(2*i+1, true)
			f.WriteWindowUpdate(2*i+1, 0)
		}},
		{name: "a head that goes on and on", send: func(f *flooder, i uint32) {
			if i == 0 {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block()})
			}
			f.WriteContinuation(1, false, junk)
		}},
		{name: "a head in empty pieces", within: 1100, send: func(f *flooder, i uint32) {
			if i == 0 {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block()})
			}
			f.WriteContinuation(1, false, nil)
		}},
		{name: "heads that are small on the wire only", within: 1100, send: func(f *flooder, i uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: f.bomb(i), EndHeaders: true, EndStream: true})
		}},
		{name: "heads of fields without names", within: 1100, send: func(f *flooder, i uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: []byte{0, 0, 0}, EndHeaders: true, EndStream: true})
		}},
		{name: "settings", within: 1100, send: func(f *flooder, i uint32) {
			f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535 + i})
		}},
		{name: "pings", within: 1100, send: func(f *flooder, i uint32) { f.WritePing(false, [8]byte{}) }},
		{name: "pings, and nobody reads the answers", within: 1100, deaf: true, send: func(f *flooder, i uint32) { f.WritePing(false, [8]byte{}) }},
		{name: "answers to no ping", within: 1100, send: func(f *flooder, i uint32) { f.WritePing(true, [8]byte{}) }},
		{name: "priorities", within: 1100, send: func(f *flooder, i uint32) {
			f.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 2*i + 3, Weight: 7})
		}},
		{name: "windows of nothing", within: 1100, prepare: func(f *flooder) { f.open(1, false) }, send: func(f *flooder, i uint32) { f.WriteWindowUpdate(0, 4096) }},
		{name: "small windows", within: 1100, prepare: func(f *flooder) { f.open(1, false) }, send: func(f *flooder, i uint32) { f.WriteWindowUpdate(1, 1) }},
		{name: "empty data", within: 1100, prepare: func(f *flooder) { f.open(1, false) }, send: func(f *flooder, i uint32) { f.WriteData(1, false, nil) }},
		{name: "padding", within: 1100, prepare: func(f *flooder) { f.open(1, false) }, send: func(f *flooder, i uint32) {
			f.WriteDataPadded(1, false, nil, make([]byte, 255))
		}},
		{name: "frames that nobody knows", within: 1100, send: func(f *flooder, i uint32) { f.WriteRawFrame(0xbe, 0, 0, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := memo{slog.DiscardHandler, make(chan int64, 10)}
			s := &Server{Log: slog.New(seen)}
			_, secure := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done() // as one does that waits for an endpoint
			}))
			f := newFlooder(t, secure)
			peak := watchHeap(t)
			end := make(chan error, 1)
			if !c.deaf {
				go func() { end <- f.untilEnd() }()
			}
			if c.prepare != nil {
				c.prepare(f)
			}
			sent := uint32(0)
			for ; sent < many; sent++ {
				c.send(f, sent)
				if sent%64 == 0 && f.out.Flush() != nil {
					break
				}
			}
			f.out.Flush()
			if c.deaf {
				go func() { end <- f.untilEnd() }()
			}
			how := (<-end).Error()
			held := peak()
			frames := int64(0)
			if c.within > 0 {
				select {
				case frames = <-seen.frames:
				default: // it was closed while an answer was written, or by net/http, which is first where requests outrun their handlers
					if s.Floods() == 0 && how != "GOAWAY ENHANCE_YOUR_CALM" {
						t.Errorf("was not closed; %s", how)
					}
				}
				if frames > c.within {
					t.Errorf("was closed after %d frames, want at most %d", frames, c.within)
				}
				if n := s.Floods(); n != 1 {
					t.Errorf("%d floods were counted, want 1", n)
				}
			}
			if strings.Contains(how, "timeout") {
				t.Errorf("the connection was not closed: %s", how)
			}
			if held > 48<<20 {
				t.Errorf("held %d KiB, want at most 48 MiB", held>>10)
			}
			t.Logf("closed after %d frames of which %d were sent; heap grew by %d KiB at most; %s", frames, sent, held>>10, how)
		})
	}
}

func TestFramesAreFoundHoweverTheyAreCut(t *testing.T) {
	var wire bytes.Buffer
	framer := http2.NewFramer(&wire, nil)
	framer.AllowIllegalWrites = true
	framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15})
	framer.WriteData(7, true, make([]byte, 300))
	framer.WriteWindowUpdate(5, 70_000)
	framer.WriteRawFrame(http2.FrameWindowUpdate, 0, 3, make([]byte, 6)) // of a wrong size
	framer.WriteWindowUpdate(0, 1)
	framer.WritePing(true, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	framer.WriteGoAway(9, http2.ErrCodeEnhanceYourCalm, []byte("why"))
	framer.WriteGoAway(9, http2.ErrCodeNo, nil)
	const want = "4/0 0/7 8/5+70000 8/3 8/0+1 6/0 7/0! 7/0 "
	for size := 1; size <= wire.Len(); size++ {
		var f frames
		got := ""
		for piece := range slices.Chunk(wire.Bytes(), size) {
			for behind, ok := f.next(piece); ok; behind, ok = f.next(behind) {
				got += fmt.Sprintf("%d/%d", f.kind(), f.stream())
				if n := f.window(); n != 0 {
					got += fmt.Sprintf("+%d", n)
				}
				if f.calms() {
					got += "!"
				}
				got += " "
			}
		}
		if got != want || !f.between() {
			t.Fatalf("in pieces of %d bytes: %q, want %q; at an end: %v", size, got, want, f.between())
		}
	}
}

// BenchmarkWatch counts a frame as net/http reads it, head and payload: 0.1 µs where a request over TLS costs 100, client
// and all. BenchmarkWatch allocates nothing.
func BenchmarkWatch(b *testing.B) {
	head, payload := []byte{0, 0, 30, frameHeaders, 0x5, 0, 0, 0, 1}, make([]byte, 30)
	c := &watched{since: time.Now()}
	for b.Loop() {
		for _, p := range [][]byte{head, payload} {
			for behind, ok := c.in.next(p); ok; behind, ok = c.in.next(behind) {
				c.count()
			}
		}
	}
}

// untilEnd reads to the end of the connection, and returns it: the GOAWAY, if there was one.
func (f *flooder) untilEnd() error {
	var last error
	for {
		frame, err := f.ReadFrame()
		var stream http2.StreamError
		if err != nil && !errors.As(err, &stream) {
			if last != nil {
				return last
			}
			return err
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			last = errors.New("GOAWAY " + away.ErrCode.String())
		}
	}
}

// TestBusyClientsAreNoFloods does what is done in earnest, three times as often as a flood may do nothing.
func TestBusyClientsAreNoFloods(t *testing.T) {
	const often = 3 * floodLimit
	const large = 10 << 20
	s := new(Server)
	_, secure := front(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(make([]byte, large))
		case "/until-cancelled":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/echo": // a call of gRPC that streams both ways
			w.(http.Flusher).Flush()
			message := make([]byte, 5)
			for {
				if _, err := io.ReadFull(r.Body, message); err != nil {
					return
				}
				w.Write(message)
				w.(http.Flusher).Flush()
			}
		default:
			io.Copy(io.Discard, r.Body)
		}
	}))
	client := func() *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	t.Run("downloads that wait to be read", func(t *testing.T) {
		client := client()
		var answers []*http.Response
		for range 4 {
			answer, err := client.Get("https://" + secure + "/large")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			answers = append(answers, answer)
		}
		for _, answer := range answers {
			if n, err := io.Copy(io.Discard, answer.Body); n != large || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		}
	})
	t.Run("a download in small pieces", func(t *testing.T) {
		answer, err := client().Get("https://" + secure + "/large")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, answer.Body, make([]byte, 512)); n != large || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	t.Run("answers that are cancelled", func(t *testing.T) {
		client := client()
		for range often {
			ctx, cancel := context.WithCancel(context.Background())
			r, _ := http.NewRequestWithContext(ctx, "GET", "https://"+secure+"/until-cancelled", nil)
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			answer.Body.Close()
		}
	})
	t.Run("requests with trailers", func(t *testing.T) {
		client := client()
		for range often {
			r, _ := http.NewRequest("POST", "https://"+secure+"/", struct{ io.Reader }{strings.NewReader("x")})
			r.Trailer = http.Header{"X-Sum": {"1"}}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
	})
	t.Run("messages, with a ping and two windows for each", func(t *testing.T) {
		f := newFlooder(t, secure)
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: f.blockFor("/echo")})
		f.out.Flush()
		for got := 0; got < often; {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("after %d messages: %v", got, err)
			}
			switch frame := frame.(type) {
			case *http2.HeadersFrame:
				f.WriteData(1, false, make([]byte, 5))
			case *http2.DataFrame:
				got++
				f.WritePing(false, [8]byte{})
				f.WriteWindowUpdate(0, frame.Length)
				f.WriteWindowUpdate(1, frame.Length)
				f.WriteData(1, false, make([]byte, 5))
			}
			f.out.Flush()
		}
	})
	if n := s.Floods(); n != 0 {
		t.Errorf("%d connections were taken for floods", n)
	}
}

// watchHeap looks at the heap until what it returns is called, which says by how much it grew, at most.
func watchHeap(t testing.TB) func() int64 {
	heap := func() int64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	runtime.GC()
	before, peak := heap(), atomic.Int64{}
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for {
			peak.Store(max(peak.Load(), heap()-before))
			select {
			case <-again.C:
			case <-stop:
				return
			}
		}
	})
	end := sync.OnceValue(func() int64 {
		close(stop)
		done.Wait()
		return peak.Load()
	})
	t.Cleanup(func() { end() })
	return end
}
