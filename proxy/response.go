package proxy

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// StatusClientClosed is the status of an exchange whose client left before it was answered, as nginx has it. It is for the
// log and the metrics and never sent: see [Fail].
const StatusClientClosed = 499

// extendEvery is how often deadlines are moved while bytes flow: a timer set for every write would cost more than it
// brings.
const extendEvery = 5 * time.Second

// A response counts what is written to the client, and gives up on one that takes nothing for too long.
type response struct {
	http.ResponseWriter
	exchange *Exchange
	server   *Server
	body     *body
	wrote    bool      // the head of the final answer is out
	duplex   bool      // HTTP/1: the body is read while the answer is written
	hijacked bool      // the connection is somebody else's
	tunnel   net.Conn  // the hijacked connection
	extended time.Time // HTTP/1: when the deadline was moved last
	stall    *stall    // HTTP/2; nil: HTTP/1
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	if status >= 200 && !w.wrote {
		w.wrote = true
		w.exchange.Status = status
		w.settleBody()
		for i := len(w.exchange.hooks) - 1; i >= 0; i-- {
			w.exchange.hooks[i].SetHeader(w.exchange, w.Header())
		}
		if w.exchange.Cookie != "" {
			w.Header().Add("Set-Cookie", w.exchange.Cookie)
		}
	}
	if status == http.StatusContinue {
		w.body.unasked = false
	}
	w.wait()
	w.ResponseWriter.WriteHeader(status)
	w.done()
}

func (w *response) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	w.wait()
	n, err := w.ResponseWriter.Write(p)
	w.done()
	if w.exchange.Method != http.MethodHead { // whose bodies net/http takes and drops
		w.exchange.Sent += int64(n)
	}
	return n, err
}

func (w *response) Flush() {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	w.wait()
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	w.done()
}

// EnableFullDuplex is for http.ResponseController.
func (w *response) EnableFullDuplex() error {
	w.duplex = true
	return http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
}

// settleBody deals with a body over HTTP/1 that nobody wants before the final answer is written. Where the client may
// not be done with it soon, the connection ends after the answer, which does not wait for it.
func (w *response) settleBody() {
	if w.duplex || !w.body.left() || w.body.drain() {
		return
	}
	w.EnableFullDuplex() // else net/http reads it after all
	Linger(w.ResponseWriter)
}

// Hijack hands the connection over, as for a WebSocket. The handler must not return before it is done with it; until
// then Shutdown waits for it.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := w.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, http.ErrNotSupported
	}
	connection, buffered, err := w.server.life.hijack(h)
	if err != nil {
		return nil, nil, err
	}
	w.hijacked, w.tunnel = true, connection
	w.exchange.Status = http.StatusSwitchingProtocols
	return connection, buffered, nil
}

// SetReadDeadline is for http.ResponseController. A time that has passed ends the reading of the body for good.
func (w *response) SetReadDeadline(t time.Time) error {
	if t.Before(w.exchange.Start) && !t.IsZero() {
		return w.body.stop()
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t)
}

// wait is called before bytes go to the client, who has a while to take them, and done after.
func (w *response) wait() {
	if w.exchange.multiplexed {
		if w.stall == nil {
			w.stall = &stall{after: w.server.bodyTimeout(), end: func() { w.setDeadline(past) }}
		}
		w.stall.wait()
		return
	}
	if now := time.Now(); now.Sub(w.extended) > min(extendEvery, w.server.bodyTimeout()/2) {
		w.extended = now
		w.setDeadline(now.Add(w.server.bodyTimeout()))
	}
}

func (w *response) done() {
	if w.stall != nil {
		w.stall.done()
	}
}

func (w *response) setDeadline(t time.Time) {
	if d, ok := w.ResponseWriter.(interface{ SetWriteDeadline(time.Time) error }); ok {
		d.SetWriteDeadline(t)
	}
}

// settle is called when the handler has returned. The deadline stays for the bytes that net/http has yet to write, far
// enough ahead not to meet the next request on the connection.
func (w *response) settle() {
	if w.hijacked {
		return
	}
	if !w.wrote {
		w.settleBody()
	}
	if w.body.left() {
		w.body.stop() // net/http, which looks for its end, need not wait either
		Linger(w.ResponseWriter)
	}
	switch {
	case w.stall != nil:
		w.stall.close()
	case !w.extended.IsZero():
		w.setDeadline(time.Now().Add(w.server.bodyTimeout() + idleTimeout + finishTimeout))
	}
}

// leave is called when the exchange is over and has been told.
func (w *response) leave() {
	if w.hijacked {
		w.server.life.leave(w.tunnel)
		return
	}
	w.server.life.requests.Add(-1)
}
