package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options are what the command line asks for.
type options struct {
	cases      []benchCase
	logging    []bool   // with the access log off, on, or one after the other
	handshakes bool     // what TLS costs apart from requests, too
	peers      []string // of nginx and haproxy, those that take part
	rounds     int
	load       time.Duration // of load; the CPU time is taken over it
	pace       time.Duration // of requests at a fixed rate
	workers    int           // processes or threads of each contender
	binary     string        // our binary; empty: built from the tree
	against    string        // an earlier binary of ours, a contender of its own; empty: none
	profile    string        // folder for CPU profiles of ours; empty: none
	write      string        // file with the marks to write between; empty: none
	limit      time.Duration // of the whole run
	line       string        // the command line, for the report
}

func readOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := f.String("cases", strings.Join(usualCases, ","), "cases, with commas between them; `NAMES` are "+strings.Join(caseNames(), ", ")+" and tls-only for what comes without requests; or all")
	logging := f.String("log", "both", "access log: off, on or both")
	peers := f.String("peers", "nginx,haproxy", "who is measured beside ours")
	f.IntVar(&o.rounds, "rounds", 3, "`rounds` of each case; figures are medians of them")
	seconds := f.Float64("seconds", 2, "seconds of load in a round")
	paced := f.Float64("paced", 0.7, "seconds at a fixed rate in a round; 0 leaves latency out")
	f.IntVar(&o.workers, "workers", runtime.NumCPU(), "processes or threads of each contender")
	f.StringVar(&o.binary, "binary", "", "`path` of our binary; built from the tree when empty")
	f.StringVar(&o.against, "against", os.Getenv("BENCH_AGAINST"), "`path` of an earlier binary of ours, which takes part as \"previous\"; BENCH_AGAINST in the environment says so too")
	f.StringVar(&o.profile, "profile", "", "`folder` for CPU profiles of ours, taken in a round more that is not counted")
	f.StringVar(&o.write, "write", "", "`file` to write the tables into, between its two marks, as docs/performance.md has them")
	f.DurationVar(&o.limit, "limit", 20*time.Minute, "time after which the run is given up")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.line = "go run ./e2e/bench"
	for _, arg := range args {
		if filepath.IsAbs(arg) { // where things are on this machine is nobody's business
			arg = filepath.Base(arg)
		}
		o.line += " " + arg
	}
	o.load = time.Duration(*seconds * float64(time.Second))
	o.pace = time.Duration(*paced * float64(time.Second))
	if o.rounds < 1 || o.rounds > 100 || o.load < time.Second || o.load > time.Minute || o.pace < 0 || o.pace > time.Minute || o.workers < 1 {
		return o, fmt.Errorf("rounds are 1 to 100, seconds 1 to 60, paced 0 to 60, workers at least 1")
	}
	if err := o.readCases(*names); err != nil {
		return o, err
	}
	switch *logging {
	case "off":
		o.logging = []bool{false}
	case "on":
		o.logging = []bool{true}
	case "both":
		o.logging = []bool{false, true}
	default:
		return o, fmt.Errorf("-log %q is none of off, on and both", *logging)
	}
	for _, name := range strings.FieldsFunc(*peers, isComma) {
		if name != "nginx" && name != "haproxy" {
			return o, fmt.Errorf("-peers %q is neither nginx nor haproxy", name)
		}
		o.peers = append(o.peers, name)
	}
	for _, path := range []*string{&o.binary, &o.against, &o.profile} {
		if *path == "" {
			continue
		}
		if _, err := os.Stat(*path); err != nil {
			return o, err
		}
		*path, _ = filepath.Abs(*path)
	}
	return o, nil
}

func (o *options) readCases(names string) error {
	if names == "all" {
		o.cases, o.handshakes = allCases, true
		return nil
	}
	for _, name := range strings.FieldsFunc(names, isComma) {
		if name == tlsOnly {
			o.handshakes = true
			continue
		}
		at := slices.IndexFunc(allCases, func(c benchCase) bool { return c.name == name })
		if at < 0 {
			return fmt.Errorf("-cases %q is none of %s, %s", name, strings.Join(caseNames(), ", "), tlsOnly)
		}
		o.cases = append(o.cases, allCases[at])
	}
	return nil
}

func isComma(r rune) bool { return r == ',' }
