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
//  2. The policy picks an endpoint that this request has not tried. None at all: 503.
//  3. An idle connection is taken, after a look whether the endpoint closed it or said something unasked; else a new one
//     is made. A connection that cannot be made moves on to the next endpoint, at most three in all: nothing was sent.
//  4. The head is written and the answer read on the caller's goroutine. A body is sent by a second goroutine meanwhile,
//     because an endpoint may answer before it has read everything.
//  5. Interim answers (1xx) are relayed, the final head too, then the body as it comes, then the trailer.
//  6. The connection goes back to its endpoint if nothing about the exchange is in doubt; else it is closed.
//
// A request is repeated on a new connection only when it is a GET, HEAD or OPTIONS without a body and a connection that
// had been used before died without a byte of an answer: the endpoint closed it while the request was under way. A POST
// is never repeated, whatever its headers say: an endpoint that acted twice is worse than a 502.
//
// Whose fault a failure was decides the answer. A client that leaves, stalls or breaks the framing of its own body gets a
// status of the 4xx kind and is not counted against the endpoint; an endpoint that refuses, stalls, resets or does not
// speak HTTP is a 502 or 504 with a [proxy.Reason]. Once the head of the answer is out, a failure can only be shown by
// breaking the answer off, which is done with a panic of [http.ErrAbortHandler]: a client never takes half a body for a
// whole one.
//
// Header fields of a connection (RFC 9110 section 7.6.1) end here, in both directions, and so do the answer's Server and
// every upgrade but WebSocket's. Bodies are never decoded. The front of the proxy has validated the request and set the
// forwarding fields before a Transport sees it.
//
// The package does not resolve names, speaks no TLS and no HTTP/2 to endpoints, does not check health by itself and does
// not honour HTTP_PROXY.
package upstream
