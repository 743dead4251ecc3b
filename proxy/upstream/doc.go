// Package upstream is the back of the proxy: it chooses an endpoint for a request, sends the request there and relays
// the answer.
//
// A [Pool] holds the live endpoints of one Service port with what was learned about each: its idle connections and
// what is in flight. Pools are keyed by [ID] and outlive routing tables, so a change of a table or of the endpoints
// never loses a connection that is still good. A [Transport] is an [http.Handler], the last of a route:
//
//	var pools upstream.Pools
//	pool := pools.Get(upstream.ID{Namespace: "shop", Service: "web", Port: "http"})
//	pool.Set([]netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:8080")})
//	handler := upstream.New(pool, upstream.Options{})
//
// What happens to one request, in this order:
//
//  1. A small body of known length is read, so that a slow client holds no connection to an endpoint. Larger bodies are
//     streamed, never collected.
//  2. The policy picks an endpoint that this request has not tried, unless the client belongs to one ([Affinity]). None at
//     all: 503. Endpoints that fail, or fail their checks, come last (health.go, silence.go, check.go); where the pool has
//     a limit of what is in flight and all are full, the request waits in a line (queue.go).
//  3. An idle connection is taken, after a look whether the endpoint closed it or said something unasked; else a new one
//     is made. A connection that cannot be made moves on to the next endpoint: nothing was sent.
//  4. The head is written and the answer read on the caller's goroutine. A body is sent by a second goroutine meanwhile,
//     because an endpoint may answer before it has read everything.
//  5. Interim answers (1xx) are relayed, the final head too, then the body as it comes, then the trailer. A status that
//     the route retries, or has a page of its own for ([proxy.ErrorPages]), is not relayed: the answer is dropped.
//  6. The connection goes back to its endpoint if nothing about the exchange is in doubt; else it is closed.
//
// To endpoints of gRPC ([GRPC], [GRPCS]) a request goes over HTTP/2 instead, where it shares a connection with others. The
// steps are the same; the frames are net/http's. Connections are shared only by requests that would have made the same
// one: in the clear, or over TLS with the very same configuration and server name.
//
// # Retries
//
// When an attempt fails in a way that the route's [RetryOn] names, the next endpoint has the request, or once all have had
// it, the one that had it longest ago, up to the route's number of tries. Nothing of that happens once a byte of the
// answer went to the client, and beyond that:
//
//   - An endpoint that may have acted on a POST, PATCH or LOCK is the last, whatever the request's headers say: an endpoint
//     that acted twice is worse than a 502. A route can allow it.
//   - A body of which some was sent must be one that can be read again: a small one, or a [Rewinder].
//   - An endpoint that began to answer, and then stopped or stalled, is the last one too.
//   - Endpoints that refuse the connection do not count as tries, up to a bound, and are not tried twice.
//   - A connection that had been used before and turns out to be closed does not count either: the endpoint ended it in the
//     moment in which the request was under way. The request goes over a new one to the same endpoint; a POST only where it
//     is certain that nothing of it arrived.
//
// Whose fault a failure was decides the answer. A client that leaves, stalls or breaks the framing of its own body gets a
// status of the 4xx kind and is not counted against the endpoint; an endpoint that refuses, stalls, resets or does not
// speak its protocol is a 502 or 504 with a [proxy.Reason], which a gRPC client is told as a grpc-status. Once the head of
// the answer is out, a failure can only be shown by breaking the answer off, which is done with a panic of
// [http.ErrAbortHandler]: a client never takes half a body for a whole one.
//
// Header fields of a connection (RFC 9110 section 7.6.1) end here, in both directions, and so do the answer's Server and
// every upgrade but WebSocket's. Bodies are never decoded. The front of the proxy has validated the request and set the
// forwarding fields before a Transport sees it.
//
// All retries of a pool share a budget, so that an outage is not multiplied (budget.go).
//
// The package does not resolve names and does not honour HTTP_PROXY.
package upstream
