package e2e_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
)

// helloFor is the ClientHello of a client that asks for a name.
func helloFor(t testing.TB, name string, changes ...func(*tls.Config)) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	config := &tls.Config{ServerName: name}
	for _, change := range changes {
		change(config)
	}
	go tls.Client(client, config).Handshake()
	server.SetDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(server, payload); err != nil {
		t.Fatal(err)
	}
	return append(head, payload...)
}

// passedManifests are a host that is passed through to an endpoint, and the same endpoint as a TCP service of a port.
func passedManifests(endpoint, port string) map[string]string {
	_, number, _ := net.SplitHostPort(endpoint)
	return map[string]string{"pass.yaml": `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: pass, annotations: {nginx.ingress.kubernetes.io/ssl-passthrough: "true"}}
spec:
  rules:
  - host: pass.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: raw, port: {number: 443}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: raw}
spec: {ports: [{name: raw, port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: raw, labels: {kubernetes.io/service-name: raw}}
addressType: IPv4
ports: [{name: raw, port: ` + number + `}]
endpoints: [{addresses: [127.0.0.1]}]
` + streamMap("tcp", `"`+port+`": default/raw:443`)}
}

func startPassing(t testing.TB, endpoint string, args ...string) (p *e2e.Process, tcp string) {
	t.Helper()
	port := e2e.FreePort(t)
	folder := e2e.Folder(t, passedManifests(endpoint, port))
	args = append(args, "--enable-ssl-passthrough", "--tcp-services-configmap=default/tcp", "--drain-delay=0", "--log-level=debug")
	return e2e.Start(t, folder, args...), "127.0.0.1:" + port
}

// serveRaw is an endpoint that serves each connection with a function.
func serveRaw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestWhatIsPassedThroughOutlivesChangesAndIsDrained(t *testing.T) {
	pair := e2e.SelfSigned(t, "pass.test")
	endpoint := serveRaw(t, func(c net.Conn) {
		over := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
		io.Copy(over, over)
	})
	p, _ := startPassing(t, endpoint)
	c, err := tls.Dial("tcp", p.HTTPS, &tls.Config{ServerName: "pass.test", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	if err := c.ConnectionState().PeerCertificates[0].VerifyHostname("pass.test"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(c)
	echoes := func(text string) {
		t.Helper()
		fmt.Fprintln(c, text)
		if got, err := lines.ReadString('\n'); got != text+"\n" || err != nil {
			t.Fatalf("the endpoint says %q, %v; want %q", got, err, text)
		}
	}
	echoes("one")
	if got := p.Metric(t, "sallyport_passthrough_connections_open"); got != 1 {
		t.Errorf("%v connections are open, want 1", got)
	}
	p.Terminate()
	e2e.Eventually(t, "nobody is let in any more", func() error {
		other, err := net.Dial("tcp", p.HTTPS)
		if err != nil {
			return nil
		}
		other.Close()
		return errors.New("the port is open")
	})
	echoes("two")
	c.Close()
	<-p.Exited()
	if code := p.ExitCode(); code != 0 || strings.Contains(p.Log(), "lost connections") {
		t.Errorf("the process ends with %d and says\n%s", code, p.Log())
	}
	if !strings.Contains(p.Log(), `"host":"pass.test"`) {
		t.Errorf("no line says what ended:\n%s", p.Log())
	}
}

// TestConnectionsThatArePassedThroughAreAmongTheMost has room for two connections, one of which is passed through. Where it
// leads nowhere it leaves room again, too.
func TestConnectionsThatArePassedThroughAreAmongTheMost(t *testing.T) {
	pair := e2e.SelfSigned(t, "pass.test")
	endpoint := serveRaw(t, func(c net.Conn) {
		over := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
		io.Copy(over, over)
	})
	p, _ := startPassing(t, endpoint, "--max-connections=2")
	dial := func(name string) (*tls.Conn, error) {
		dialer := &net.Dialer{Timeout: 20 * time.Second}
		return tls.DialWithDialer(dialer, "tcp", p.HTTPS, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	}
	var held []*tls.Conn
	for _, name := range []string{"pass.test", "other.test"} {
		c, err := dial(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer c.Close()
		held = append(held, c)
	}
	for _, name := range []string{"pass.test", "other.test"} {
		if c, err := dial(name); err == nil {
			c.Close()
			t.Errorf("a third connection, for %s, is taken", name)
		}
	}
	if n := p.Metric(t, "sallyport_connections_refused_total"); n != 2 {
		t.Errorf("%v connections were refused, want 2", n)
	}
	held[0].Close()
	e2e.Eventually(t, "there is room again once what is passed through has ended", func() error {
		c, err := dial("pass.test")
		if err == nil {
			c.Close()
		}
		return err
	})
}

// hellos is how many TestHellosThatNeverEndAreBounded leaves half said: a hundred thousand in `make test`, and fewer by
// itself.
func hellos(t *testing.T) int {
	text := os.Getenv("E2E_HELLOS")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("E2E_HELLOS is %q, want a whole number from 1", text)
	}
	return n
}

// atOnce is how many of them are open at a time: each is a descriptor here and one there.
const atOnce = 8000

// TestHellosThatNeverEndAreBounded has clients begin a hello and say no more. Each costs little, others are served meanwhile,
// and all are closed once a client has had its time.
func TestHellosThatNeverEndAreBounded(t *testing.T) {
	pair := e2e.SelfSigned(t, "pass.test")
	endpoint := serveRaw(t, func(c net.Conn) {
		tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake()
	})
	p, _ := startPassing(t, endpoint)
	shakes := func(when, name string) {
		t.Helper()
		dialer := &net.Dialer{Timeout: 20 * time.Second}
		c, err := tls.DialWithDialer(dialer, "tcp", p.HTTPS, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Errorf("%s, %s: %v", when, name, err)
			return
		}
		c.Close()
	}
	shakes("at first", "pass.test")
	shakes("at first", "other.test")
	hello := helloFor(t, "pass.test")
	beginnings := [][]byte{nil, hello[:3], hello[:len(hello)/2], hello[:len(hello)-1]}
	before := p.Metric(t, "process_resident_memory_bytes")
	most := 0.0
	for done, n := 0, hellos(t); done < n; {
		batch := min(atOnce, n-done)
		begun := time.Now()
		open := make([]net.Conn, batch)
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+done/atOnce))}, Timeout: 20 * time.Second}
		for i := range open {
			c, err := from.Dial("tcp", p.HTTPS)
			if err != nil {
				t.Fatalf("connection %d: %v", done+i, err)
			}
			c.Write(beginnings[i%len(beginnings)])
			open[i] = c
		}
		most = max(most, p.Metric(t, "process_resident_memory_bytes")-before)
		shakes("beside half hellos", "pass.test")
		shakes("beside half hellos", "other.test")
		for i, c := range open {
			c.SetReadDeadline(begun.Add(60 * time.Second))
			if said, err := io.ReadAll(c); len(said) > 0 || err != nil && isTimeout(err) {
				t.Fatalf("connection %d: the front says %q, %v; want the end", done+i, said, err)
			}
			c.Close()
		}
		done += batch
	}
	each := most / float64(min(atOnce, hellos(t)))
	t.Logf("%d half hellos, %d at a time: %.1f MiB more, %.1f KiB each", hellos(t), min(atOnce, hellos(t)), most/(1<<20), each/(1<<10))
	if bound := 24<<20 + 24<<10*float64(min(atOnce, hellos(t))); most > bound {
		t.Errorf("they take %.1f MiB, want %.1f at most", most/(1<<20), bound/(1<<20))
	}
	e2e.Eventually(t, "nothing is left of them", func() error {
		if n := p.Metric(t, "go_goroutines"); n > 100 {
			return fmt.Errorf("there are %v goroutines", n)
		}
		return nil
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// BenchmarkPassthrough sends a gibibyte through a host that is passed through and through a TCP service, by turns, and prints
// the ratio of the two throughputs: 1 is as fast.
func BenchmarkPassthrough(b *testing.B) {
	const size = 1 << 30
	received := make(chan int64)
	endpoint := serveRaw(b, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		received <- n
	})
	p, tcp := startPassing(b, endpoint)
	hello := helloFor(b, "pass.test")
	chunk := make([]byte, 256<<10)
	send := func(to string) time.Duration {
		b.Helper()
		c, err := net.Dial("tcp", to)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		begun := time.Now()
		c.Write(hello)
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
		c.(*net.TCPConn).CloseWrite()
		if n := <-received; n != int64(size+len(hello)) {
			b.Fatalf("%d bytes arrived, want %d", n, size+len(hello))
		}
		return time.Since(begun)
	}
	var through, plain time.Duration
	rounds := 0
	for b.Loop() {
		through += send(p.HTTPS)
		plain += send(tcp)
		rounds++
	}
	rate := func(d time.Duration) float64 { return float64(rounds) * size / d.Seconds() / 1e9 }
	b.ReportMetric(rate(through), "passed-GB/s")
	b.ReportMetric(rate(plain), "tcp-GB/s")
	b.ReportMetric(plain.Seconds()/through.Seconds(), "ratio")
}
