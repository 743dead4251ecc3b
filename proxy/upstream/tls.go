package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"time"
)

// unverified is the TLS of a route that says nothing about it.
var unverified = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}

// A line says which requests may share a connection: those that would have made the same one. A client certificate, or the
// trust in the endpoint's, is never somebody else's. The zero value is a connection in the clear.
type line struct {
	config *tls.Config
	name   string // of the server
}

func (l line) secure() bool { return l.config != nil }

// serverName is the name of an endpoint that is told host: config's, if it has one, else the host without its port, if it
// could be a name or an address.
func serverName(config *tls.Config, host string) string {
	if config.ServerName != "" {
		return config.ServerName
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil || dnsName(host) {
		return host // crypto/tls sends no address as a server name, but can verify it
	}
	return ""
}

// dnsName reports whether s could be the name of a server.
func dnsName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, b := range []byte(label) {
			if b != '-' && b != '_' && (b < '0' || b > '9') && (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') {
				return false
			}
		}
	}
	return len(s) <= 253
}

// secure begins TLS on a new connection, to speak protocol over it. What is left of the time to connect, which began with
// the connection, is for this too. After an error the connection is closed.
func (c *conn) secure(ctx context.Context, l line, protocol string, begun time.Time, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, begun.Add(timeout))
		defer cancel()
	}
	config := l.config.Clone()
	config.ServerName = l.name
	config.NextProtos = []string{protocol}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	c.tls = tls.Client(&wire{c.tcp, c}, config)
	c.line = l
	if err := c.tls.HandshakeContext(ctx); err != nil {
		c.tcp.Close()
		return err
	}
	return nil
}

// A wire is a connection below TLS.
type wire struct {
	*net.TCPConn
	c *conn
}

func (w *wire) Read(p []byte) (int, error) {
	if w.c.looking {
		return w.c.readNow(p)
	}
	return w.TCPConn.Read(p)
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.TCPConn.Write(p)
	w.c.wrote += uint64(n)
	return n, err
}
