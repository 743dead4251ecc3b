package upstream

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"sallyport/proxy"
)

// A behaviour is what an endpoint does on a connection and what becomes of it.
type behaviour struct {
	name   string
	script func(*session)
	method string // "" is GET
	body   string
	status int
	reason proxy.Reason
	text   string // of a relayed answer
	cut    bool   // the client sees the answer broken off
	tries  int    // 0 is one
}

// once reads a request and sends text; then the endpoint ends the connection.
func once(text string) func(*session) {
	return func(s *session) {
		s.head()
		s.send(text)
	}
}

// stall reads a request and sends text; then the endpoint does nothing.
func stall(text string) func(*session) {
	return func(s *session) {
		s.head()
		s.send(text)
		s.hang()
	}
}

const ok2 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

var behaviours = []behaviour{
	{name: "answers", script: answers(ok2), status: 200, text: "ok"},
	{name: "until close", script: once("HTTP/1.1 200 OK\r\n\r\nok"), status: 200, text: "ok"},
	{name: "HTTP/1.0", script: once("HTTP/1.0 200 OK\r\n\r\nok"), status: 200, text: "ok"},
	{name: "no reason phrase", script: once("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"), status: 200, text: "ok"},
	{name: "chunked", script: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n"), status: 200, text: "ok"},
	{name: "no content", script: answers("HTTP/1.1 204 No Content\r\n\r\n"), status: 204},
	{name: "unknown status", script: answers("HTTP/1.1 599 X\r\nContent-Length: 0\r\n\r\n"), status: 599},
	{name: "error of its own", script: answers("HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\nno"), status: 500, text: "no"},
	{name: "HEAD with length", method: "HEAD", script: answers("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), status: 200},
	{name: "not modified with length", script: answers("HTTP/1.1 304 X\r\nContent-Length: 5\r\nEtag: \"a\"\r\n\r\n"), status: 304},
	{name: "interim answers", script: once("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok2), status: 200, text: "ok"},
	{name: "eight interim answers", script: once(strings.Repeat("HTTP/1.1 103 X\r\n\r\n", 8) + ok2), status: 200, text: "ok"},

	{name: "no answer", script: stall(""), status: 504, reason: proxy.HeaderTimeout, tries: 3},
	{name: "no answer to a body", method: "POST", body: "x", script: stall(""), status: 504, reason: proxy.HeaderTimeout},
	{name: "half a head", script: stall("HTTP/1.1 200 OK\r\nContent-"), status: 504, reason: proxy.HeaderTimeout},
	{name: "half a head then end", script: once("HTTP/1.1 200 OK\r\nContent-"), status: 502, reason: proxy.UpstreamReset},
	{name: "end before head", script: once(""), status: 502, reason: proxy.UpstreamReset, tries: 3},
	{name: "reset before head", script: func(s *session) { s.head(); s.reset() }, status: 502, reason: proxy.UpstreamReset, tries: 3},
	{name: "end before head of an answer to a body", method: "POST", body: "x", script: once(""), status: 502, reason: proxy.UpstreamReset},
	{name: "interim then end", script: once("HTTP/1.1 103 X\r\n\r\n"), status: 502, reason: proxy.UpstreamReset},

	{name: "body stalls", script: stall("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok"), status: 200, text: "ok", reason: proxy.ReadTimeout, cut: true},
	{name: "half a body", script: once("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok"), status: 200, text: "ok", reason: proxy.UpstreamReset, cut: true},
	{name: "chunks end early", script: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), status: 200, text: "ok", reason: proxy.UpstreamReset, cut: true},
	{name: "trailer ends early", script: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b"), status: 200, text: "ok", reason: proxy.UpstreamReset, cut: true},
	{name: "bad chunk size", script: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0x2\r\nok\r\n"), status: 200, text: "ok", reason: proxy.UpstreamInvalid, cut: true},
	{name: "bad chunk end", script: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n"), status: 200, text: "ok", reason: proxy.UpstreamInvalid, cut: true},
	{name: "reset within body", script: func(s *session) {
		s.head()
		s.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
		s.in.Peek(1) // returns when the client has hung up, which it does on what it has got
		s.reset()
	}, status: 200, text: "ok", reason: proxy.ReadTimeout, cut: true},

	{name: "garbage", script: stall("SSH-2.0-OpenSSH_9.2\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "binary garbage", script: stall("\x15\x03\x01\x00\x02\x02\x50"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "HTTP/2", script: stall("HTTP/2 200 OK\r\n\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "bare LF", script: stall("HTTP/1.1 200 OK\nContent-Length: 0\n\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "folded field", script: stall("HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "space before colon", script: stall("HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "equal lengths", script: stall("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "signed length", script: stall("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "chunked in HTTP/1.0", script: stall("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "too many fields", script: stall("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1001) + "\r\n"), status: 502, reason: proxy.UpstreamInvalid},
	{name: "head over the limit", script: stall("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 300<<10) + "\r\n\r\n"), status: 502, reason: proxy.UpstreamTooBig},
	{name: "head under the limit", script: answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: " + strings.Repeat("x", 200<<10) + "\r\n\r\nok"), status: 200, text: "ok"},
}

func TestEndpointBehaviours(t *testing.T) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			bothVersions(t, func(t *testing.T, version int) {
				t.Parallel()
				f := front(t, version, New(poolOf(t, endpoint(t, b.script)), quick))
				f.client.Transport.(*http.Transport).MaxResponseHeaderBytes = 1 << 20
				b.check(t, f)
			})
		})
	}
}

func (b behaviour) check(t *testing.T, f *frontdoor) {
	t.Helper()
	method := b.method
	if method == "" {
		method = "GET"
	}
	var body io.Reader
	if b.body != "" {
		body = strings.NewReader(b.body)
	}
	got := f.do(t, f.request(t, method, "/", body))
	e := f.exchange(t)
	if got.StatusCode != b.status || e.Reason != b.reason {
		t.Errorf("status %d, reason %q; want %d, %q", got.StatusCode, e.Reason, b.status, b.reason)
	}
	if (got.err != nil) != b.cut {
		t.Errorf("reading the body: %v; want it cut: %v", got.err, b.cut)
	}
	if relayed := b.reason == "" || b.cut; relayed && got.text != b.text {
		t.Errorf("body %q, want %q", got.text, b.text)
	}
	if len(e.Attempts) != max(1, b.tries) {
		t.Fatalf("%d attempts, want %d", len(e.Attempts), max(1, b.tries))
	}
	for _, a := range e.Attempts {
		if a.Reason != b.reason || a.Total <= 0 || b.reason == "" && a.Status != b.status {
			t.Errorf("attempt %+v, want reason %q and a time", a, b.reason)
		}
	}
}

// corpus are the scripts of testdata/upstream.tsv by their id. Those of [elsewhere] are tests of their own, since it is the
// client, or the next request, that shows what happened.
var corpus = map[string]behaviour{
	"B01": {script: stall("HTTP/1.1 000 X\r\nContent-Length: 2\r\n\r\nok")},
	"B02": {script: stall("HTTP/1.1 099 X\r\nContent-Length: 2\r\n\r\nok")},
	"B03": {script: once("HTTP/1.1 100 Continue\r\n\r\n" + ok2), text: "ok"},
	"B04": {script: stall("HTTP/1.1 199 X\r\n\r\n")},
	"B05": {script: stall("HTTP/1.1 600 X\r\nContent-Length: 2\r\n\r\nok")},
	"B07": {script: stall("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n")},
	"B08": {script: stall("HTTP/1.1 101 X\r\n\r\n")},
	"B09": {script: once("HTTP/1.1 103 X\r\nLink: </a>\r\nSet-Cookie: a=b\r\n\r\n" + ok2), text: "ok"},
	"B11": {script: stall(strings.Repeat("HTTP/1.1 103 X\r\nLink: </a>\r\n\r\n", 2000))},
	"B13": {script: stall("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk")},
	"B14": {script: stall("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n")},
	"B15": {script: stall("HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 2\r\n\r\nok")},
	"B16": {script: stall("HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 2\r\n\r\nok")},
	"B17": {script: stall("HTTP/1.1 200 OK\r\nA b: c\r\nContent-Length: 2\r\n\r\nok")},
	"B23": {script: stall("HTTP/1.1 204 X\r\nContent-Length: 4\r\n\r\nabcd")},
	"B25": {script: stall("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")},
	"B29": {script: once("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n<script>"), text: "<script>"},
}

// elsewhere are the tests of the other rows.
var elsewhere = map[string]func(*testing.T){
	"B10": TestNoInterimAnswerForHTTP10,
	"B20": TestUnaskedAnswerReachesNobody,
	"B30": TestEarlyAnswerReachesAClientThatIsUploading,
	"B32": TestOnlyRequestsThatNginxCallsIdempotentAreRepeated,
}

// TestCorpusOfEndpointFaults holds the rows of testdata/upstream.tsv. Its columns are an id, what is expected, what the
// endpoint sends, and why. FWD is relayed; a status is our own; where NORM will do as well, ours is a refusal.
func TestCorpusOfEndpointFaults(t *testing.T) {
	file, err := os.ReadFile("testdata/upstream.tsv")
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]struct {
		status int
		reason proxy.Reason
	}{"FWD": {200, ""}, "502": {502, proxy.UpstreamInvalid}, "502|NORM": {502, proxy.UpstreamInvalid}, "504": {504, proxy.HeaderTimeout}}
	rows := 0
	for line := range strings.Lines(string(file)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		if elsewhere[row[0]] != nil {
			continue
		}
		b, ok := corpus[row[0]]
		want, known := expected[row[1]]
		if !ok || !known {
			t.Errorf("%s, %s: no script, or nobody has said what that means", row[0], row[1])
			continue
		}
		if b.status, b.reason = want.status, want.reason; row[0] == "B23" {
			b.status = 204
		}
		t.Run(row[0], func(t *testing.T) {
			bothVersions(t, func(t *testing.T, version int) {
				t.Parallel()
				b.check(t, front(t, version, New(poolOf(t, endpoint(t, b.script)), quick)))
			})
		})
	}
	if rows != len(corpus)+len(elsewhere) {
		t.Errorf("%d rows, %d scripts", rows, len(corpus)+len(elsewhere))
	}
}
