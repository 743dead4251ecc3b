package http1

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seeds are the rows of the corpus, which is what is known to be read in several ways, but for those of many kilobytes.
func seeds(t testing.TB) (all [][]byte) {
	file, err := os.ReadFile("../testdata/http1.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(row) < 3 {
			continue
		}
		if data := unescape(t, row[2]); len(data) < 2000 {
			all = append(all, data)
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d rows of the corpus", len(all))
	}
	return all
}

// unescape reads the bytes of a row: \r, \n, \t, \\ and \xHH, and @{s*N} for s N times, innermost first.
func unescape(t testing.TB, raw string) []byte {
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
	return []byte(text)
}

// piecewise gives out at most step bytes at a time, and counts how often it is asked.
type piecewise struct {
	data  []byte
	step  int
	reads int
}

func (p *piecewise) Read(b []byte) (int, error) {
	p.reads++
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(p.step, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// FuzzRequestHead holds the reader of request heads against the grammar: it accepts the same heads, reads the same out of
// them, and finds the same end, in whatever pieces they come.
func FuzzRequestHead(f *testing.F) {
	for i, data := range seeds(f) {
		f.Add(data, uint8(i), uint16(0), uint8(0))
	}
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: x ,\tClose\r\nA:\r\nB: \t c d\xff \r\n\r\nGET"), uint8(1), uint16(40), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, step uint8, most uint16, fields uint8) {
		limit := Limit{Bytes: int(most), Fields: int(fields)}
		if most == 0 {
			limit.Bytes = MaxHead
		}
		if fields == 0 {
			limit.Fields = maxFields
		}
		want, whole, ok := readRequest(data, limit)
		for _, step := range []int{len(data) + 1, int(step) + 1, 1} {
			src := &piecewise{data: data, step: step}
			var r Reader
			r.Reset(src)
			var got Request
			err := r.Request(&got, limit)
			switch {
			case (err == nil) != ok:
				t.Fatalf("by %d: %v; the grammar says %v", step, err, ok)
			case err != nil:
				if Status(err) == 0 && (whole || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)) {
					t.Fatalf("by %d: %v, of a whole head", step, err)
				}
				r.Release()
				continue
			}
			length, closes := got.Length, got.Close
			if got.Chunked {
				length = -1
			}
			rest := string(r.Buffered()) + string(src.data)
			if got.Method != want.method || got.Target != want.target || got.Minor != min(want.minor, 1) || !slices.Equal(got.Fields, want.fields) {
				t.Errorf("by %d: read as %q %q %d %q\nwant %q %q %d %q", step, got.Method, got.Target, got.Minor, got.Fields, want.method, want.target, want.minor, want.fields)
			}
			if length != want.length || closes != want.close || rest != octets(want.rest) {
				t.Errorf("by %d: length %d, close %v, then %q\nwant length %d, close %v, then %q", step, length, closes, rest, want.length, want.close, octets(want.rest))
			}
			r.Release()
		}
	})
}

// FuzzChunks does for chunked bodies and their trailers what FuzzRequestHead does for heads.
func FuzzChunks(f *testing.F) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for i, data := range seeds(f) {
		if _, body, ok := bytes.Cut(data, []byte("\r\n\r\n")); ok && len(body) > 0 {
			f.Add(body, uint8(i))
		}
	}
	f.Add([]byte("3 ;a=\"b\"\r\nabc\r\n00A\r\n0123456789\r\n0;x\r\nA: b\r\nHost: c\r\n\r\nGET"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		body, trailer, rest, ok := readChunks(latin1(data))
		for _, step := range []int{len(head) + len(data), int(step) + 1, 1} {
			src := &piecewise{data: append([]byte(head), data...), step: step}
			var r Reader
			r.Reset(src)
			var req Request
			if err := r.Request(&req, Limit{}); err != nil {
				t.Fatal(err)
			}
			var got []byte
			var err error
			for err == nil {
				reads, ready := src.reads, r.Ready()
				var piece []byte
				piece, err = r.Body()
				got = append(got, piece...)
				if ready && src.reads != reads {
					t.Fatalf("by %d: ready behind %q, but it read", step, got)
				}
			}
			if (err == io.EOF) != ok {
				t.Fatalf("by %d: %v; the grammar says %v", step, err, ok)
			}
			if ok && (string(got) != body || !slices.Equal(r.Trailer(), trailer) || string(r.Buffered())+string(src.data) != octets(rest)) {
				t.Errorf("by %d: %q, trailer %q, then %q\nwant %q, trailer %q, then %q", step, got, r.Trailer(), string(r.Buffered())+string(src.data), body, trailer, octets(rest))
			}
			if !ok && Status(err) == 0 && err != io.ErrUnexpectedEOF {
				t.Errorf("by %d: %v", step, err)
			}
			r.Release()
		}
	})
}
