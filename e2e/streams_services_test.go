package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/e2e"
)

// flows is how many TestFlowsLeaveNothingBehind makes of each kind: a hundred thousand in all in `make test`, and fewer by
// itself.
func flows(t *testing.T) int {
	text := os.Getenv("E2E_FLOWS")
	if text == "" {
		return 3000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 {
		t.Fatalf("E2E_FLOWS is %q, want a whole number from 2", text)
	}
	return n / 2
}

// streamMap is a ConfigMap with the Services of ports, each as "port: service".
func streamMap(name string, entries ...string) string {
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {" + strings.Join(entries, ", ") + "}\n"
}

// streamService is a Service with a TCP port "line" 7 and a UDP port "line" 7, and its endpoint for each.
func streamService(name, tcp, udp string) string {
	_, tcpPort, _ := net.SplitHostPort(tcp)
	_, udpPort, _ := net.SplitHostPort(udp)
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{name: line, port: 7, protocol: TCP}, {name: lines, port: 7, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: line, port: %[2]s, protocol: TCP}, {name: lines, port: %[3]s, protocol: UDP}]
endpoints: [{addresses: [127.0.0.1]}]
`, name, tcpPort, udpPort)
}

// echoTCP and echoUDP are endpoints that answer what they get behind their name.
func echoTCP(t testing.TB, name string) string {
	return serveRaw(t, func(c net.Conn) {
		lines := bufio.NewReader(c)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(c, name+" "+line)
		}
	})
}

func echoUDP(t testing.TB, name string) string {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			c.WriteToUDPAddrPort([]byte(name+" "+string(b[:n])), from)
		}
	}()
	return c.LocalAddr().String()
}

// askPort sends a line to a port and returns the answer.
func askPort(network, port, line string) (string, error) {
	c, err := net.Dial(network, "127.0.0.1:"+port)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return askOn(c, line)
}

func askOn(c net.Conn, line string) (string, error) {
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	answer := make([]byte, 1500)
	n, err := c.Read(answer)
	return strings.TrimSuffix(string(answer[:n]), "\n"), err
}

func eventuallyAnswers(t *testing.T, network, port, want string) {
	t.Helper()
	e2e.Eventually(t, network+" port "+port+" answers "+want, func() error {
		got, err := askPort(network, port, "hello")
		if err != nil || got != want {
			return fmt.Errorf("%q, %v", got, err)
		}
		return nil
	})
}

// TestServicesOfTheConfigMapsAreServedLive changes the ConfigMaps under a running process: ports open, lead elsewhere and
// close, and what has begun goes on.
func TestServicesOfTheConfigMapsAreServedLive(t *testing.T) {
	services := streamService("a", echoTCP(t, "a"), echoUDP(t, "a")) + streamService("b", echoTCP(t, "b"), echoUDP(t, "b"))
	first, second, udp := e2e.FreePort(t), e2e.FreePort(t), e2e.FreePort(t)
	folder := e2e.Folder(t, map[string]string{
		"services.yaml": services,
		"maps.yaml":     streamMap("tcp", `"`+first+`": default/a:7`) + streamMap("udp", `"`+udp+`": default/a:lines`),
	})
	p := e2e.Start(t, folder, "--tcp-services-configmap=default/tcp", "--udp-services-configmap=default/udp")
	eventuallyAnswers(t, "tcp", first, "a hello")
	eventuallyAnswers(t, "udp", udp, "a hello")
	long, err := net.Dial("tcp", "127.0.0.1:"+first)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	stays := func(when string) {
		t.Helper()
		if got, err := askOn(long, "still"); got != "a still" || err != nil {
			t.Fatalf("the connection from before %s: %q, %v", when, got, err)
		}
	}
	stays("anything")

	_, own, _ := net.SplitHostPort(p.HTTP)
	e2e.WriteFile(t, filepath.Join(folder, "maps.yaml"), streamMap("tcp", `"`+first+`": default/b:line`, `"`+second+`": default/a:7`, `"`+own+`": default/a:7`)+
		streamMap("udp", `"`+udp+`": default/b:7`))
	eventuallyAnswers(t, "tcp", first, "b hello")
	eventuallyAnswers(t, "tcp", second, "a hello")
	eventuallyAnswers(t, "udp", udp, "b hello")
	stays("the port led elsewhere")
	if want := "port " + own + " is taken by this process itself (--http-port)"; !strings.Contains(p.Log(), want) {
		t.Errorf("the log does not say %q", want)
	}

	e2e.WriteFile(t, filepath.Join(folder, "maps.yaml"), streamMap("tcp", `"`+second+`": default/a:7`))
	e2e.Eventually(t, "the ports that nobody has are closed", func() error {
		if _, err := askPort("tcp", first, "x"); err == nil {
			return errors.New("TCP is still served")
		}
		if _, err := askPort("udp", udp, "x"); err == nil {
			return errors.New("UDP is still served")
		}
		return nil
	})
	stays("the port was closed")
	eventuallyAnswers(t, "tcp", second, "a hello")

	p.Terminate()
	e2e.Eventually(t, "no connection is taken any more", func() error {
		if _, err := askPort("tcp", second, "x"); err == nil {
			return errors.New("it still is")
		}
		return nil
	})
	stays("the end")
	long.Close()
	<-p.Exited()
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestFlowsLeaveNothingBehind makes many short connections and many clients of UDP, and looks at what the process holds
// before and after.
func TestFlowsLeaveNothingBehind(t *testing.T) {
	each := flows(t)
	tcp, udp := e2e.FreePort(t), e2e.FreePort(t)
	folder := e2e.Folder(t, map[string]string{"all.yaml": streamService("a", echoTCP(t, "a"), echoUDP(t, "a")) +
		streamMap("tcp", `"`+tcp+`": default/a:7`) + streamMap("udp", `"`+udp+`": default/a:7`)})
	p := e2e.Start(t, folder, "--tcp-services-configmap=default/tcp", "--udp-services-configmap=default/udp")
	ports := map[string]string{"tcp": tcp, "udp": udp}
	run := func(each int) {
		t.Helper()
		var failed, next atomic.Int64
		var clients sync.WaitGroup
		for range 32 {
			clients.Go(func() {
				for {
					i := next.Add(1)
					network := []string{"tcp", "udp"}[i%2]
					if i > int64(2*each) {
						return
					}
					if got, err := askPort(network, ports[network], fmt.Sprint(i)); err != nil || got != fmt.Sprint("a ", i) {
						if failed.Add(1) < 5 {
							t.Errorf("%s: %q, %v", network, got, err)
						}
					}
				}
			})
		}
		clients.Wait()
		if n := failed.Load(); n > 0 {
			t.Fatalf("%d of %d failed", n, 2*each)
		}
	}
	held := func() [3]float64 {
		return [3]float64{p.Metric(t, "go_goroutines"), p.Metric(t, "process_open_fds"), p.Metric(t, "process_resident_memory_bytes") / (1 << 20)}
	}
	run(1000) // what the first ones bring for good: pools of buffers, of pipes
	before := held()
	begun := time.Now()
	run(each)
	took := time.Since(begun)
	var after [3]float64
	e2e.Eventually(t, "goroutines and descriptors are what they were", func() error {
		if after = held(); after[0] > before[0]+20 || after[1] > before[1]+40 {
			return fmt.Errorf("goroutines, descriptors and MiB are %.0f, were %.0f", after, before)
		}
		return nil
	})
	t.Logf("%d TCP connections and %d UDP flows in %v; goroutines, descriptors, MiB of memory: before %.0f, after %.0f", each, each, took.Round(time.Millisecond), before, after)
	if n := p.Metric(t, "sallyport_stream_connections_total"); n != float64(2*(1000+each)) {
		t.Errorf("%v connections and flows are counted, want %d", n, 2*(1000+each))
	}
	if sent := p.Metric(t, "sallyport_stream_bytes_total"); sent < float64(2*each) {
		t.Errorf("%v bytes are counted, want some for each of %d", sent, 2*each)
	}
	if after[2] > before[2]+64 {
		t.Errorf("memory grew from %.0f to %.0f MiB", before[2], after[2])
	}
}
