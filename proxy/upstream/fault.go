package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"sallyport/proxy"
	"sallyport/proxy/http1"
)

// A fault is why a request got no whole answer from an endpoint: what to tell the client, and whose doing it was.
type fault struct {
	status int // to answer with, while that is still possible
	reason proxy.Reason
	err    error
}

func (f *fault) Error() string { return string(f.reason) + ": " + f.err.Error() }

// client reports whether the fault is the client's, which never counts against an endpoint.
func (f *fault) client() bool { return f.status < 500 }

// statusClientClosed is what nginx made the custom for a client that left first. Nobody reads the answer; it is for the
// log and the metrics.
const statusClientClosed = 499

func left(err error) *fault { return &fault{statusClientClosed, proxy.ClientClosed, err} }

// connectFault classifies a connection that could not be made.
func connectFault(ctx context.Context, err error) *fault {
	var ne net.Error
	switch {
	case ctx.Err() != nil:
		return left(err)
	case tlsComplaint(err) != "":
		return &fault{http.StatusBadGateway, proxy.UpstreamTLS, err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &fault{http.StatusBadGateway, proxy.ConnectRefused, err}
	case errors.As(err, &ne) && ne.Timeout():
		return &fault{http.StatusGatewayTimeout, proxy.ConnectTimeout, err}
	}
	return &fault{http.StatusBadGateway, proxy.ConnectFailed, err}
}

// sendFault classifies a failed write to the endpoint.
func sendFault(ctx context.Context, err error) *fault {
	switch {
	case ctx.Err() != nil:
		return left(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{http.StatusGatewayTimeout, proxy.SendTimeout, err}
	}
	return &fault{http.StatusBadGateway, proxy.UpstreamReset, err}
}

// readFault classifies a failed read of the answer; late is what a deadline that has passed is called there.
func readFault(ctx context.Context, err error, late proxy.Reason) *fault {
	var syntax *http1.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return &fault{http.StatusBadGateway, proxy.UpstreamInvalid, err}
	case errors.Is(err, http1.ErrHeadTooBig):
		return &fault{http.StatusBadGateway, proxy.UpstreamTooBig, err}
	case ctx.Err() != nil:
		return left(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{http.StatusGatewayTimeout, late, err}
	}
	return &fault{http.StatusBadGateway, proxy.UpstreamReset, err}
}

// bodyFault classifies a failed read of the request's body, which is always the client's doing.
func bodyFault(ctx context.Context, err error) *fault {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &fault{http.StatusRequestEntityTooLarge, proxy.BodyTooLarge, err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{http.StatusRequestTimeout, proxy.BodyTimeout, err}
	case ctx.Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), isReset(err):
		return left(err)
	}
	return &fault{http.StatusBadRequest, proxy.BadBody, err}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
