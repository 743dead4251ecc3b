package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logged is an exchange with everything in it, and its request.
func logged() (*http.Request, *Exchange) {
	r, _ := http.NewRequest("GET", "/a?b=1", nil)
	r.RequestURI, r.Proto, r.Host = "/a?b=1", "HTTP/1.1", "a.test"
	r.Header.Set("User-Agent", "curl/8")
	r.Header.Set("Authorization", "Basic dTpw")
	e := &Exchange{
		ID: "id-1", Method: "GET", Start: time.Date(2026, 12, 1, 10, 20, 30, 0, time.UTC), Took: 1234 * time.Millisecond,
		Client: netip.MustParseAddr("192.0.2.7"), Status: 502, Sent: 12, Received: 345, Reason: UpstreamReset,
		Info: &RouteInfo{Namespace: "shop", Ingress: "web", Service: "app", Port: "http", Host: "a.test", Path: "/"},
	}
	*e.Try(netip.MustParseAddrPort("10.0.0.1:80")) = Attempt{Endpoint: netip.MustParseAddrPort("10.0.0.1:80"), Reason: ConnectRefused, Total: time.Millisecond}
	*e.Try(netip.MustParseAddrPort("10.0.0.2:80")) = Attempt{Endpoint: netip.MustParseAddrPort("10.0.0.2:80"), Status: 200, Received: 6, Total: 2 * time.Millisecond}
	return r, e
}

func TestTextLineIsThatOfNginx(t *testing.T) {
	const want = `192.0.2.7 - u [01/Dec/2026:10:20:30 +0000] "GET /a?b=1 HTTP/1.1" 502 12 "-" "curl/8" 345 1.234 ` +
		"[shop-app-http] [] 10.0.0.1:80, 10.0.0.2:80 0, 6 0.001, 0.002 -, 200 id-1\n"
	r, e := logged()
	if got := string(appendText(nil, r, e)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestJSONLineHasRouteAttemptsAndReason(t *testing.T) {
	r, e := logged()
	line := appendJSON(nil, r, e)
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	for name, want := range map[string]any{
		"remote_addr": "192.0.2.7", "remote_user": "u", "method": "GET", "uri": "/a?b=1", "status": 502.0, "bytes_sent": 12.0,
		"request_length": 345.0, "request_time": 1.234, "user_agent": "curl/8", "request_id": "id-1", "namespace": "shop",
		"ingress": "web", "service": "app", "service_port": "http", "route_path": "/", "reason": "upstream_reset", "time": "2026-12-01T10:20:30Z",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if attempts, _ := got["attempts"].([]any); len(attempts) != 2 || attempts[0].(map[string]any)["reason"] != "connect_refused" {
		t.Errorf("attempts are %v", got["attempts"])
	}
}

func TestClientsCannotForgeLines(t *testing.T) {
	r, e := logged()
	r.Header.Set("User-Agent", "x\" 200\n127.0.0.1 - \\\x1b[2J\xff\u00e9"+strings.Repeat("y", 1<<20))
	text := string(appendText(nil, r, e))
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, `x\x22 200\x0A127.0.0.1 - \x5C\x1B[2J\xFF\xC3\xA9`) || len(text) > 10000 {
		t.Errorf("the text line is %.300q, %d bytes", text, len(text))
	}
	line := appendJSON(nil, r, e)
	var got struct {
		Agent string `json:"user_agent"`
	}
	if err := json.Unmarshal(line, &got); err != nil || bytes.Count(line, []byte("\n")) != 1 || len(line) > 10000 {
		t.Fatalf("the JSON line is %d bytes, %v: %.300q", len(line), err, line)
	}
	if !strings.HasPrefix(got.Agent, "x\" 200\n127.0.0.1 - \\\x1b[2J\ufffd\u00e9yyy") {
		t.Errorf("the agent is %.60q", got.Agent)
	}
}

func TestLogLinesAllocateNothing(t *testing.T) {
	r, e := logged()
	r.Header.Del("Authorization") // its user is decoded, which costs
	buffer := make([]byte, 0, 4096)
	for name, format := range map[string]func([]byte, *http.Request, *Exchange) []byte{"text": appendText, "json": appendJSON} {
		if n := testing.AllocsPerRun(1000, func() { format(buffer, r, e) }); n != 0 {
			t.Errorf("a %s line costs %v allocations", name, n)
		}
	}
}

// TestBlockedReaderStallsNoRequest logs to a pipe that nobody reads: lines are dropped and counted, and when somebody
// reads at last, every line that is there is whole.
func TestBlockedReaderStallsNoRequest(t *testing.T) {
	reader, writer := io.Pipe()
	l := NewAccessLog(writer, TextLog)
	r, e := logged()
	n := uint64(2 * queuedBytes / len(appendText(nil, r, e)))
	for range n {
		l.Log(r, e) // returns, or the test ends here
	}
	if l.Dropped() == 0 {
		t.Errorf("no line of %d was dropped although nobody reads", n)
	}
	read := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(reader)
		read <- text
	}()
	l.Close()
	writer.Close()
	text := <-read
	if got, want := uint64(bytes.Count(text, []byte("\n"))), n-l.Dropped(); got != want {
		t.Errorf("%d lines were written, want %d", got, want)
	}
	if rest := bytes.ReplaceAll(text, appendText(nil, r, e), nil); len(rest) > 0 {
		t.Errorf("lines were torn: %.200q", rest)
	}
}

// TestLongLinesAreBoundedTogether logs lines that a client made as long as they get to a pipe that nobody reads.
func TestLongLinesAreBoundedTogether(t *testing.T) {
	_, writer := io.Pipe()
	l := NewAccessLog(writer, TextLog)
	r, e := logged()
	r.Header.Set("User-Agent", strings.Repeat("\xff", 10000))
	r.Header.Set("Referer", strings.Repeat("\xff", 10000))
	line := len(appendText(nil, r, e))
	for range 2 * queuedBytes / line {
		l.Log(r, e)
	}
	l.mu.Lock()
	waiting := l.waiting
	l.mu.Unlock()
	if waiting > queuedBytes || l.Dropped() == 0 {
		t.Errorf("%d bytes wait and %d lines were dropped; want at most %d bytes", waiting, l.Dropped(), queuedBytes)
	}
	writer.Close()
	l.Close()
	if lines := uint64(2 * queuedBytes / line); l.Dropped() != lines {
		t.Errorf("%d of %d lines are counted that nobody got", l.Dropped(), lines)
	}
}

func TestLineAfterTheEndIsCountedAsDropped(t *testing.T) {
	var out bytes.Buffer
	l := NewAccessLog(&out, TextLog)
	r, e := logged()
	l.Log(r, e)
	l.Close()
	l.Log(r, e)
	if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != 1 || l.Dropped() != 1 {
		t.Errorf("%d lines were written and %d dropped, want 1 and 1", lines, l.Dropped())
	}
}

// A pieces has what was written to it, write by write.
type pieces struct{ all []string }

func (p *pieces) Write(b []byte) (int, error) {
	p.all = append(p.all, string(b))
	return len(b), nil
}

// TestLinesAreWrittenTogether logs in a time of its own: a line after a pause is written at once, those that follow when some
// time has passed, or when they are enough.
func TestLinesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		l := NewAccessLog(&out, TextLog)
		defer l.Close()
		r, e := logged()
		line := string(appendText(nil, r, e))
		step := func(what string, lines int, want ...string) {
			t.Helper()
			for range lines {
				l.Log(r, e)
			}
			synctest.Wait()
			if !slices.Equal(out.all, want) {
				t.Errorf("%s: %d writes, want %d", what, len(out.all), len(want))
			}
			out.all = nil
		}
		step("the first line", 1, line)
		step("three soon after", 3)
		<-time.After(gatherTime)
		step("when they have gathered", 0, line+line+line)
		enough := writeTogether/len(line) + 1
		step("many at once", enough, strings.Repeat(line, enough))
		<-time.After(2 * gatherTime)
		step("a line after a pause", 1, line)
	})
}
