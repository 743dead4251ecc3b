package upstream

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// wantsWebSocket reports whether r asks for a WebSocket (RFC 6455 section 4.2.1), the one upgrade that passes. Any other,
// h2c above all, would open a tunnel through which requests reach endpoints unseen; those fields are dropped and the
// request is an ordinary one.
func wantsWebSocket(r *http.Request) bool {
	if r.Method != http.MethodGet || r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || r.ContentLength != 0 {
		return false
	}
	upgrade := r.Header["Upgrade"]
	if len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket") || r.Header.Get("Sec-Websocket-Key") == "" {
		return false
	}
	for _, value := range r.Header["Connection"] {
		if http1.HasToken(value, "upgrade") {
			return true
		}
	}
	return false
}

var (
	errUnasked  = errors.New("101 was not asked for")
	errMismatch = errors.New("101 does not answer the WebSocket handshake that was asked for")
)

// acceptsWebSocket checks that a 101 is the answer to the handshake in r.
func acceptsWebSocket(r *http.Request, res *http1.Response) bool {
	upgrades := 0
	for i := range res.Fields {
		if res.Fields[i].Name == "Upgrade" {
			upgrades++
		}
	}
	return upgrades == 1 && strings.EqualFold(res.Get("Upgrade"), "websocket") && nominated(res, "Upgrade") &&
		res.Get("Sec-Websocket-Accept") == acceptKey(r.Header.Get("Sec-Websocket-Key"))
}

// acceptKey is the proof that the endpoint read the handshake (RFC 6455 section 4.2.2, item 5.4).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// switchProtocols takes the client's connection over and joins it with c until both directions have ended.
func (x *trip) switchProtocols(c *conn, a *proxy.Attempt) *fault {
	switch {
	case !x.upgrade:
		return &fault{http.StatusBadGateway, proxy.UpstreamInvalid, errUnasked}
	case !acceptsWebSocket(x.r, &c.answer):
		return &fault{http.StatusBadGateway, proxy.UpstreamInvalid, errMismatch}
	}
	header := x.w.Header()
	copyFields(header, &c.answer, x.e)
	if cookie := x.setCookie(a); cookie != "" {
		header.Add("Set-Cookie", cookie)
	}
	head := appendSwitch(nil, header)
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return &fault{http.StatusInternalServerError, proxy.Panic, err}
	}
	x.committed, x.hijacked = true, true
	defer client.Close()
	x.e.Status = http.StatusSwitchingProtocols
	t := tunnel{client: client, upstream: c.stream(), idle: x.t.options.TunnelTimeout, stall: x.t.options.SendTimeout}
	f := t.run(x.r.Context(), early(buffered.Reader), head, c.reader.Buffered())
	sent := t.toClient.Load()
	x.e.Sent += sent
	x.e.Received += t.toUpstream.Load()
	a.Received += sent
	return f
}

// appendSwitch appends the head of the 101 for the client.
func appendSwitch(b []byte, header http.Header) []byte {
	b = append(b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"...)
	for name, values := range header {
		if ofConnection(name) {
			continue
		}
		for _, value := range values {
			b = http1.AppendField(b, name, value)
		}
	}
	return http1.AppendEnd(b)
}

// early returns what the client sent behind its request without waiting for the 101. The server has read it already;
// left there, the first frames of an eager client would be lost.
func early(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered())
	return b
}

// halfCloser is a connection that can end one direction: *net.TCPConn, *tls.Conn.
type halfCloser interface{ CloseWrite() error }

var (
	_ halfCloser = (*net.TCPConn)(nil)
	_ halfCloser = (*tls.Conn)(nil)
)
