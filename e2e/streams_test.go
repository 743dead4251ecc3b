package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"sallyport/e2e"
)

// streams is an endpoint with every kind of connection that must outlive a change of the table: /ws echoes WebSocket
// messages, /sse sends an event for each tick, /upload answers with the size of what it got, /duplex echoes lines as
// they come.
type streams struct {
	tick chan string
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ws":
		s.webSocket(w, r)
	case "/sse":
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		for event := range s.tick {
			fmt.Fprintf(w, "data: %s\n\n", event)
			http.NewResponseController(w).Flush()
		}
	case "/upload":
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v", n, err)
	case "/duplex":
		http.NewResponseController(w).EnableFullDuplex()
		http.NewResponseController(w).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, lines.Text())
			http.NewResponseController(w).Flush()
		}
	}
}

func (s *streams) webSocket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if c.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// open is one open stream of each kind, through the proxy.
type open struct {
	t         testing.TB
	streams   *streams
	webSocket *websocket.Conn
	sse       *bufio.Reader
	upload    *io.PipeWriter
	uploaded  chan string
	sent      int
	duplex    *io.PipeWriter
	echoed    *bufio.Reader
}

// openStreams opens them at host and closes them when the test ends.
func openStreams(t testing.TB, p *e2e.Process, s *streams, host string) *open {
	t.Helper()
	ctx := t.Context()
	client := p.Client(nil)
	client.Timeout = 0
	o := &open{t: t, streams: s, uploaded: make(chan string, 1)}

	var err error
	o.webSocket, _, err = websocket.Dial(ctx, "ws://"+host+"/ws", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatalf("open the WebSocket: %v", err)
	}
	t.Cleanup(func() { o.webSocket.CloseNow() })

	o.sse = bufio.NewReader(get(t, client, http.MethodGet, "http://"+host+"/sse", nil, 1).Body)

	upload, uploadWriter := io.Pipe()
	o.upload = uploadWriter
	go o.finishUpload(ctx, client, host, upload)

	duplex, duplexWriter := io.Pipe()
	o.duplex = duplexWriter
	o.echoed = bufio.NewReader(get(t, client, http.MethodPost, "https://"+host+"/duplex", duplex, 2).Body)
	t.Cleanup(func() { duplexWriter.Close(); uploadWriter.Close() })
	return o
}

func (o *open) finishUpload(ctx context.Context, client *http.Client, host string, body io.Reader) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+host+"/upload", body)
	if err != nil {
		o.uploaded <- err.Error()
		return
	}
	answer, err := client.Do(request)
	if err != nil {
		o.uploaded <- err.Error()
		return
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	o.uploaded <- string(text)
}

func get(t testing.TB, client *http.Client, method, url string, body io.Reader, protocol int) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.ProtoMajor != protocol {
		t.Fatalf("%s %s came over HTTP/%d, want %d", method, url, answer.ProtoMajor, protocol)
	}
	return answer
}

// exchange sends a word over each stream and fails the test unless it comes back where it should.
func (o *open) exchange(word string) {
	o.t.Helper()
	ctx := o.t.Context()
	if err := o.webSocket.Write(ctx, websocket.MessageText, []byte(word)); err != nil {
		o.t.Fatalf("write %q to the WebSocket: %v", word, err)
	}
	if _, message, err := o.webSocket.Read(ctx); err != nil || string(message) != word {
		o.t.Fatalf("read from the WebSocket: %q, %v; want %q", message, err, word)
	}
	o.streams.tick <- word
	if line := o.line("the SSE stream", o.sse) + o.line("the SSE stream", o.sse); line != "data: "+word {
		o.t.Fatalf("the SSE stream sent %q, want %q", line, "data: "+word)
	}
	n, err := io.WriteString(o.upload, word)
	if err != nil {
		o.t.Fatalf("go on with the upload: %v", err)
	}
	o.sent += n
	if _, err := io.WriteString(o.duplex, word+"\n"); err != nil {
		o.t.Fatalf("write to the HTTP/2 stream: %v", err)
	}
	if line := o.line("the HTTP/2 stream", o.echoed); line != word {
		o.t.Fatalf("the HTTP/2 stream sent %q, want %q", line, word)
	}
}

func (o *open) line(of string, r *bufio.Reader) string {
	o.t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		o.t.Fatalf("read from %s: %v", of, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// finish ends the upload and checks that every byte of it arrived in one piece.
func (o *open) finish() {
	o.t.Helper()
	o.upload.Close()
	if got, want := <-o.uploaded, fmt.Sprintf("%d <nil>", o.sent); got != want {
		o.t.Errorf("the upload ended with %q, want %q", got, want)
	}
}
