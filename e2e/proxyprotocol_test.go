package e2e_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/e2e"
	"sallyport/proxy/proxyprotocol"
)

// wantPROXY is a ConfigMap that wants PROXY headers, with further keys.
func wantPROXY(keys ...string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {use-proxy-protocol: \"true\", " + strings.Join(keys, ", ") + "}\n"
}

// An announcedLine is a connection to the product that begins with bytes of the test's own.
type announcedLine struct {
	net.Conn
	reader *bufio.Reader
}

// dialAnnounced connects, says what is given and, for the HTTPS port, shakes hands.
func dialAnnounced(t *testing.T, addr, first string, secure bool) (*announcedLine, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, first); err != nil {
		return nil, err
	}
	if secure {
		over := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "h.test"})
		if err := over.Handshake(); err != nil {
			return nil, err
		}
		c = over
	}
	return &announcedLine{c, bufio.NewReader(c)}, nil
}

// ask returns the request as the endpoint saw it.
func (l *announcedLine) ask(fields string) (echo e2e.EchoBody, err error) {
	if _, err := io.WriteString(l, "GET / HTTP/1.1\r\nHost: h.test\r\n"+fields+"\r\n"); err != nil {
		return echo, err
	}
	answer, err := http.ReadResponse(l.reader, nil)
	if err != nil {
		return echo, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return echo, fmt.Errorf("the answer is %s", answer.Status)
	}
	return echo, json.NewDecoder(answer.Body).Decode(&echo)
}

// clientSeen is who a request over a fresh connection comes from, as the endpoint sees it: address, scheme and port.
func clientSeen(t *testing.T, addr, first string, secure bool, fields string) (string, error) {
	l, err := dialAnnounced(t, addr, first, secure)
	if err != nil {
		return "", err
	}
	defer l.Close()
	echo, err := l.ask(fields)
	return strings.Join([]string{echo.Header.Get("X-Forwarded-For"), echo.Header.Get("X-Forwarded-Proto"), echo.Header.Get("X-Forwarded-Port")}, " "), err
}

func proxyHeader(source, destination string) proxyprotocol.Header {
	return proxyprotocol.Header{Source: netip.MustParseAddrPort(source), Destination: netip.MustParseAddrPort(destination)}
}

// noConfig is the controller's ConfigMap with nothing to say.
const noConfig = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"

// TestPROXYProtocol turns PROXY headers on and off while the product serves, and is asked over connections that begin in
// every way (golden rows 26 and 50 of the reference among them).
func TestPROXYProtocol(t *testing.T) {
	web := e2e.Echo(t, "127.0.0.1:0", "web")
	folder := e2e.Folder(t, map[string]string{"app.yaml": ingress("app", "h.test", "/", "web"), "config.yaml": noConfig})
	p := e2e.Start(t, folder, "--map=default/web="+web.Addr, "--configmap=default/config")
	_, port, _ := net.SplitHostPort(p.HTTP)
	config := filepath.Join(folder, "config.yaml")

	before, err := dialAnnounced(t, p.HTTP, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.ask(""); err != nil {
		t.Fatalf("without PROXY headers: %v", err)
	}

	v4, v6 := proxyHeader("192.0.2.7:4711", "198.51.100.1:8080"), proxyHeader("[2001:db8::7]:4711", "[2001:db8::1]:443")
	e2e.WriteFile(t, config, wantPROXY())
	e2e.Eventually(t, "PROXY headers are wanted", func() error {
		_, err := clientSeen(t, p.HTTP, string(v4.AppendV1(nil)), false, "")
		return err
	})
	for _, c := range []struct {
		name   string
		first  []byte
		secure bool
		want   string
	}{
		{"version 1", v4.AppendV1(nil), false, "192.0.2.7 http 8080"},
		{"version 2", v4.AppendV2(nil), false, "192.0.2.7 http 8080"},
		{"port 443 of a load balancer that takes the TLS off", v6.AppendV2(nil), false, "2001:db8::7 https 443"},
		{"version 1 before TLS", v6.AppendV1(nil), true, "2001:db8::7 https 443"},
		{"version 2 before TLS", v4.AppendV2(nil), true, "192.0.2.7 https 8080"},
		{"a health check", proxyprotocol.Header{}.AppendV2(nil), false, "127.0.0.1 http " + port},
		{"UNKNOWN", []byte("PROXY UNKNOWN\r\n"), true, "127.0.0.1 https 443"},
	} {
		addr := p.HTTP
		if c.secure {
			addr = p.HTTPS
		}
		if got, err := clientSeen(t, addr, string(c.first), c.secure, "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\n"); err != nil || got != c.want {
			t.Errorf("%s: the client is %q, error %v; want %q", c.name, got, err, c.want)
		}
	}
	expectRefusal(t, "no header", p.HTTP, "")
	expectRefusal(t, "half a signature", p.HTTP, "PROXY TCP4\r\n")
	expectRefusal(t, "addresses of another family", p.HTTP, "PROXY TCP6 192.0.2.7 192.0.2.8 1 2\r\n")
	if echo, err := before.ask(""); err != nil || echo.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("a connection from before is told as %v, %v; want as before", echo.Header, err)
	}

	// X-Forwarded-For counts beside it if the announced peer is trusted.
	e2e.WriteFile(t, config, wantPROXY(`use-forwarded-headers: "true"`, `proxy-real-ip-cidr: "10.0.0.0/8,127.0.0.1"`))
	const chain = "X-Forwarded-For: 9.9.9.9, 1.1.1.1, 10.0.0.1\r\n"
	e2e.Eventually(t, "the chain of a trusted peer is believed", func() error {
		got, err := clientSeen(t, p.HTTP, "PROXY TCP4 10.0.0.9 10.0.0.2 1 80\r\n", false, chain)
		return expectClient(got, "1.1.1.1 http 80", err)
	})
	got, err := clientSeen(t, p.HTTP, "PROXY TCP4 192.0.2.7 10.0.0.2 1 80\r\n", false, chain)
	if err := expectClient(got, "192.0.2.7 http 80", err); err != nil {
		t.Errorf("the chain of another peer: %v", err)
	}

	// A peer that is not trusted may not say anything.
	e2e.WriteFile(t, config, wantPROXY(`proxy-real-ip-cidr: 10.0.0.0/8`))
	e2e.Eventually(t, "headers of peers that are not trusted are refused", func() error {
		if got, err := clientSeen(t, p.HTTP, "PROXY TCP4 10.0.0.9 10.0.0.2 1 80\r\n", false, ""); err == nil {
			return fmt.Errorf("the client is %s", got)
		}
		return nil
	})
	expectRefusal(t, "nothing, of a peer that is not trusted", p.HTTP, "")
	if !strings.Contains(p.Log(), "closed a connection for want of a PROXY header") {
		t.Error("the log does not say that connections are closed")
	}

	e2e.WriteFile(t, config, strings.Replace(wantPROXY(), "true", "false", 1))
	e2e.Eventually(t, "PROXY headers are wanted no more", func() error {
		got, err := clientSeen(t, p.HTTP, "", false, "")
		return expectClient(got, "127.0.0.1 http "+port, err)
	})
}

func expectClient(got, want string, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("the client is %q, want %q", got, want)
	}
	return err
}

// expectRefusal fails unless a connection that begins so ends without a word.
func expectRefusal(t *testing.T, what, addr, first string) {
	t.Helper()
	l, err := dialAnnounced(t, addr, first+"GET / HTTP/1.1\r\nHost: h.test\r\n\r\n", false)
	if err != nil {
		return // the end came before the last byte
	}
	said, err := io.ReadAll(l.reader)
	if timeout, ok := err.(net.Error); len(said) > 0 || ok && timeout.Timeout() {
		t.Errorf("%s: the answer is %q, %v; want the end of the connection alone", what, said, err)
	}
}

// TestSilentConnectionsLeavePROXYServing holds connections open that never send their header.
func TestSilentConnectionsLeavePROXYServing(t *testing.T) {
	web := e2e.Echo(t, "127.0.0.1:0", "web")
	folder := e2e.Folder(t, map[string]string{"app.yaml": ingress("app", "h.test", "/", "web") + "---\n" + wantPROXY("proxy-protocol-header-timeout: 1s")})
	p := e2e.Start(t, folder, "--map=default/web="+web.Addr, "--configmap=default/config")
	var silent []*announcedLine
	for range 200 {
		l, err := dialAnnounced(t, p.HTTP, "PROXY ", false)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, l)
	}
	got, err := clientSeen(t, p.HTTP, "PROXY TCP4 192.0.2.7 192.0.2.8 1 80\r\n", false, "")
	if err := expectClient(got, "192.0.2.7 http 80", err); err != nil {
		t.Error(err)
	}
	for _, l := range silent {
		said, err := io.ReadAll(l.reader)
		if timeout, ok := err.(net.Error); len(said) > 0 || ok && timeout.Timeout() {
			t.Fatalf("a connection without a header is told %q, %v; want its end", said, err)
		}
	}
}
