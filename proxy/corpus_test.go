package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCorpusOfRequests sends every row of testdata/http1.tsv on a connection of its own. Its columns are an id, what is
// expected, the bytes, and why. A status is expected of the last answer, another refusal will do, and nothing that was
// refused may have been handled; FWD is handled once; NORM is handled once or refused.
func TestCorpusOfRequests(t *testing.T) {
	var handled atomic.Int32
	plain, _ := front(t, &Server{BodyTimeout: 200 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			Fail(w, r, http.StatusBadRequest, BadBody)
			return
		}
		handled.Add(1)
	}))
	file, err := os.ReadFile("testdata/http1.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(file)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		handled.Store(0)
		answers := conversation(t, plain, unescape(t, row[2]))
		last, n := 0, int(handled.Load())
		good := 0 // answers that are no refusals
		for _, last = range answers {
			if last < 300 {
				good++
			}
		}
		switch want := row[1]; {
		case n > good:
			t.Errorf("%s: handled %d times, answered %v (%s)", row[0], n, answers, row[3])
		case want == "FWD" && (len(answers) != 1 || last != 200):
			t.Errorf("%s: answered %v, want 200 (%s)", row[0], answers, row[3])
		case want == "NORM" && len(answers) != 1:
			t.Errorf("%s: answered %v, want one answer (%s)", row[0], answers, row[3])
		case want != "FWD" && want != "NORM" && last < 400:
			t.Errorf("%s: answered %v, want %s (%s)", row[0], answers, want, row[3])
		}
	}
	if rows < 100 {
		t.Errorf("%d rows", rows)
	}
}

// unescape reads the bytes of a row: \r, \n, \t, \\ and \xHH, and @{s*N} for s N times, innermost first.
func unescape(t *testing.T, raw string) string {
	t.Helper()
	repeat := regexp.MustCompile(`@\{([^{}@]*)[*#](\d+)\}`)
	for repeat.MatchString(raw) {
		raw = repeat.ReplaceAllStringFunc(raw, func(s string) string {
			parts := repeat.FindStringSubmatch(s)
			n, _ := strconv.Atoi(parts[2])
			return strings.Repeat(parts[1], n)
		})
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(raw, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%.60s: %v", raw, err)
	}
	return text
}

// conversation sends bytes and returns the statuses of the answers, interim ones left out, until the server closes the
// connection or has nothing more to say to what it got.
func conversation(t *testing.T, addr, text string) (answers []int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
	}()
	reader := bufio.NewReader(c)
	for {
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers
		}
		if _, err := io.ReadAll(answer.Body); err != nil {
			return answers
		}
		if answer.StatusCode >= 200 {
			answers = append(answers, answer.StatusCode)
		}
	}
}
