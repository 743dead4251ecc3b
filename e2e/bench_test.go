//go:build bench

package e2e_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/e2e"
)

// The benchmarks in files with the tag "bench" measure the built binary: `make bench-memory`, `make bench-slow`. They print
// figures and judge none.

// benched is a process that sends the traffic of a.test to one endpoint, which answers 12 bytes or more.
func benched(b *testing.B, args ...string) *e2e.Process {
	endpoint := e2e.Serve(b, "127.0.0.1:0", "web", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		io.WriteString(w, "hello world\n")
		for size -= 12; size > 0; size -= len(block) {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}))
	folder := e2e.Folder(b, map[string]string{
		"web.yaml":    ingress("web", "a.test", "/", "web"),
		"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: patient}\ndata: {keep-alive: \"3600\"}\n",
	})
	return e2e.Start(b, folder, append([]string{"--map=default/web=" + endpoint.Addr, "--access-log=off", "--profiling"}, args...)...)
}

var block = strings.Repeat("hello world\n", 4096)

// connect opens a connection to the process, over TLS or not.
func connect(p *e2e.Process, secure bool) (net.Conn, error) {
	if !secure {
		return net.Dial("tcp", p.HTTP)
	}
	return tls.Dial("tcp", p.HTTPS, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", ClientSessionCache: sessions})
}

// mustConnect is connect for the goroutine of a benchmark.
func mustConnect(b *testing.B, p *e2e.Process, secure bool) net.Conn {
	b.Helper()
	c, err := connect(p, secure)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

var sessions = tls.NewLRUClientSessionCache(4)

const small = "GET /x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: session=0123456789abcdef\r\n\r\n"

// ask sends the small request n times on a connection.
func ask(c net.Conn, in *bufio.Reader, n int) error {
	for range n {
		if _, err := io.WriteString(c, small); err != nil {
			return err
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s", answer.Status)
		}
	}
	return nil
}

// BenchmarkIdleConnections says what a kept connection costs on which nothing goes on.
func BenchmarkIdleConnections(b *testing.B) {
	for _, secure := range []bool{false, true} {
		b.Run(map[bool]string{false: "cleartext", true: "TLS"}[secure], func(b *testing.B) {
			for b.Loop() {
				measureIdle(b, secure)
			}
		})
	}
}

func measureIdle(b *testing.B, secure bool) {
	const connections = 10000
	p := benched(b, "--configmap=default/patient") // while the last ones are opened the first ones stay
	warm := mustConnect(b, p, secure)
	defer warm.Close()
	if err := ask(warm, bufio.NewReader(warm), 1000); err != nil {
		b.Fatal(err)
	}
	before := p.Resident(b)
	conns := make([]net.Conn, connections)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			in := bufio.NewReader(nil)
			for j := i; j < connections; j += 8 {
				c, err := connect(p, secure)
				if err == nil {
					conns[j] = c
					in.Reset(c)
					err = ask(c, in, 1)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	atOnce := p.Resident(b)
	time.Sleep(3 * time.Second) // until they are at rest
	profile(b, p, "idle-"+b.Name()[strings.LastIndexByte(b.Name(), '/')+1:])
	time.Sleep(40 * time.Second) // until what is free has gone back to the system
	collected := p.Resident(b)
	open := p.Metric(b, "sallyport_connections")
	if open < connections {
		b.Fatalf("%v connections are open, want %d", open, connections)
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(open, "connections")
	b.ReportMetric(float64(before)/1024, "KiB-before")
	b.ReportMetric(float64(atOnce-before)/1024/connections, "KiB/connection-at-once")
	b.ReportMetric(float64(collected-before)/1024/connections, "KiB/connection")
}

// profile has the process collect its garbage, and keeps a heap profile where BENCH_PROFILES says.
func profile(b *testing.B, p *e2e.Process, name string) {
	b.Helper()
	for range 2 { // the second shrinks stacks, and empties pools, that the first has found unused
		p.AdminGet(b, "/debug/pprof/heap?gc=1")
	}
	folder := os.Getenv("BENCH_PROFILES")
	if folder == "" {
		return
	}
	for _, kind := range []string{"heap", "goroutine"} {
		if err := os.WriteFile(filepath.Join(folder, name+"."+kind), []byte(p.AdminGet(b, "/debug/pprof/"+kind)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMillion says what is left of a million requests: nothing, if what is resident and the goroutines are what they were
// after the first hundred thousand.
func BenchmarkMillion(b *testing.B) {
	for b.Loop() {
		p := benched(b)
		load := func(requests int) (resident, goroutines float64) {
			const clients = 64
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					c, err := connect(p, i%4 == 0)
					if err != nil {
						b.Error(err)
						return
					}
					defer c.Close()
					if err := ask(c, bufio.NewReader(c), requests/clients); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			e2e.Eventually(b, "all connections have ended", func() error {
				if n := p.Metric(b, "sallyport_connections"); n != 0 {
					return fmt.Errorf("%v are open", n)
				}
				return nil
			})
			profile(b, p, "million")
			return float64(p.Resident(b)) / 1024, p.Metric(b, "go_goroutines")
		}
		resident, goroutines := load(100_000)
		b.ReportMetric(resident, "KiB-after-100k")
		b.ReportMetric(goroutines, "goroutines-after-100k")
		resident, goroutines = load(900_000)
		b.ReportMetric(resident, "KiB-after-1M")
		b.ReportMetric(goroutines, "goroutines-after-1M")
	}
}

// BenchmarkSlowClients has 500 clients that are slow to send a head, 500 that are slow to send a body and 500 that are slow to
// read at once. It fails when one of them is still there after its limit, with time to spare, or when a good client is not
// served meanwhile. How fast that is it prints: in three rounds, each of which begins with a quiet time, since the machine
// may have other work too. The figures are medians.
func BenchmarkSlowClients(b *testing.B) {
	for b.Loop() {
		p := benched(b, "--max-connections=4000")
		var quiet, busy, ratio []float64
		for range 3 {
			q, m := slowClients(b, p)
			b.Logf("p99 %v quiet, %v meanwhile", q, m)
			quiet, busy, ratio = append(quiet, float64(q.Microseconds())), append(busy, float64(m.Microseconds())), append(ratio, float64(m)/float64(q))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median(quiet), "µs-p99-quiet")
		b.ReportMetric(median(busy), "µs-p99-meanwhile")
		b.ReportMetric(median(ratio), "times-quiet")
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// slowClients is a round. It returns the 99th percentile of a good client's times without the slow ones, and with them.
func slowClients(b *testing.B, p *e2e.Process) (quiet, busy time.Duration) {
	const each = 500
	quiet = goodClient(b, p, time.After(20*time.Second))
	kinds := []struct {
		name, first, more string
		limit             time.Duration
	}{
		{"heads", "GET / HTTP/1.1\r\nHost: a.test\r\nX: ", "x", 20 * time.Second},
		{"bodies", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n", "x", 30 * time.Second},
		{"readers", "GET /?size=8000000 HTTP/1.1\r\nHost: a.test\r\n\r\n", "", 90 * time.Second},
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	last := make([]time.Duration, len(kinds)) // guarded by mu
	for i, k := range kinds {
		for range each {
			c := mustConnect(b, p, false)
			c.(*net.TCPConn).SetReadBuffer(4096)
			all.Go(func() {
				defer c.Close()
				begin := time.Now()
				if err := stayUntilClosed(c, k.first, k.more, begin.Add(k.limit)); err != nil {
					b.Errorf("%s: %v", k.name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				last[i] = max(last[i], time.Since(begin))
			})
		}
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	busy = goodClient(b, p, ended)
	for i, k := range kinds {
		b.ReportMetric(last[i].Seconds(), "s-until-the-last-of-the-slow-"+k.name)
	}
	return quiet, busy
}

// stayUntilClosed sends first, then more every second, and reads one byte a second, until the other side ends the connection.
func stayUntilClosed(c net.Conn, first, more string, deadline time.Time) error {
	io.WriteString(c, first)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for one := make([]byte, 1); time.Now().Before(deadline); <-tick.C {
		if _, err := io.WriteString(c, more); more != "" && err != nil {
			return nil
		}
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(one); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if more == "" && reset(c) {
			return nil
		}
	}
	return errors.New("the connection is still open")
}

// reset reports whether the other side has reset the connection, of which a reader that is slow enough would not hear.
func reset(c net.Conn) (yes bool) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		yes = err != nil || info.State != 1 // established
	})
	return yes
}

// goodClient asks again and again until it is told to stop, and returns the 99th percentile of how long that took.
func goodClient[T any](b *testing.B, p *e2e.Process, until <-chan T) time.Duration {
	c := mustConnect(b, p, false)
	defer c.Close()
	in := bufio.NewReader(c)
	var took []time.Duration
	for {
		select {
		case <-until:
			slices.Sort(took)
			return took[len(took)*99/100]
		case <-time.After(5 * time.Millisecond):
		}
		begin := time.Now()
		if err := ask(c, in, 1); err != nil {
			b.Fatalf("the good client, after %d requests: %v", len(took), err)
		}
		took = append(took, time.Since(begin))
	}
}
