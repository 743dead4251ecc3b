package feature

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A meter is a client that notes when bytes come.
type meter struct {
	*httptest.ResponseRecorder
	start   time.Time
	came    []arrival
	flushed int // bytes that had come when the last flush did
	gone    error
}

type arrival struct {
	at    time.Duration
	total int // bytes so far
}

func (m *meter) Write(p []byte) (int, error) {
	if m.gone != nil {
		return 0, m.gone
	}
	n, err := m.ResponseRecorder.Write(p)
	m.came = append(m.came, arrival{time.Since(m.start), m.Body.Len()})
	return n, err
}

func (m *meter) Flush() { m.flushed = m.Body.Len() }

// writing answers with pieces.
func writing(pieces ...int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, piece := range pieces {
			if _, err := w.Write(bytes.Repeat([]byte("x"), piece)); err != nil {
				return
			}
		}
	})
}

func TestAnswersKeepTheRate(t *testing.T) {
	const kib = 1 << 10
	for _, c := range []struct {
		claim               string
		annotations, config pairs
		pieces              []int
		want                time.Duration
	}{
		{"a second's worth goes at once", pairs{"limit-rate": "10"}, nil, []int{10 * kib}, 0},
		{"and the rest at the rate", pairs{"limit-rate": "10"}, nil, []int{50 * kib}, 4 * time.Second},
		{"in pieces", pairs{"limit-rate": "10"}, nil, []int{kib, 20 * kib, 1, kib - 1, 28 * kib}, 4 * time.Second},
		{"after a part", pairs{"limit-rate": "10", "limit-rate-after": "30"}, nil, []int{50 * kib}, time.Second},
		{"slowly", pairs{"limit-rate": "1"}, nil, []int{3 * kib}, 2 * time.Second},
		{"the ConfigMap's", nil, pairs{"limit-rate": "10", "limit-rate-after": "30"}, []int{50 * kib}, time.Second},
		{"which an annotation replaces", pairs{"limit-rate": "0"}, pairs{"limit-rate": "10"}, []int{50 * kib}, 0},
		{"no limit", pairs{"limit-rate-after": "1"}, nil, []int{50 * kib}, 0},
		{"a huge one", pairs{"limit-rate": "2147483647"}, nil, []int{50 * kib, 50 * kib}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, problems := drafting(c.annotations, c.config, bandwidth)
			m := &meter{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
			d.Handler(Place{}, writing(c.pieces...)).ServeHTTP(m, httptest.NewRequest("GET", "/", nil))
			took, total := time.Since(m.start), 0
			for _, piece := range c.pieces {
				total += piece
			}
			if took < c.want || took > c.want+10*time.Millisecond || m.Body.Len() != total || len(problems) > 0 {
				t.Errorf("%s: %d bytes took %v, want %d in %v; problems %v", c.claim, m.Body.Len(), took, total, c.want, problems)
			}
		})
	}
}

// TestBytesFlowEvenly: never more than the rate allows, and never nothing for more than a fifth of a second.
func TestBytesFlowEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := drafting(pairs{"limit-rate": "10", "limit-rate-after": "5"}, nil, bandwidth)
		m := &meter{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
		d.Handler(Place{}, writing(100<<10)).ServeHTTP(m, httptest.NewRequest("GET", "/", nil))
		before := arrival{}
		for _, a := range m.came {
			if most := 5<<10 + int(10*1024*(a.at.Seconds()+1)) + 1; a.total > most {
				t.Fatalf("after %v %d bytes, want at most %d", a.at, a.total, most)
			}
			if a.at-before.at > 200*time.Millisecond {
				t.Fatalf("nothing between %v and %v", before.at, a.at)
			}
			before = a
		}
		if len(m.came) < 50 || m.flushed < 90<<10 {
			t.Errorf("%d writes, %d bytes flushed", len(m.came), m.flushed)
		}
	})
}

// TestAnIdleStreamIsNotHeldBack: a rate that was not used is there when the next event comes.
func TestAnIdleStreamIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := drafting(pairs{"limit-rate": "1"}, nil, bandwidth)
		d.Handler(Place{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				time.Sleep(time.Second)
				before := time.Now()
				w.Write(make([]byte, 1000))
				if held := time.Since(before); held > 0 {
					t.Errorf("an event was held back for %v", held)
				}
			}
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	})
}

func TestAClientThatLeavesEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, leave)
		d, _ := drafting(pairs{"limit-rate": "1"}, nil, bandwidth)
		start := time.Now()
		var err error
		d.Handler(Place{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err = w.Write(make([]byte, 1<<20))
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if took := time.Since(start); took != 3*time.Second || err == nil {
			t.Errorf("%v after %v, want an error after 3s", err, took)
		}
	})
}

func TestAFailedWriteEndsTheAnswer(t *testing.T) {
	d, _ := drafting(pairs{"limit-rate": "1"}, nil, bandwidth)
	m := &meter{ResponseRecorder: httptest.NewRecorder(), gone: context.Canceled}
	d.Handler(Place{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n, err := w.Write(make([]byte, 1<<20)); n != 0 || err != context.Canceled {
			t.Errorf("%d, %v", n, err)
		}
	})).ServeHTTP(m, httptest.NewRequest("GET", "/", nil))
}

// TestSlowedAnswersAreWhole through real connections, and arrive before the endpoint is done.
func TestSlowedAnswersAreWhole(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		read := make(chan struct{})
		p := (&passage{
			annotations: pairs{"limit-rate": "1000000"}, features: []func(*Annotations, *Draft){bandwidth},
			endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Write([]byte("first"))
				w.(http.Flusher).Flush()
				<-read
				w.Write(bytes.Repeat([]byte("x"), 1<<20))
			})},
		}).open(t)
		r := request(t, "GET", scheme+"://h.test/", nil)
		r.URL.Host = p.plain
		if scheme == "https" {
			r.URL.Host = p.secure
		}
		answer, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if n, err := answer.Body.Read(b); string(b[:n]) != "first" {
			t.Errorf("%s: %q, %v", scheme, b[:n], err)
		}
		close(read)
		var rest bytes.Buffer
		if n, err := rest.ReadFrom(answer.Body); n != 1<<20 || err != nil {
			t.Errorf("%s: %d bytes, %v", scheme, n, err)
		}
		answer.Body.Close()
	}
}

func TestARateThatCannotBeReadLetsNobodyIn(t *testing.T) {
	for _, name := range []string{"limit-rate", "limit-rate-after"} {
		for _, text := range []string{"", "10k", "-1", "ten"} {
			d, problems := drafting(pairs{name: text}, nil, bandwidth)
			if status, _ := answerTo(t, d, "10.0.0.1"); status != 503 || len(problems) != 1 {
				t.Errorf("%s: %q answers %d with %v, want 503 with one problem", name, text, status, problems)
			}
		}
	}
}
