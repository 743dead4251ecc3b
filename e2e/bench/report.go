package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// progress tells on standard error what goes on.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// report is the tables, as Markdown.
func (b *bench) report() string {
	var out strings.Builder
	b.reportRun(&out)
	if len(b.results) > 0 {
		b.reportCPU(&out)
		b.reportMemory(&out)
	}
	if len(b.results) > 0 && b.pace > 0 {
		b.reportLatency(&out)
	}
	if b.handshakes {
		b.reportTLS(&out)
	}
	return out.String()
}

func (b *bench) reportRun(out *strings.Builder) {
	fmt.Fprintf(out, "`%s`: %d rounds of %v, and %v at a fixed rate; %d workers each.", b.line, b.rounds, b.load, b.pace, b.workers)
	for _, c := range b.contenders {
		fmt.Fprintf(out, " %s: `%s`.", c.name, c.version)
	}
	out.WriteString("\n")
}

// reportCPU has a row for each case, and a ratio for each peer.
func (b *bench) reportCPU(out *strings.Builder) {
	header := []string{"CPU, µs a request", "access log"}
	for _, c := range b.contenders {
		header = append(header, c.name)
	}
	for _, c := range b.contenders[1:] {
		header = append(header, "÷ "+c.name)
	}
	t := table{header}
	for _, r := range b.results {
		row := []string{r.title, onOff(r.logging)}
		for _, v := range r.medians(cpu) {
			row = append(row, fmt.Sprintf("%.1f", v))
		}
		for i := range b.contenders[1:] {
			row = append(row, fmt.Sprintf("%.2f", median(r.ratios(i+1), itself)))
		}
		t = append(t, row)
	}
	t.write(out)
}

// progress tells the median of each contender, and of ours to it: the median of the rounds, and what half of them lie between.
func (r result) progress(contenders []contender) {
	for i, v := range r.medians(cpu) {
		line := fmt.Sprintf("    %-10s %7.1f µs of CPU a request", contenders[i].name, v)
		if i > 0 {
			all := r.ratios(i)
			line += fmt.Sprintf("; ours to it %.2f, half of the rounds %.2f to %.2f", quantile(all, 2, 4), quantile(all, 1, 4), quantile(all, 3, 4))
		}
		progress("%s", line)
	}
}

// reportMemory has the memory in use while requests are served.
func (b *bench) reportMemory(out *strings.Builder) {
	header := []string{"memory, MiB", "access log"}
	for _, c := range b.contenders {
		header = append(header, c.name)
	}
	t := table{header}
	for _, r := range b.results {
		row := []string{r.title, onOff(r.logging)}
		for _, v := range r.medians(func(f figures) float64 { return f.memory }) {
			row = append(row, fmt.Sprintf("%.0f", v/mebibyte))
		}
		t = append(t, row)
	}
	t.write(out)
}

// reportLatency has the median and the 99th percentile at a fixed rate.
func (b *bench) reportLatency(out *strings.Builder) {
	header := []string{"p50 / p99, µs", "access log", "requests a second"}
	for _, c := range b.contenders {
		header = append(header, c.name)
	}
	t := table{header}
	for _, r := range b.results {
		row := []string{r.title, onOff(r.logging), fmt.Sprint(r.rate)}
		p99 := r.medians(func(f figures) float64 { return f.p99 })
		for i, v := range r.medians(func(f figures) float64 { return f.p50 }) {
			row = append(row, fmt.Sprintf("%.0f / %.0f", v, p99[i]))
		}
		t = append(t, row)
	}
	t.write(out)
}

// reportTLS has handshakes and idle connections.
func (b *bench) reportTLS(out *strings.Builder) {
	header := []string{"handshakes a second of CPU"}
	for _, c := range b.contenders {
		header = append(header, c.name)
	}
	for _, c := range b.contenders[1:] {
		header = append(header, "÷ "+c.name)
	}
	t := table{header}
	for _, r := range b.handshakeResults {
		row := []string{r.title()}
		var of []float64
		for _, rounds := range r.rounds {
			of = append(of, median(rounds, itself))
		}
		t = append(t, appendRatios(row, "%.0f", of))
	}
	t.write(out)
	header = append([]string{"memory of an idle TLS connection, KiB"}, header[1:]...)
	var of []float64
	for _, bytes := range b.idle {
		of = append(of, bytes/kibibyte)
	}
	t = table{header, appendRatios([]string{fmt.Sprintf("of %d, each after one request", idleConns)}, "%.1f", of)}
	t.write(out)
}

// appendRatios adds figures to a row, and what the first is to each of the others.
func appendRatios(row []string, format string, of []float64) []string {
	for _, v := range of {
		row = append(row, fmt.Sprintf(format, v))
	}
	for _, v := range of[1:] {
		row = append(row, fmt.Sprintf("%.2f", of[0]/v))
	}
	return row
}

// medians are those of a figure, by contender.
func (r result) medians(of func(figures) float64) (all []float64) {
	for _, rounds := range r.figures {
		all = append(all, median(rounds, of))
	}
	return all
}

// ratios are those of the CPU time of ours to that of another, by round: what the machine does meanwhile is most alike for two
// that are asked one after the other.
func (r result) ratios(other int) []float64 {
	all := make([]float64, len(r.figures[other]))
	for round, f := range r.figures[other] {
		all[round] = r.figures[0][round].cpu / f.cpu
	}
	return all
}

// median of a figure over rounds; the lower one of an even number.
func median[T any](rounds []T, of func(T) float64) float64 {
	var all []float64
	for _, f := range rounds {
		all = append(all, of(f))
	}
	return quantile(all, 1, 2)
}

// quantile is the lower one of two that are equally near.
func quantile(all []float64, k, of int) float64 {
	return slices.Sorted(slices.Values(all))[(len(all)-1)*k/of]
}

func itself(v float64) float64 { return v }

func cpu(f figures) float64 { return f.cpu }

// A table is a header and rows.
type table [][]string

func (t table) write(out *strings.Builder) {
	out.WriteString("\n")
	for i, row := range t {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
}

// The marks in a file between which the tables stand.
const (
	beginMark = "<!-- make bench -->\n"
	endMark   = "<!-- end of make bench -->\n"
)

// replaceBetweenMarks puts a text in place of what stands between the two marks of a file.
func replaceBetweenMarks(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(old, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !found || !ended {
		return fmt.Errorf("%s has no lines %q and %q to write between", path, beginMark, endMark)
	}
	return os.WriteFile(path, slices.Concat(before, []byte(beginMark+"\n"+text+"\n"+endMark), after), 0o644)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func lower(name string) string { return strings.ToLower(name) }
