package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport/e2e"
)

// upgrade is a handshake with the key of RFC 6455's own example, and switched the answer. What follows is a tunnel, and
// bare words pass it as well as frames.
const (
	upgrade = "GET / HTTP/1.1\r\nHost: chat.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)

// webSockets is how many there are: E2E_WEBSOCKETS, or 1,000, or as many as the machine allows. Each takes two descriptors,
// here as in the product.
func webSockets(t *testing.T) int {
	text := os.Getenv("E2E_WEBSOCKETS")
	if text == "" {
		text = "1000"
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("E2E_WEBSOCKETS: %v", err)
	}
	const others = 500 // descriptors for all else
	need := uint64(2*n + others)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < need {
		raised := syscall.Rlimit{Cur: need, Max: max(limit.Max, need)}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) != nil {
			n = int(limit.Max-others) / 2
			t.Logf("a process may have %d descriptors here (ulimit -Hn), which is enough for %d WebSockets", limit.Max, n)
		}
	}
	return n
}

// TestIdleWebSocketsOutliveChangesElsewhere holds WebSockets that say nothing while the endpoints of another Service change
// a hundred times and the table is swapped. Every one of them still works then, both ways.
func TestIdleWebSocketsOutliveChangesElsewhere(t *testing.T) {
	count := webSockets(t)
	chat := e2e.Serve(t, "192.0.2.1:0", "chat", http.HandlerFunc(repeat))
	one, two := e2e.Echo(t, "192.0.2.2:8000", "one"), e2e.Echo(t, "192.0.2.3:8000", "two")
	folder := e2e.Folder(t, map[string]string{
		"chat.yaml":  ingress("chat", "chat.test", "/", "chat"),
		"other.yaml": ingress("other", "other.test", "/", "other"),
		"slice.yaml": otherSlice(one),
	})
	s := e2e.Start(t, folder, "--map=default/chat="+chat.Addr, "--access-log=off")
	expectEndpoint(t, s, one)

	before := s.Metric(t, "process_resident_memory_bytes")
	sockets := openWebSockets(t, s, count)
	held := s.Metric(t, "process_resident_memory_bytes") - before
	t.Logf("%d idle WebSockets hold %.0f MiB: %.1f KiB each", count, held/(1<<20), held/1024/float64(count))
	if each := held / float64(count); each > 64<<10 {
		t.Errorf("an idle WebSocket takes %.0f bytes, want at most 64 KiB", each)
	}

	for i := range 100 {
		endpoint := []*e2e.Endpoint{two, one}[i%2]
		e2e.WriteFile(t, filepath.Join(folder, "slice.yaml"), otherSlice(endpoint))
		expectEndpoint(t, s, endpoint)
	}
	generation := s.Metric(t, "sallyport_table_generation")
	e2e.WriteFile(t, filepath.Join(folder, "new.yaml"), ingress("new", "new.test", "/", "other"))
	e2e.Eventually(t, "there is another table", func() error {
		if s.Metric(t, "sallyport_table_generation") == generation {
			return fmt.Errorf("it is number %v still", generation)
		}
		return nil
	})

	broken := 0
	for i, socket := range sockets {
		word := fmt.Sprintf("word %06d", i)
		socket.SetDeadline(time.Now().Add(20 * time.Second))
		got := make([]byte, len(word))
		_, err := io.WriteString(socket, word)
		if err == nil {
			_, err = io.ReadFull(socket, got)
		}
		if err != nil || string(got) != word {
			if broken++; broken < 5 {
				t.Errorf("WebSocket %d: sent %q, got %q, %v", i, word, got, err)
			}
		}
	}
	if broken > 0 {
		t.Errorf("%d of %d WebSockets do not work any more", broken, count)
	}
}

// openWebSockets opens so many, a few at a time. They end with the test.
func openWebSockets(t *testing.T, s *e2e.Process, count int) []net.Conn {
	t.Helper()
	sockets := make([]net.Conn, count)
	t.Cleanup(func() {
		for _, socket := range sockets {
			if socket != nil {
				socket.Close()
			}
		}
	})
	const hands = 8
	var opening sync.WaitGroup
	for hand := range hands {
		opening.Go(func() {
			for i := hand; i < count; i += hands {
				socket, err := net.Dial("tcp", s.HTTP)
				if err != nil {
					t.Errorf("WebSocket %d: %v", i, err)
					return
				}
				sockets[i] = socket
				socket.SetDeadline(time.Now().Add(20 * time.Second))
				io.WriteString(socket, upgrade)
				answer, err := http.ReadResponse(bufio.NewReaderSize(socket, 512), nil)
				if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
					t.Errorf("WebSocket %d: %v, %v", i, answer, err)
					return
				}
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return sockets
}

// repeat switches protocols and then says whatever it hears.
func repeat(w http.ResponseWriter, r *http.Request) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	io.WriteString(connection, switched)
	var heard [64]byte
	for {
		n, err := connection.Read(heard[:])
		if err != nil {
			return
		}
		connection.Write(heard[:n])
	}
}

// otherSlice is the Service that the others are, and the one endpoint it has.
func otherSlice(endpoint *e2e.Endpoint) string {
	host, port, _ := net.SplitHostPort(endpoint.Addr)
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: other}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: other, labels: {kubernetes.io/service-name: other}}
addressType: IPv4
ports: [{port: %s}]
endpoints: [{addresses: [%s]}]
`, port, host)
}

// expectEndpoint waits until an endpoint answers for the Service.
func expectEndpoint(t *testing.T, s *e2e.Process, want *e2e.Endpoint) {
	t.Helper()
	client := s.Client(nil)
	defer client.CloseIdleConnections()
	e2e.Eventually(t, want.Name+" answers", func() error {
		answer, err := client.Get("http://other.test/")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		io.Copy(io.Discard, answer.Body)
		if got := answer.Header.Get("X-Endpoint"); got != want.Name {
			return fmt.Errorf("%s, from endpoint %q", answer.Status, got)
		}
		return nil
	})
}
