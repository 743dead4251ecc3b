package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const wrkSaid = `Running 2s test @ http://127.0.0.1:21004/
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     4.87ms    2.45ms  27.40ms   75.13%
    Req/Sec     6.71k     1.02k    9.24k    70.00%
  26803 requests in 2.01s, 11.19MB read
Requests/sec:  13323.06
Transfer/sec:      5.56MB
`

const h2loadSaid = `finished in 2.00s, 9061.50 req/s, 2.71MB/s
requests: 18123 total, 18379 started, 18123 done, 18123 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 18123 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 5.43MB (5690622) total, 1.28MB (1341102) headers (space savings 74.13%), 2.80MB (2935926) data
`

func TestClientsAreBelievedOnlyWhenAllWentWell(t *testing.T) {
	for _, test := range []struct {
		name string
		read func(string) (int, error)
		said string
		want int // 0: an error
	}{
		{"wrk", readWrk, wrkSaid, 26803},
		{"wrk, broken connections", readWrk, wrkSaid + "  Socket errors: connect 0, read 3, write 0, timeout 0\n", 0},
		{"wrk, other answers", readWrk, wrkSaid + "  Non-2xx or 3xx responses: 12\n", 0},
		{"wrk, nothing answered", readWrk, strings.Replace(wrkSaid, "26803", "0", 1), 0},
		{"wrk, nothing said", readWrk, "", 0},
		{"h2load", readH2load, h2loadSaid, 18123},
		{"h2load, failures", readH2load, strings.Replace(h2loadSaid, "0 failed", "2 failed", 1), 0},
		{"h2load, other answers", readH2load, strings.Replace(h2loadSaid, "0 5xx", "9 5xx", 1), 0},
		{"h2load, nothing said", readH2load, "", 0},
	} {
		got, err := test.read(test.said)
		if got != test.want || (err == nil) != (test.want > 0) {
			t.Errorf("%s: %d requests and %v, want %d", test.name, got, err, test.want)
		}
	}
}

func TestFieldsOfStatSurviveAnyName(t *testing.T) {
	stat := "4711 (nginx: (worker) 1) S 1 4700 4700 0 -1 4194624 1 0 0 0 123 45 0 0 20 0 1 0"
	got := statFields([]byte(stat))
	if got[0] != "S" || got[2] != "4700" || got[11] != "123" || got[12] != "45" {
		t.Errorf("the state, group and times of %q are %q, %q, %q and %q", stat, got[0], got[2], got[11], got[12])
	}
}

func TestTimesOfAGroupAreThoseOfItsProcesses(t *testing.T) {
	// The shell is not replaced by its last command, and both stay until they are ended.
	p, err := startProcess(t.TempDir(), "busy", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 60 & wait")
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	err = p.await(func() error {
		members := 0
		if err := p.each(func(string, []string) error { members++; return nil }); err != nil || members < 2 {
			return os.ErrNotExist
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the shell and its child are no group: %v", err)
	}
	spent, err := p.cpu()
	if err != nil || spent < 10*time.Millisecond {
		t.Errorf("a shell that counted to 200,000 took %v of CPU time (%v)", spent, err)
	}
	if used, err := p.memory(); err != nil || used < 64*kibibyte {
		t.Errorf("a shell and its child take %d bytes (%v)", used, err)
	}
	p.stop()
	if _, err := p.cpu(); err == nil {
		t.Error("a group that was ended still has processes")
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(i+1))
	}
	for _, test := range []struct {
		of   []time.Duration
		p    int
		want time.Duration
	}{{times, 50, 100}, {times, 99, 198}, {times[:1], 99, 1}, {times[:3], 50, 2}, {nil, 50, 0}} {
		if got := percentile(test.of, test.p); got != test.want {
			t.Errorf("percentile %d of %d times is %d, want %d", test.p, len(test.of), got, test.want)
		}
	}
}

func TestMedianIgnoresAnOutlier(t *testing.T) {
	if got := median([]float64{3, 1000, 1}, itself); got != 3 {
		t.Errorf("the median of 3, 1000 and 1 is %v", got)
	}
}

func TestARatioIsThatOfTheRounds(t *testing.T) {
	r := result{figures: [][]figures{{{cpu: 10}, {cpu: 40}, {cpu: 12}}, {{cpu: 10}, {cpu: 20}, {cpu: 10}}}}
	if got := r.ratios(1); !slices.Equal(got, []float64{1, 2, 1.2}) || median(got, itself) != 1.2 {
		t.Errorf("ours to the other is %v by round", got)
	}
}

func TestTablesAreWrittenBetweenTheirMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + beginMark + "old\n" + endMark + "after\n")
	for range 2 { // the second time it finds what it wrote itself
		if err := replaceBetweenMarks(path, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(path)
	if want := "before\n" + beginMark + "\nnew\n\n" + endMark + "after\n"; string(got) != want {
		t.Errorf("the page is %q, want %q", got, want)
	}
	write("no marks\n")
	if err := replaceBetweenMarks(path, "new\n"); err == nil {
		t.Error("a page without marks was written")
	}
}

func TestOptionsAreRefusedWithTheirNames(t *testing.T) {
	for _, args := range [][]string{{"-cases", "smal"}, {"-log", "maybe"}, {"-peers", "apache"}, {"-rounds", "0"}, {"-seconds", "0.1"}, {"-binary", "/nowhere"}} {
		_, err := readOptions(args)
		if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "-")) && !strings.Contains(err.Error(), args[1]) {
			t.Errorf("%q: %v", args, err)
		}
	}
	o, err := readOptions([]string{"-cases", "small,tls-only", "-log", "on"})
	if err != nil || len(o.cases) != 1 || !o.handshakes || !slices.Equal(o.logging, []bool{true}) {
		t.Errorf("a case and the handshakes, with the log on, are read as %+v, %v", o, err)
	}
}
