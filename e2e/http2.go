package e2e

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// HoldStreams sends the rows of a corpus of HTTP/2 to a product that start starts, each on a connection of its own over
// TLS, in frames that no client library has cleaned, and looks at what an endpoint gets. A row has an id, what is expected,
// what is sent in the words of [rowsOfStreams], and why. Expected are, with a bar between where either will do:
//
//	FWD          the endpoint gets the one request, and it is the same
//	NORM         so it does, in the one form that is normal; or the request is refused
//	a status     which the client gets, and the endpoint nothing
//	RST, GOAWAY  the end of the stream for PROTOCOL_ERROR, or of the connection for any error
func HoldStreams(t *testing.T, corpus string, start func(t testing.TB, folder string, args ...string) *Process) {
	text, err := os.ReadFile(corpus)
	if err != nil {
		t.Fatal(err)
	}
	w := newStreamWitness(t, start)
	held := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		id, want := columns[0], strings.Split(columns[1], "|")
		requests, known := rowsOfStreams[id]
		if !known {
			t.Errorf("%s: nobody has said what frames that is: %s", id, columns[2])
			continue
		}
		held++
		for _, fields := range requests() {
			if wrong := w.judge(t, fields, want, id); wrong != "" {
				t.Errorf("%s: %q: %s; want %s (%s)", id, fields, wrong, columns[1], columns[3])
			}
		}
	}
	t.Logf("%d rows", held)
	if held != len(rowsOfStreams) {
		t.Errorf("%d rows of %d are in the corpus", held, len(rowsOfStreams))
	}
}

// A streamHead is the fields of a request as they are sent, pairs of a name and a value.
type streamHead [][2]string

// ask is the head of the control with some fields in place of its own, and more behind them.
func ask(more ...string) streamHead {
	head := streamHead{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.test"}, {":path", "/x"}}
	for i := 0; i < len(more); i += 2 {
		at := slices.IndexFunc(head, func(f [2]string) bool { return f[0] == more[i] && more[i][0] == ':' })
		if at < 0 {
			head = append(head, [2]string{})
			at = len(head) - 1
		}
		head[at] = [2]string{more[i], more[i+1]}
	}
	return head
}

func one(head streamHead) func() []streamHead {
	return func() []streamHead { return []streamHead{head} }
}

// rowsOfStreams are the rows in frames, one HEADERS with END_STREAM for each head. A row with several has as many
// connections, but for A41, which is what one connection carries.
var rowsOfStreams = map[string]func() []streamHead{
	"A01": one(ask()),
	"A03": one(ask(":path", "/x y")),
	"A08": one(ask(":path", "*")),
	"A09": one(ask(":path", "")),
	"A10": func() (heads []streamHead) {
		for _, b := range []byte("\"<>\\^`{|}") {
			heads = append(heads, ask(":path", "/x"+string(rune(b))))
		}
		for b := 0x80; b <= 0xff; b++ {
			heads = append(heads, ask(":path", "/x"+string([]byte{byte(b)})))
		}
		return heads
	},
	"A11": one(ask(":authority", `a.test/ b"<>`)),
	"A12": one(ask(":authority", "u@a.test")),
	"A13": one(ask("host", "b.test")),
	"A14": one(streamHead{{":method", "GET"}, {":scheme", "https"}, {":path", "/x"}, {"host", "b.test"}}),
	"A18": one(ask(":scheme", "https://b/?")),
	"A19": one(ask(":method", "GET / HTTP/1.1")),
	"A20": one(ask(":method", "get")),
	"A21": one(ask("transfer-encoding", "chunked")),
	"A22": one(ask("connection", "keep-alive")),
	"A23": one(ask("upgrade", "websocket")),
	"A24": one(ask("X-A", "b")),
	"A26": one(ask("x-a", "b\r\ny: z")),
	"A29": one(streamHead{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.test"}, {"x-a", "b"}, {":path", "/x"}}),
	"A31": one(ask(":method", "POST", "content-length", "5")),
	"A32": one(ask(":method", "POST", "content-length", "0", "content-length", "5")),
	"A34": one(streamHead{{":method", "CONNECT"}, {":authority", "b.test:443"}}),
	"A35": one(ask(":method", "CONNECT", ":protocol", "websocket", "sec-websocket-version", "13")),
	"A36": one(ask(":authority", "guarded.test")), // which asks for certificates in its handshake
	"A37": one(ask("te", "gzip")),
	"A39": one(ask("x_forwarded_for", "9.9.9.9")),
	"A41": one(func() streamHead {
		head := ask()
		for range 255 {
			head = append(head, [2]string{"cookie", strings.Repeat("c", 4000)})
		}
		return head
	}()),
}

// A streamWitness is a product with an endpoint that keeps the requests it gets.
type streamWitness struct {
	product *Process

	mu  sync.Mutex
	got []*http.Request // guarded by mu
}

func newStreamWitness(t *testing.T, start func(t testing.TB, folder string, args ...string) *Process) *streamWitness {
	w := new(streamWitness)
	endpoint := Serve(t, "127.0.0.1:0", "witness", http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, r.Clone(r.Context()))
	}))
	const ingress = "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s}\nspec:\n  rules:\n" +
		"  - {host: %s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: app, port: {number: 80}}}}]}}\n"
	const guard = "{name: guarded, annotations: {nginx.ingress.kubernetes.io/auth-tls-secret: default/ca}}\nspec:\n" +
		"  tls: [{hosts: [guarded.test]}]"
	guarded := strings.Replace(fmt.Sprintf(ingress, "guarded", "guarded.test"), "{name: guarded}\nspec:", guard, 1)
	ca := base64.StdEncoding.EncodeToString(NewAuthority(t, "ca").PEM())
	w.product = start(t, Folder(t, map[string]string{
		"app.yaml": fmt.Sprintf(ingress, "a", "a.test") + fmt.Sprintf(ingress, "b", "b.test") + guarded,
		"ca.yaml":  "apiVersion: v1\nkind: Secret\nmetadata: {name: ca}\ndata: {ca.crt: " + ca + "}\n",
	}), "--map=default/app="+endpoint.Addr)
	return w
}

// tooManyStreams is how a stream ends that is one too many at once for its connection (RFC 9113 section 5.1.2). How many of those
// that come together are depends on how soon the others are answered.
const tooManyStreams = "RST for REFUSED_STREAM"

// judge says what is wrong with how the product takes a request; "" for nothing.
func (w *streamWitness) judge(t *testing.T, head streamHead, want []string, id string) string {
	w.mu.Lock()
	w.got = nil
	w.mu.Unlock()
	streams := 1
	if id == "A41" {
		streams = 250
	}
	outcomes, err := w.send(head, streams)
	if err != nil {
		return err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	refused := 0
	for _, outcome := range outcomes {
		switch {
		case streams > 1 && outcome == tooManyStreams:
			if refused++; refused == streams {
				return outcome
			}
			continue
		case outcome == "200" && (slices.Contains(want, "FWD") || slices.Contains(want, "NORM")):
			if wrong := w.compare(head); wrong != "" {
				return wrong
			}
			continue
		case !slices.Contains(want, outcome) && !(slices.Contains(want, "NORM") && outcome[0] == '4'):
			return outcome
		}
		if len(w.got) > 0 {
			return fmt.Sprintf("%s, and the endpoint got %s %s", outcome, w.got[0].Method, w.got[0].RequestURI)
		}
	}
	return ""
}

// compare says what is wrong with what the endpoint got.
func (w *streamWitness) compare(head streamHead) string {
	if len(w.got) != 1 {
		return fmt.Sprintf("the endpoint got %d requests", len(w.got))
	}
	r, value := w.got[0], make(map[string]string)
	for _, f := range head {
		value[f[0]] = f[1]
	}
	host := cmp.Or(value[":authority"], value["host"])
	if r.Method != value[":method"] || r.RequestURI != value[":path"] || r.Host != host || r.ContentLength != 0 {
		return fmt.Sprintf("the endpoint got %s %s for %s with %d bytes", r.Method, r.RequestURI, r.Host, r.ContentLength)
	}
	for name := range r.Header {
		if strings.Contains(name, "_") {
			return "the endpoint got " + name
		}
	}
	return ""
}

// send sends the head on so many streams of a connection, and returns what becomes of each.
func (w *streamWitness) send(head streamHead, streams int) (outcomes []string, err error) {
	c, err := tls.Dial("tcp", w.product.HTTPS, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var out bytes.Buffer // sent at once
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range streams {
		block.Reset()
		for _, f := range head {
			encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		if err != nil {
			return nil, err
		}
	}
	go io.Copy(c, &out)
	for len(outcomes) < streams {
		frame, err := framer.ReadFrame()
		if err != nil {
			return outcomes, fmt.Errorf("%v, then %w", outcomes, err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			outcomes = append(outcomes, frame.PseudoValue("status"))
		case *http2.RSTStreamFrame:
			if frame.ErrCode == http2.ErrCodeProtocol {
				outcomes = append(outcomes, "RST")
			} else if frame.ErrCode != http2.ErrCodeNo {
				outcomes = append(outcomes, "RST for "+frame.ErrCode.String())
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode == http2.ErrCodeNo {
				return outcomes, errors.New("GOAWAY without an error")
			}
			return append(outcomes, "GOAWAY"), nil
		}
	}
	return outcomes, nil
}
