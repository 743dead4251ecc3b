package upstream

import (
	"io"
	"net/http"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// relay passes the final answer on: its head, its body as it comes, its trailer.
func (x *trip) relay(c *conn, a *proxy.Attempt) *fault {
	res := &c.answer
	header := x.w.Header()
	copyFields(header, res, x.e)
	if _, ok := header["Content-Type"]; !ok {
		// An answer without a type is passed on without one. net/http would guess: data becomes text/html that way.
		header["Content-Type"] = nil
	}
	if x.waits() && x.r.ProtoMajor == 1 {
		// The rest of the body may never be read, so where the next request begins on the client's connection is
		// open. In HTTP/2 a stream ends alone.
		header.Set("Connection", "close")
	}
	x.committed = true
	x.e.Cookie = x.setCookie(a)
	x.w.WriteHeader(res.Status)
	if !c.reader.Ready() {
		x.flush()
	}
	for {
		piece, err := c.reader.Body()
		if len(piece) > 0 {
			a.Received += int64(len(piece))
			if _, err := x.w.Write(piece); err != nil {
				return left(err)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.readFault(err, proxy.ReadTimeout)
		}
		if !c.reader.Ready() {
			x.flush()
		}
	}
	x.relayTrailer(header, c.reader.Trailer())
	return nil
}

// copyFields adds the fields of an answer to header: all but those of the connection, those the endpoint's Connection
// field names, and Server, which is nobody's business unless the exchange says otherwise. A 1xx or 204 has no length; a 304
// may give that of what it does not send, but HTTP/2 clients take it for a body that is missing.
func copyFields(header http.Header, res *http1.Response, e *proxy.Exchange) {
	values := make([]string, 0, len(res.Fields))
	trailers := false
	nominates := nominatesAny(res)
	noLength := res.Status < 200 || res.Status == http.StatusNoContent || res.Status == http.StatusNotModified
	for i := range res.Fields {
		name, value := res.Fields[i].Name, res.Fields[i].Value
		switch {
		case name == "Trailer":
			trailers = true
			continue
		case ofConnection(name), name == "Server" && !e.ServerField, noLength && name == "Content-Length", nominates && nominated(res, name):
			continue
		}
		if before := header[name]; len(before) > 0 {
			header[name] = append(before[:len(before):len(before)], value)
			continue
		}
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if trailers && res.Chunked {
		announce(header, res)
	}
}

// announce repeats the endpoint's promise of trailer fields, which makes net/http send them as such.
func announce(header http.Header, res *http1.Response) {
	for i := range res.Fields {
		if res.Fields[i].Name != "Trailer" {
			continue
		}
		for rest := res.Fields[i].Value; rest != ""; {
			var name string
			name, rest = http1.NextToken(rest)
			name = http.CanonicalHeaderKey(name)
			if http1.ValidToken(name) && !http1.ForbiddenTrailer(name) {
				header.Add("Trailer", name)
			}
		}
	}
}

// relayTrailer hands the trailer to net/http. A short answer must be out before, or net/http would give it a length and
// drop the trailer.
func (x *trip) relayTrailer(header http.Header, trailer []http1.Field) {
	if len(trailer) == 0 {
		return
	}
	x.flush()
	for _, f := range trailer {
		header.Add(http.TrailerPrefix+f.Name, f.Value)
	}
}

// nominatesAny reports whether the answer has a Connection field that names other fields.
func nominatesAny(res *http1.Response) bool {
	for i := range res.Fields {
		if res.Fields[i].Name == "Connection" {
			switch res.Fields[i].Value {
			case "close", "keep-alive", "Keep-Alive":
			default:
				return true
			}
		}
	}
	return false
}

// nominated reports whether the answer's Connection field names a field as the connection's own.
func nominated(res *http1.Response, name string) bool {
	for i := range res.Fields {
		if res.Fields[i].Name == "Connection" && http1.HasToken(res.Fields[i].Value, name) {
			return true
		}
	}
	return false
}

// flush sends what net/http has collected. A writer that cannot do that has nothing to collect.
func (x *trip) flush() {
	if f, ok := x.w.(http.Flusher); ok {
		f.Flush()
		return
	}
	http.NewResponseController(x.w).Flush()
}
