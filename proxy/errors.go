package proxy

import "net/http"

// Fail answers a request in the proxy's own name: a small plain page, or JSON when the client's Accept asks for it,
// with the status, the reason and the request id; a gRPC call gets its own kind of answer. Nothing of the answer may have been written yet. Headers already set
// on w stay, except those that describe a body. Where the route has pages of its own for the status, they answer instead.
func Fail(w http.ResponseWriter, r *http.Request, status int, reason Reason) {
	e := From(r)
	e.Reason = reason
	if status == StatusClientClosed {
		failClosed(w, r, e)
		return
	}
	if pages := e.ErrorPages; pages != nil && pages.Takes(status, false) {
		e.ErrorPages = nil
		pages.Serve(w, r, status)
		return
	}
	writePage(w, r, e, status)
}

// failClosed is for a client that has left, as far as can be told: one that has closed only its own side of the
// connection, in the middle of a body or while it waits, looks the same and reads on. On the wire there is no 499, so
// it gets 400 and the end of the connection. The exchange says what is known: the client left, and took nothing.
func failClosed(w http.ResponseWriter, r *http.Request, e *Exchange) {
	if !e.multiplexed {
		w.Header().Set("Connection", "close")
	}
	writePage(w, r, e, http.StatusBadRequest)
	e.Status, e.Sent = StatusClientClosed, 0
}

func writePage(w http.ResponseWriter, r *http.Request, e *Exchange, status int) {
	header := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Range", "Etag", "Last-Modified", "Trailer"} {
		header.Del(name)
	}
	if isGRPC(r) && status >= 400 {
		failGRPC(w, e, status)
		return
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Request-Id", e.ID)
	text := http.StatusText(status)
	if WantsJSON(r) {
		header.Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write([]byte(`{"status":` + itoa(status) + `,"error":"` + text + `","reason":"` + string(e.Reason) + `","requestId":"` + e.ID + "\"}\n"))
		return
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(itoa(status) + " " + text + "\nreason: " + string(e.Reason) + "\nrequest: " + e.ID + "\n"))
}

func itoa(status int) string {
	return string([]byte{byte('0' + status/100%10), byte('0' + status/10%10), byte('0' + status%10)})
}
