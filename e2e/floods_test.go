package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sallyport/e2e"
)

// TestFloodsLeaveTheProductSmall floods the product over ten connections at a time, in each of the ways that have brought
// others down, and looks at how much of it the product takes before it closes them, at the most memory that it holds
// meanwhile, and at what it has counted. In the end no goroutine is left, and little memory.
func TestFloodsLeaveTheProductSmall(t *testing.T) {
	const connections = 10
	const perConnection = 20 << 20 // a hundred streams with a head of 64 KiB each, and what the collector has not seen to yet
	endpoint := e2e.Echo(t, "127.0.0.1:0", "app")
	product := e2e.Start(t, e2e.Folder(t, map[string]string{"app.yaml": ingress("app", "a.test", "/", "app")}), "--map=default/app="+endpoint.Addr,
		"--access-log=off", "--profiling")
	heap := func() float64 {
		e2e.Eventually(t, "all connections have ended", func() error {
			if n := product.Metric(t, "sallyport_connections"); n != 0 {
				return fmt.Errorf("%v are open", n)
			}
			return nil
		})
		for range 2 { // the second empties pools that the first has found unused
			product.AdminGet(t, "/debug/pprof/heap?gc=1")
		}
		return product.Metric(t, "go_memstats_heap_alloc_bytes")
	}
	visit := func(when string) {
		answer, err := product.Client(func(transport *http.Transport) { transport.DisableKeepAlives = true }).Get("https://a.test/")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("a request %s the floods: %v, %v", when, answer, err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	visit("before")
	heapBefore, goroutinesBefore := heap(), product.Metric(t, "go_goroutines")
	counted := 0
	for _, c := range []struct {
		name  string
		sent  int  // times that it can be sent before the connection is closed; 0: as fits the buffers between
		taken int  // streams that the product has begun, and frames that it has answered
		count bool // net/http closes the other itself
		send  func(f *http2.Framer, i uint32, head func(cookies int) []byte)
	}{
		{"resets", 0, 4000, true, func(f *http2.Framer, i uint32, head func(int) []byte) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head(0), EndHeaders: true, EndStream: true})
			f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}},
		{"heads that are small on the wire only", 0, 1100, true, func(f *http2.Framer, i uint32, head func(int) []byte) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head(250), EndHeaders: true, EndStream: true})
		}},
		{"a head without an end", 2000, 10, false, func(f *http2.Framer, i uint32, head func(int) []byte) {
			if i == 0 {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(0)})
			}
			f.WriteContinuation(1, false, make([]byte, 16<<10))
		}},
		{"settings", 0, 1100, true, func(f *http2.Framer, i uint32, head func(int) []byte) { f.WriteSettings() }},
		{"pings", 0, 1100, true, func(f *http2.Framer, i uint32, head func(int) []byte) { f.WritePing(false, [8]byte{}) }},
	} {
		before, most := product.Resident(t), product.WatchResident(t)
		done := make(chan flooded, connections)
		for range connections {
			go func() { done <- flood(product.HTTPS, c.send) }()
		}
		var worst flooded // of each the most
		for range connections {
			got := <-done
			if got.err != nil {
				t.Errorf("%s: %v", c.name, got.err)
			}
			worst = flooded{max(worst.sent, got.sent), max(worst.streams, got.streams), max(worst.answers, got.answers), nil}
		}
		if c.count {
			counted += connections
		}
		held := most()
		t.Logf("%s: %d connections, of which none took more than %d streams and gave more than %d answers, to %d that were sent; %d KiB before, %d KiB at most, %d KiB after",
			c.name, connections, worst.streams, worst.answers, worst.sent, before>>10, held>>10, product.Resident(t)>>10)
		if c.sent > 0 && worst.sent > c.sent || worst.streams > c.taken || worst.answers > c.taken {
			t.Errorf("%s: a connection took %d streams and gave %d answers, want at most %d; %d were sent", c.name, worst.streams, worst.answers, c.taken, worst.sent)
		}
		if held > before+connections*perConnection {
			t.Errorf("%s: %d KiB before, %d KiB at most, want at most %d KiB more", c.name, before>>10, held>>10, connections*perConnection>>10)
		}
	}
	if got := product.Metric(t, "sallyport_http2_floods_total"); got != float64(counted) {
		t.Errorf("%v floods were counted, want %d", got, counted)
	}
	visit("after")
	// A connection's timers keep hundreds of requests that were reset before their handlers began, stopped or not, until they
	// would have run out (75 s), or until a quarter of all timers are stopped ones: that many, mostly, at once.
	const kept = connections * 2 << 20
	heapAfter, goroutinesAfter := heap(), product.Metric(t, "go_goroutines")
	for begun := time.Now(); heapAfter > heapBefore+kept && time.Since(begun) < 90*time.Second; {
		heapAfter = heap()
	}
	t.Logf("in use: %.0f KiB and %v goroutines before, %.0f KiB and %v after", heapBefore/1024, goroutinesBefore, heapAfter/1024, goroutinesAfter)
	if heapAfter > heapBefore+kept || goroutinesAfter > goroutinesBefore+10 {
		t.Errorf("in use: %.0f KiB and %v goroutines before, %.0f KiB and %v after: something was kept", heapBefore/1024, goroutinesBefore, heapAfter/1024, goroutinesAfter)
	}
}

// A flooded is what became of a flood: how often it was sent, which is more than was read; how many streams the other side
// has begun, as it says at the end; and how many frames of the client it has answered.
type flooded struct {
	sent, streams, answers int
	err                    error
}

// flood sends fifty thousand times over one connection, or until that is closed. It is an error if it is not.
func flood(addr string, send func(f *http2.Framer, i uint32, head func(cookies int) []byte)) (f flooded) {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: "a.test"})
	if err != nil {
		return flooded{err: err}
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	out := bufio.NewWriter(c)
	framer := http2.NewFramer(out, c)
	heads := new(headWriter)
	end := make(chan struct{})
	go func() {
		defer close(end)
		f.err = f.listen(framer)
	}()
	io.WriteString(out, http2.ClientPreface)
	framer.WriteSettings()
	sent := 0
	for ; sent < 50_000; sent++ {
		send(framer, uint32(sent), heads.next)
		if sent%64 == 0 && out.Flush() != nil {
			break
		}
	}
	out.Flush()
	<-end
	f.sent = sent
	return f
}

// listen reads to the end of the connection.
func (f *flooded) listen(framer *http2.Framer) error {
	for {
		frame, err := framer.ReadFrame()
		if err != nil && os.IsTimeout(err) {
			return fmt.Errorf("the connection was not closed: %w", err)
		}
		if err != nil {
			return nil
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			f.streams = max(f.streams, int(frame.LastStreamID+1)/2)
		case *http2.SettingsFrame, *http2.PingFrame, *http2.HeadersFrame, *http2.RSTStreamFrame:
			f.answers++
		}
	}
}

// A headWriter writes the heads of requests that are all alike. From the second on they are of the same bytes, each field
// being in the table that the first has filled.
type headWriter struct {
	encoder *hpack.Encoder
	block   bytes.Buffer
	written int
}

func (w *headWriter) next(cookies int) []byte {
	if w.written++; w.written > 2 {
		return w.block.Bytes()
	}
	if w.encoder == nil {
		w.encoder = hpack.NewEncoder(&w.block)
	}
	w.block.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.test"}, {":path", "/"}} {
		w.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for range cookies {
		w.encoder.WriteField(hpack.HeaderField{Name: "cookie", Value: strings.Repeat("c", 4000)})
	}
	return w.block.Bytes()
}
