package feature

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// Limits on what asking a service costs.
const (
	authPatience  = time.Minute      // for the whole, as nginx between two reads
	authDial      = 5 * time.Second  // to connect
	authHandshake = 10 * time.Second // of TLS
	authBodyTime  = time.Second      // for a body, after the head: what counts is known by then
	maxAuthBody   = 64 << 10         // bytes of a body that are read to use the connection again
	maxAuthHead   = 256 << 10        // bytes of an answer's head: sessions are large
	maxAuthConns  = 1024             // to one service; who finds them taken waits
	maxAuthIdle   = 64               // of those that are kept
	usualIdle     = time.Minute      // that one is kept without use
)

// An authClient asks services.
type authClient struct {
	transport http.RoundTripper
	patience  time.Duration
}

// everyAuthClient asks for all who say nothing else, so that they share connections.
var everyAuthClient = newAuthClient(usualIdle)

// newAuthClient asks directly, whatever proxy the environment names, by HTTP/1.1, and verifies no certificates, as
// ingress-nginx does: services have certificates of their own making. Idle is how long connections are kept; 0: none is.
func newAuthClient(idle time.Duration) *authClient {
	return &authClient{patience: authPatience, transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: authDial}).DialContext,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		TLSHandshakeTimeout:    authHandshake,
		DisableKeepAlives:      idle <= 0,
		DisableCompression:     true, // the client's Accept-Encoding is the one that counts
		MaxIdleConns:           16 * maxAuthIdle,
		MaxIdleConnsPerHost:    maxAuthIdle,
		MaxConnsPerHost:        maxAuthConns,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxAuthHead,
	}}
}

// ask returns the answer to a question, whose body is not to be read. It takes no longer than the patience of the client,
// and ends when the context of the question does.
func (c *authClient) ask(question *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(question.Context(), c.patience)
	defer cancel()
	answer, err := c.transport.RoundTrip(question.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols && answer.Body != http.NoBody {
		timer := time.AfterFunc(authBodyTime, cancel)
		io.CopyN(io.Discard, answer.Body, maxAuthBody) // for the sake of the connection: an error costs that alone
		timer.Stop()
	}
	answer.Body.Close()
	return answer, nil
}

// trailField marks what a guard asks, lest a guard be asked for leave to ask it: an auth-url that leads to the route it
// guards, straight or by way of other guards and replicas, would else go round until something breaks. Each guard on the
// way adds a mark of its own and refuses a request that bears it. A client that sends a mark gets nothing but refused.
const trailField = "X-Sallyport-Auth-Trail"

func newTrail() string { return rand.Text() }

func follows(r *http.Request, trail string) bool { return slices.Contains(r.Header[trailField], trail) }
