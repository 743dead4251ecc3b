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
// others down, and looks at its memory and at what it has counted.
func TestFloodsLeaveTheProductSmall(t *testing.T) {
	const connections = 10
	const perConnection = 20 << 20 // a hundred streams with a head of 64 KiB each, and what the collector has not seen to yet
	endpoint := e2e.Echo(t, "127.0.0.1:0", "app")
	product := e2e.Start(t, e2e.Folder(t, map[string]string{"app.yaml": ingress("app", "a.test", "/", "app")}), "--map=default/app="+endpoint.Addr, "--access-log=off")
	floods := 0
	for _, c := range []struct {
		name    string
		counted bool // net/http closes the other itself
		send    func(f *http2.Framer, i uint32, head func(cookies int) []byte)
	}{
		{"resets", true, func(f *http2.Framer, i uint32, head func(int) []byte) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head(0), EndHeaders: true, EndStream: true})
			f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}},
		{"heads that are small on the wire only", true, func(f *http2.Framer, i uint32, head func(int) []byte) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head(250), EndHeaders: true, EndStream: true})
		}},
		{"a head without an end", false, func(f *http2.Framer, i uint32, head func(int) []byte) {
			if i == 0 {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(0)})
			}
			f.WriteContinuation(1, false, make([]byte, 16<<10))
		}},
		{"settings", true, func(f *http2.Framer, i uint32, head func(int) []byte) { f.WriteSettings() }},
		{"pings", true, func(f *http2.Framer, i uint32, head func(int) []byte) { f.WritePing(false, [8]byte{}) }},
	} {
		before := product.Resident(t)
		done := make(chan error, connections)
		for range connections {
			go func() { done <- flood(product.HTTPS, c.send) }()
		}
		for range connections {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if c.counted {
			floods += connections
		}
		after := product.Resident(t)
		t.Logf("%s: %d connections, %d KiB before, %d KiB after", c.name, connections, before>>10, after>>10)
		if after > before+connections*perConnection {
			t.Errorf("%s: %d KiB before, %d KiB after, want at most %d KiB more", c.name, before>>10, after>>10, connections*perConnection>>10)
		}
	}
	if got := product.Metric(t, "sallyport_http2_floods_total"); got != float64(floods) {
		t.Errorf("%v floods were counted, want %d", got, floods)
	}
	answer, err := product.Client(nil).Get("https://a.test/")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("a request after the floods: %v, %v", answer, err)
	}
}

// flood sends fifty thousand times over one connection, or until that is closed. It is an error if it is not.
func flood(addr string, send func(f *http2.Framer, i uint32, head func(cookies int) []byte)) error {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: "a.test"})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	out := bufio.NewWriter(c)
	framer := http2.NewFramer(out, nil)
	heads := new(headWriter)
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		end <- err
	}()
	io.WriteString(out, http2.ClientPreface)
	framer.WriteSettings()
	for i := range uint32(50_000) {
		send(framer, i, heads.next)
		if i%64 == 0 && out.Flush() != nil {
			break
		}
	}
	out.Flush()
	if err := <-end; err != nil && os.IsTimeout(err) {
		return fmt.Errorf("the connection was not closed: %w", err)
	}
	return nil
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
