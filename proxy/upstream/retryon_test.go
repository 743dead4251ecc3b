package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/proxy"
)

// retrying are quick options with what a route says about retries.
func retrying(on RetryOn, tries int) Options {
	o := quick
	o.Retry, o.Tries = on, tries
	return o
}

func answer5xx(status int) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 4\r\nX-Dropped: 1\r\n\r\nlost", status)
}

// counting is an endpoint that counts the requests it has read, bodies included, and runs script for each.
func counting(t *testing.T, seen *atomic.Int64, script func(s *session, body string)) netip.AddrPort {
	return endpoint(t, func(s *session) {
		for r := s.request(); r != nil; r = s.request() {
			b, _ := io.ReadAll(r.Body)
			seen.Add(1)
			script(s, string(b))
		}
	})
}

// A21 row 38.
func TestReadTimeoutOfAGETIsTriedThreeTimesOnOneEndpoint(t *testing.T) {
	for _, c := range []struct {
		method string
		on     RetryOn
		tries  int
	}{
		{"GET", 0, 3}, {"PUT", 0, 3}, {"POST", 0, 1}, {"PATCH", 0, 1}, {"LOCK", 0, 1},
		{"POST", RetryOnTimeout | RetryNonIdempotent, 3},
		{"GET", RetryOnError, 1}, {"GET", RetryOff, 1}, {"GET", RetryOff | RetryOnTimeout, 1},
	} {
		t.Run(fmt.Sprint(c.method, c.on), func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			f := front(t, 1, New(poolOf(t, counting(t, &seen, func(s *session, _ string) {})), retrying(c.on, 0)))
			begun := time.Now()
			got, e := f.do(t, f.request(t, c.method, "/", nil)), f.exchange(t)
			if took := time.Since(begun); got.StatusCode != 504 || e.Reason != proxy.HeaderTimeout || len(e.Attempts) != c.tries ||
				took < time.Duration(c.tries)*quick.ReadTimeout {
				t.Errorf("status %d, reason %q, %d attempts in %v; want 504 after %d", got.StatusCode, e.Reason, len(e.Attempts), took, c.tries)
			}
		})
	}
}

// A21 row 40.
func TestResetAfterThePOSTWasReadIs502(t *testing.T) {
	for method, status := range map[string]int{"POST": 502, "GET": 200} {
		resets := endpoint(t, func(s *session) { s.request(); s.reset() })
		f := front(t, 1, New(poolOf(t, resets, endpoint(t, answers(ok2))), quick))
		if got := f.do(t, f.request(t, method, "/", nil)); got.StatusCode != status {
			t.Errorf("%s: status %d, want %d", method, got.StatusCode, status)
		}
	}
}

func TestOffMeansThatRefusalsAreAnswered(t *testing.T) {
	for on, status := range map[RetryOn]int{RetryOff: 502, RetryOn500: 502, RetryOnTimeout: 502, RetryOnError: 200} {
		f := front(t, 1, New(poolOf(t, refused(t), endpoint(t, answers(ok2))), retrying(on, 0)))
		if got := f.get(t, "/"); got.StatusCode != status {
			t.Errorf("%b: status %d, want %d", on, got.StatusCode, status)
		}
	}
}

func TestStatusesAreRetriedWhereTheRouteSaysSo(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504, 403, 404, 429} {
		on, known := RetryWord(fmt.Sprint("http_", status))
		if !known {
			t.Fatalf("http_%d is no word", status)
		}
		for _, c := range []struct {
			method string
			on     RetryOn
			want   int
		}{
			{"GET", on, 200}, {"GET", 0, status}, {"GET", on | RetryOff, status}, {"GET", (RetryOff - 1) &^ on, status},
			{"POST", on, status}, {"POST", on | RetryNonIdempotent, 200},
		} {
			f := front(t, 1, New(poolOf(t, endpoint(t, answers(answer5xx(status))), endpoint(t, answers(ok2))), retrying(c.on, 0)))
			got, e := f.do(t, f.request(t, c.method, "/", nil)), f.exchange(t)
			if got.StatusCode != c.want || (got.Header.Get("X-Dropped") != "") != (c.want == status) || e.Reason != "" {
				t.Errorf("%d, %s, retry %b: status %d, header %v, reason %q; want %d", status, c.method, c.on, got.StatusCode, got.Header, e.Reason, c.want)
			}
			if e.Attempts[0].Status != status {
				t.Errorf("the first attempt is %+v, want its status %d", e.Attempts[0], status)
			}
		}
	}
}

func TestLastAnswerIsRelayedWhenTriesRunOut(t *testing.T) {
	for tries, want := range map[int]int64{1: 1, 2: 2, 0: 3, 7: 7, -1: maxTries} {
		var seen atomic.Int64
		addr := counting(t, &seen, func(s *session, _ string) {
			text := fmt.Sprint(seen.Load())
			s.send(fmt.Sprintf("HTTP/1.1 503 X\r\nContent-Length: %d\r\nX-Number: %s\r\n\r\n%s", len(text), text, text))
		})
		f := front(t, 1, New(poolOf(t, addr), retrying(RetryOn503, tries)))
		got, e := f.get(t, "/"), f.exchange(t)
		if seen.Load() != want || got.StatusCode != 503 || got.text != fmt.Sprint(want) || len(got.Header["X-Number"]) != 1 || e.Reason != "" {
			t.Errorf("%d tries: seen %d, status %d, %q, X-Number %q; want the %dth answer", tries, seen.Load(), got.StatusCode, got.text, got.Header["X-Number"], want)
		}
		if last := e.Attempts[len(e.Attempts)-1]; want > 1 && !last.Reused {
			t.Errorf("%d tries: the connection of a small answer that was dropped is not used again: %+v", tries, last)
		}
	}
}

// TestAnswerThatIsDroppedDelaysNothing: neither one that has no end nor one that does not come.
func TestAnswerThatIsDroppedDelaysNothing(t *testing.T) {
	for name, text := range map[string]string{
		"stalled":     "HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nlo",
		"large":       "HTTP/1.1 503 X\r\nContent-Length: 999999\r\n\r\nlo",
		"until close": "HTTP/1.1 503 X\r\n\r\nlo",
		"chunks":      "HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nlo\r\n",
	} {
		o := retrying(RetryOn503, 0)
		o.ReadTimeout = time.Hour
		f := front(t, 1, New(poolOf(t, endpoint(t, stall(text)), endpoint(t, answers(ok2))), o))
		if got := f.get(t, "/"); got.text != "ok" {
			t.Errorf("%s: status %d, %q; want ok", name, got.StatusCode, got.text)
		}
	}
}

func TestInvalidHeaderIsRetriedWhereTheRouteSaysSo(t *testing.T) {
	for on, status := range map[RetryOn]int{0: 502, RetryOnInvalidHeader: 200} {
		f := front(t, 1, New(poolOf(t, endpoint(t, stall("SSH-2.0\r\n")), endpoint(t, answers(ok2))), retrying(on, 0)))
		if got := f.get(t, "/"); got.StatusCode != status {
			t.Errorf("%b: status %d, want %d", on, got.StatusCode, status)
		}
	}
}

func TestNoTryBeginsWhenTheTimeForThemIsOver(t *testing.T) {
	o := retrying(0, 10)
	o.RetryTimeout = quick.ReadTimeout * 3 / 2
	f := front(t, 1, New(poolOf(t, endpoint(t, stall(""))), o))
	if got, e := f.get(t, "/"), f.exchange(t); got.StatusCode != 504 || len(e.Attempts) != 2 {
		t.Errorf("status %d, %d attempts; want 504 after two", got.StatusCode, len(e.Attempts))
	}
}

func TestEndpointsThatWereNotTriedComeFirst(t *testing.T) {
	var first, second atomic.Int64
	fails := func(s *session, _ string) { s.send(answer5xx(503)) }
	f := front(t, 1, New(poolOf(t, counting(t, &first, fails), counting(t, &second, fails)), retrying(RetryOn503, 4)))
	if f.get(t, "/"); first.Load() != 2 || second.Load() != 2 {
		t.Errorf("the endpoints were asked %d and %d times, want 2 and 2", first.Load(), second.Load())
	}
}

// A replay is a body that can be read again.
type replay struct {
	*strings.Reader
	held    []byte // the whole of it; nil: a file has some
	rewound int
}

func (r *replay) Rewind() error {
	r.rewound++
	_, err := r.Seek(0, io.SeekStart)
	return err
}
func (r *replay) Bytes() []byte { return r.held }
func (r *replay) Close() error  { return nil }

// TestBodyIsSentAgainOnlyIfItCanBeReadAgain sends one that is streamed: larger than what is read first, or of no known length.
func TestBodyIsSentAgainOnlyIfItCanBeReadAgain(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 4096)
	for _, c := range []struct {
		name     string
		rewinds  bool
		length   int64
		script   func(*session)
		method   string
		on       RetryOn
		status   int
		attempts int
	}{
		{"status", true, int64(len(text)), answers(answer5xx(503)), "PUT", RetryOn503, 200, 2},
		{"status, no length", true, -1, answers(answer5xx(503)), "PUT", RetryOn503, 200, 2},
		{"status, POST", true, int64(len(text)), answers(answer5xx(503)), "POST", RetryOn503, 503, 1},
		{"status, POST that may", true, int64(len(text)), answers(answer5xx(503)), "POST", RetryOn503 | RetryNonIdempotent, 200, 2},
		{"early status", true, int64(len(text)), stall(answer5xx(503)), "PUT", RetryOn503, 200, 2},
		{"status, streamed", false, int64(len(text)), answers(answer5xx(503)), "PUT", RetryOn503, 503, 1},
		{"reset", true, int64(len(text)), func(s *session) { s.head(); s.reset() }, "PUT", 0, 200, 2},
		{"reset, streamed", false, int64(len(text)), func(s *session) { s.head(); s.reset() }, "PUT", 0, 502, 1},
		{"timeout", true, int64(len(text)), func(s *session) { s.request(); io.CopyN(io.Discard, s.in, int64(len(text))); s.hang() }, "PUT", 0, 200, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := endpoint(t, func(s *session) {
				if b, _ := io.ReadAll(s.request().Body); string(b) == text {
					s.send(ok2)
				}
			})
			body := &replay{Reader: strings.NewReader(text)}
			last := New(poolOf(t, endpoint(t, c.script), good), retrying(c.on, 0))
			f := front(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if r.Body, r.ContentLength = body, c.length; !c.rewinds {
					r.Body = io.NopCloser(body.Reader)
				}
				last.ServeHTTP(w, r)
			}))
			got, e := f.do(t, f.request(t, c.method, "/", nil)), f.exchange(t)
			if got.StatusCode != c.status || len(e.Attempts) != c.attempts || body.rewound != c.attempts-1 {
				t.Errorf("status %d, %d attempts, rewound %d times, reason %q; want %d after %d", got.StatusCode, len(e.Attempts), body.rewound, e.Reason, c.status, c.attempts)
			}
			if got.Close && c.rewinds {
				t.Error("the client's connection ends, though nothing of its body was left")
			}
		})
	}
}

func TestRefusedConnectionDoesNotTouchTheBody(t *testing.T) { // A21 row 39, with a body that cannot be read again
	good := endpoint(t, func(s *session) {
		if b, _ := io.ReadAll(s.request().Body); len(b) == 64<<10 {
			s.send(ok2)
		}
	})
	f := front(t, 1, New(poolOf(t, refused(t), good), quick))
	if got := f.do(t, f.request(t, "POST", "/", io.LimitReader(zeros{}, 64<<10))); got.text != "ok" {
		t.Errorf("status %d, %q; want ok", got.StatusCode, got.text)
	}
}

func TestRetryWords(t *testing.T) {
	var all RetryOn
	for word := range strings.FieldsSeq("error timeout invalid_header http_500 http_502 http_503 http_504 http_403 http_404 http_429 non_idempotent off") {
		on, known := RetryWord(word)
		if !known || on == 0 || all&on != 0 {
			t.Errorf("%s is %b, %v; want a bit of its own", word, on, known)
		}
		all |= on
	}
	if on, known := RetryWord("http_501"); known || on != 0 {
		t.Errorf("http_501 is %b, %v; want an unknown word", on, known)
	}
}
