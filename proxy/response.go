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

const strictTransport = "Strict-Transport-Security"

// A response counts what is written to the client, and gives up on one that takes nothing for too long.
type response struct {
	http.ResponseWriter
	exchange *Exchange
	server   *Server
	body     *body
	wrote    bool     // the head of the final answer is out
	hijacked bool     // the connection is somebody else's
	tunnel   net.Conn // the hijacked connection
	stall    *stall   // HTTP/2; nil: HTTP/1
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	if status >= 200 && !w.wrote {
		w.wrote = true
		w.exchange.Status = status
		if w.server.draining.Load() {
			w.Header().Set("Connection", "close") // HTTP/2 makes a GOAWAY of it
		}
		var strict []string
		if w.exchange.secure {
			strict = w.server.believed().strict
		}
		if strict != nil {
			delete(w.Header(), strictTransport)
		}
		if hook := w.exchange.Everywhere; hook != nil {
			hook.SetHeader(w.exchange, w.Header())
		}
		for i := len(w.exchange.hooks) - 1; i >= 0; i-- {
			w.exchange.hooks[i].SetHeader(w.exchange, w.Header())
		}
		if strict != nil && w.Header()[strictTransport] == nil { // what the operator has set by a hook stands
			w.Header()[strictTransport] = strict
		}
		if w.exchange.Cookie != "" {
			w.Header().Add("Set-Cookie", w.exchange.Cookie)
		}
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

// wait is called before bytes go to the client of HTTP/2, who has a while to take them, and done after.
func (w *response) wait() {
	if !w.exchange.multiplexed {
		return // the server on the wire sees to it
	}
	if w.stall == nil {
		w.stall = &stall{after: w.server.bodyTimeout(), end: func() { w.setDeadline(past) }}
	}
	w.stall.wait()
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

// settle is called when the handler has returned.
func (w *response) settle() {
	if w.stall != nil {
		w.stall.close()
	}
}

// leave is called when the exchange is over and has been told.
func (w *response) leave() {
	if w.hijacked {
		w.server.life.leave(w.tunnel)
		w.server.gone(w.tunnel)
		return
	}
	w.server.life.requests.Add(-1)
}
