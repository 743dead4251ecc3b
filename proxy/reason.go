package proxy

// A Reason names why the proxy answered by itself, or cut an answer. It is one word, stable, searchable, and stands in
// the access log and in JSON error bodies.
type Reason string

// The reasons, by who is at fault.
const (
	// The client's request.
	BadRequest       Reason = "bad_request"        // 400: malformed target, host or header
	AmbiguousPath    Reason = "ambiguous_path"     // 400: readings of the path lead to different routes
	HeadTimeout      Reason = "head_timeout"       // 408: the head was not sent in time
	BadBody          Reason = "bad_body"           // 400: the body's framing broke while it was read
	BodyTimeout      Reason = "body_timeout"       // 408: the body stalled
	BodyTooLarge     Reason = "body_too_large"     // 413
	MethodNotAllowed Reason = "method_not_allowed" // 405: CONNECT, TRACE
	TargetTooLong    Reason = "target_too_long"    // 414
	ClientClosed     Reason = "client_closed"      // 499: the client left; nobody reads the answer
	Misdirected      Reason = "misdirected"        // 421

	// The table.
	NoRoute     Reason = "no_route"     // 404: no host or no path matches
	NoService   Reason = "no_service"   // 503: the Service or its port does not exist
	NoEndpoints Reason = "no_endpoints" // 503: the Service has none that is ready
	Denied      Reason = "denied"       // 503: the Ingress is set aside because something that guards it is wrong
	NotReady    Reason = "not_ready"    // 503: there is no table yet
	TLSRedirect Reason = "tls_redirect" // 308

	// The features of a route.
	Redirect        Reason = "redirect"         // 3xx, asked for by annotation
	Preflight       Reason = "preflight"        // 204: a CORS preflight
	Blocked         Reason = "blocked"          // 403: block-cidrs, block-user-agents, block-referers
	AddressDenied   Reason = "address_denied"   // 403: an allow or deny list
	NoClientCert    Reason = "no_client_cert"   // 400: the host asks for a client certificate, and there was none
	BadClientCert   Reason = "bad_client_cert"  // 400: the client's certificate is refused
	ClientCertOnly  Reason = "client_cert_only" // 403: another common name is wanted; or nobody can be let in, because what is to verify clients is wrong
	Unauthenticated Reason = "unauthenticated"  // 401, or the redirect to the sign-in page
	AuthForbidden   Reason = "auth_forbidden"   // 403: the external authentication said so
	AuthFailed      Reason = "auth_failed"      // 500: the external authentication gave no answer that counts
	RateLimited     Reason = "rate_limited"     // 503 or limit-req-status-code
	TooManyRequests Reason = "too_many_at_once" // 503 or limit-conn-status-code

	// The upstream.
	ConnectRefused  Reason = "connect_refused"  // 502
	ConnectTimeout  Reason = "connect_timeout"  // 504
	ConnectFailed   Reason = "connect_failed"   // 502: any other failure to connect
	UpstreamTLS     Reason = "upstream_tls"     // 502: an endpoint's certificate is refused, or what we speak over TLS is by the endpoint
	SendTimeout     Reason = "send_timeout"     // 504
	HeaderTimeout   Reason = "header_timeout"   // 504: no head of an answer in time
	ReadTimeout     Reason = "read_timeout"     // the body of the answer stalled; it is cut
	UpstreamReset   Reason = "upstream_reset"   // 502, or a cut answer: the connection broke or ended early
	UpstreamInvalid Reason = "upstream_invalid" // 502: the answer is not HTTP as it must be
	UpstreamTooBig  Reason = "upstream_too_big" // 502: the answer's head is over the limit

	Overloaded Reason = "upstream_overloaded" // 503: every endpoint has as much as it may have, and others wait already

	BufferFailed Reason = "buffer_failed" // 500: there was no room to keep the request's body

	Panic Reason = "panic" // 500: a fault of ours
)
