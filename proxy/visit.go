package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"sallyport/proxy/http1"
)

// A visit is everything one request needs, in one piece of memory, which is used again where nobody can have kept it.
type visit struct {
	exchange Exchange
	response response
	body     body
	belief   *belief              // as it was when the request began
	host     string               // that the client asked for, as far as known; empty: none
	fields   [maxSetFields]string // values of the fields that identify sets
	nfields  int
	seat     *seat // where its exchange is found; nil: it is not for use again
}

var visits = sync.Pool{New: func() any { return new(visit) }}

// A seat is the context of an HTTP/1 connection, with room for the exchange that is going on: there is one at a time, so
// that no request needs a context of its own, nor a copy of the request to hold it.
type seat struct {
	context.Context
	exchange *Exchange      // nil: none is going on
	fields   *[]http1.Field // of its request, as they were read; nil: nobody has a list of them
	remote   string         // the address of the client, as the request before had it
	peer     netip.AddrPort
	scheme   string // that the client has reached us by, and the port; empty: not found out yet
	port     string
}

func withSeat(ctx context.Context, _ net.Conn) context.Context {
	fields, _ := ctx.Value(http1.FieldsKey{}).(*[]http1.Field)
	return &seat{Context: ctx, fields: fields}
}

func (s *seat) Value(key any) any {
	if _, ok := key.(exchangeKey); ok && s.exchange != nil {
		return s.exchange
	}
	return s.Context.Value(key)
}

// newVisit begins the visit of a request and returns the request that its exchange is found by. What reads a body may be
// left behind by its handler, so that only a request without one takes the seat.
func newVisit(r *http.Request) (*visit, *http.Request) {
	if seat, ok := r.Context().(*seat); ok && r.Body == http.NoBody {
		v := visits.Get().(*visit)
		v.seat, seat.exchange = seat, &v.exchange
		return v, r
	}
	v := new(visit)
	return v, With(r, &v.exchange)
}

// read is the fields of the request as they were read; nil: there is no list of them.
func (v *visit) read() []http1.Field {
	if v.seat == nil || v.seat.fields == nil {
		return nil
	}
	return *v.seat.fields
}

// peer is the address of a client, as net/http writes it; none where it writes something else.
func (v *visit) peer(remote string) netip.AddrPort {
	if v.seat != nil && v.seat.remote == remote {
		return v.seat.peer
	}
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.AddrPort{}
	}
	peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	if v.seat != nil {
		v.seat.remote, v.seat.peer = remote, peer
	}
	return peer
}

// reached is by which scheme and port the client has reached us, which stays so for a connection.
func (v *visit) reached(d *door, r *http.Request) (scheme, port string) {
	if v.seat != nil && v.seat.port != "" {
		return v.seat.scheme, v.seat.port
	}
	scheme, port = d.reached(r)
	if v.seat != nil {
		v.seat.scheme, v.seat.port = scheme, port
	}
	return scheme, port
}

// over is called last, when the request was answered as it should be. A connection that was handed over may be anybody's.
func (v *visit) over() {
	if v.seat == nil || v.response.hijacked {
		return
	}
	v.seat.exchange = nil
	*v = visit{}
	visits.Put(v)
}

// open begins the exchange of a request.
func (d *door) open(w http.ResponseWriter, r *http.Request) (*visit, *http.Request) {
	s := d.server
	v, r := newVisit(r)
	e := &v.exchange
	e.Start = time.Now()
	e.Method = r.Method
	e.Scheme, e.Port = v.reached(d, r)
	e.multiplexed = r.ProtoMajor > 1
	e.secure = r.TLS != nil
	e.server = s
	v.response = response{ResponseWriter: w, exchange: e, server: s, body: &v.body}
	v.watchBody(s, w, r)
	s.life.requests.Add(1)
	if s.draining.Load() {
		w.Header().Set("Connection", "close") // HTTP/2 makes a GOAWAY of it
	}
	return v, r
}
