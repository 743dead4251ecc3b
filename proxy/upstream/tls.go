package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A Peer is what is asked of endpoints over TLS beside what a [tls.Config] can say. It never changes.
type Peer struct {
	// Verify judges the certificates that an endpoint shows, its own first. Name is the server name, empty if the host that
	// the endpoint is told can be none. It is asked in place of crypto/tls. Nil: that verifies, or not, by its configuration.
	Verify func(name string, sent []*x509.Certificate) error
	// Unnamed tells endpoints no server name. It needs a Verify, or a configuration that verifies nothing.
	Unnamed bool
}

// unverified is the TLS of a route that says nothing about it.
var unverified = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}

// A line says which requests may share a connection: those that would have made the same one. A client certificate, or the
// trust in the endpoint's, is never somebody else's. The zero value is a connection in the clear.
type line struct {
	config *tls.Config
	peer   *Peer
	name   string // of the server
}

func (l line) secure() bool { return l.config != nil }

// serverName is the name of an endpoint that is told host: config's, if it has one, else the host without its port, if it
// could be a name or an address.
func serverName(config *tls.Config, host string) string {
	if config.ServerName != "" {
		return config.ServerName
	}
	return ServerName(host)
}

// ServerName is the name of a server in a Host field: without its port. Empty: it can be neither a name nor an address.
func ServerName(host string) string {
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
	if p := l.peer; p != nil {
		p.on(config, l.name)
	}
	c.tls = tls.Client(&wire{c.tcp, c}, config)
	c.line = l
	if err := c.tls.HandshakeContext(ctx); err != nil {
		c.tcp.Close()
		return handshakeError{err}
	}
	return nil
}

// A handshakeError is what ended a handshake after the connection was made.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// tlsComplaint is what one of the two sides has against the other's TLS, so that people can read why there is none: a
// certificate that is refused, a name that is unknown. Empty: the error is something else, as a connection that broke.
func tlsComplaint(err error) string {
	var shaking handshakeError
	var op *net.OpError
	var ne net.Error
	switch {
	case errors.As(err, &op) && op.Op == "remote error": // an alert; in TLS 1.3 it may come after the handshake
		return err.Error()
	case !errors.As(err, &shaking):
		return ""
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isReset(err):
		return "the endpoint has ended the connection in the handshake" // as who speaks no TLS may, or knows no such name
	case errors.As(err, &op), errors.As(err, &ne) && ne.Timeout(), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ""
	}
	return err.Error()
}

// clientNamed reports whether the server name is one that this client chose, as below a wildcard. That there is no handshake
// for it says nothing about the endpoint: anybody could have any endpoint left out by asking for a name that it does not know.
func (x *trip) clientNamed() bool {
	if !x.line.secure() || x.t.options.TLS.ServerName != "" {
		return false
	}
	return x.e.Info == nil || !strings.EqualFold(x.line.name, x.e.Info.Host)
}

func (p *Peer) on(config *tls.Config, name string) {
	if p.Verify != nil {
		config.InsecureSkipVerify = true // it is verified here
		config.VerifyConnection = func(s tls.ConnectionState) error { return p.Verify(name, s.PeerCertificates) }
	}
	if p.Unnamed {
		config.ServerName = ""
	}
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
