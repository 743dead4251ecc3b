package upstream

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Options are what a route may say about how its requests are sent. Times are gaps between two signs of life, never
// totals: a body may take as long as it takes while it moves. Zero means the default, negative no limit.
type Options struct {
	Protocol Protocol // what endpoints speak; default HTTP

	// Balance says how endpoints are picked; default round robin.
	Balance Balance
	// HashBy is what requests have in common that go to one endpoint, for policies that hash. Nil: nothing is said.
	HashBy func(*http.Request) string
	// Affinity keeps clients at their endpoints; it comes before Balance. Nil: every request is for itself.
	Affinity *Affinity

	// TLS is how connections are secured where the Protocol asks for it. Nil: TLS 1.2 or later, and the endpoint's
	// certificate is not looked at, as in ingress-nginx: whoever can answer at a Pod's address is believed. The server
	// name, where it has none, is the host that the endpoint is told. It must not change any more; connections are shared
	// only among routes with the very same one.
	TLS *tls.Config
	// Peer is what is asked of endpoints beside. Nil: nothing. Connections are shared only among routes with the very same.
	Peer *Peer

	// Connection is what HTTP/1 endpoints are told in the Connection field: "close", with which no connection is used
	// twice, or "keep-alive"; empty: nothing. A WebSocket handshake says Upgrade whatever this is.
	Connection string

	// HTTP10 speaks HTTP/1.0 to HTTP/1 endpoints: no connection is used twice, nothing is chunked, there is no WebSocket. A
	// body of unknown length is read first, up to 1 MiB; a client that sends more is told to say how much (411).
	HTTP10 bool

	ConnectTimeout  time.Duration // to make a connection, TLS included; default 5 s
	SendTimeout     time.Duration // between two writes that the endpoint accepts; default 60 s
	ReadTimeout     time.Duration // until the head of the answer once the request is sent, and between two reads; default 60 s
	ContinueTimeout time.Duration // how long an upload with Expect: 100-continue waits for the endpoint's word; default 1 s
	TunnelTimeout   time.Duration // how long an upgraded connection may be silent in both directions; default 1 h

	// Retry is after what a request goes to another endpoint, or again to the same where it has been to all. Zero: errors
	// and timeouts.
	Retry RetryOn
	// Tries is how often a request is sent, or a connection for it begun, at most; default 3. Endpoints that refuse at once
	// do not count. Negative means no limit of the route's; that of [maxTries] stays.
	Tries int
	// RetryBudget is how many of a hundred requests to the pool may be sent again; zero means 20, negative none. Ten a
	// second may be in any case: see budget.
	RetryBudget int
	// RetryTimeout is the time from the first try after which no other begins. Zero means no limit.
	RetryTimeout time.Duration
}

// maxTries is where "no limit" ends: an endpoint that answers 503 at once, to a route that retries that, would be asked
// without end for one request.
const maxTries = 32

// A Protocol is what the endpoints of a route speak.
type Protocol uint8

// The protocols.
const (
	HTTP     Protocol = iota // HTTP/1
	HTTPS                    // HTTP/1 over TLS
	GRPC                     // HTTP/2 in the clear, begun without asking (RFC 9113 section 3.3)
	GRPCS                    // HTTP/2 over TLS
	AutoHTTP                 // HTTPS for requests that came by HTTPS, else HTTP
)

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&o.ConnectTimeout, 5 * time.Second},
		{&o.SendTimeout, 60 * time.Second},
		{&o.ReadTimeout, 60 * time.Second},
		{&o.ContinueTimeout, time.Second},
		{&o.TunnelTimeout, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	switch {
	case o.Tries == 0:
		o.Tries = 3
	case o.Tries < 0:
		o.Tries = maxTries
	}
	if o.RetryBudget == 0 {
		o.RetryBudget = 20
	}
	if o.Retry == 0 {
		o.Retry = RetryOnError | RetryOnTimeout
	}
	if o.TLS == nil {
		o.TLS = unverified
	}
	if o.HTTP10 {
		o.Connection = "close"
	}
	return o
}

// closes reports whether no connection is used twice.
func (o *Options) closes() bool { return o.Connection == "close" }
