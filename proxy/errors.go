package proxy

import "net/http"

// Fail answers a request in the proxy's own name: a small plain page, or JSON when the client's Accept asks for it,
// with the status, the reason and the request id. Nothing of the answer may have been written yet. Headers already set
// on w stay, except those that describe a body. Where the route has pages of its own for the status, they answer instead.
func Fail(w http.ResponseWriter, r *http.Request, status int, reason Reason) {
	e := From(r)
	e.Reason = reason
	if pages := e.ErrorPages; pages != nil && pages.Takes(status, false) {
		e.ErrorPages = nil
		pages.Serve(w, r, status)
		return
	}
	header := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Range", "Etag", "Last-Modified", "Trailer"} {
		header.Del(name)
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Request-Id", e.ID)
	text := http.StatusText(status)
	if status == StatusClientClosed {
		text = "Client Closed Request"
	}
	if WantsJSON(r) {
		header.Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write([]byte(`{"status":` + itoa(status) + `,"error":"` + text + `","reason":"` + string(reason) + `","requestId":"` + e.ID + "\"}\n"))
		return
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(itoa(status) + " " + text + "\nreason: " + string(reason) + "\nrequest: " + e.ID + "\n"))
}

func itoa(status int) string {
	return string([]byte{byte('0' + status/100%10), byte('0' + status/10%10), byte('0' + status%10)})
}
