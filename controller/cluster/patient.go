package cluster

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// askAgain is how often an API server is asked that cannot be reached.
const askAgain = 250 * time.Millisecond

// patient holds back a request for as long as the API server cannot be reached. An informer that is told of each failure
// waits longer and longer, up to a minute, and would go on waiting when the API server is long back. All requests are GET
// without a body, so each can be repeated.
type patient struct {
	next http.RoundTripper
	log  *slog.Logger
	away atomic.Bool
}

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		response, err := p.next.RoundTrip(r)
		if r.Context().Err() != nil || !unreachable(response, err) {
			if err == nil && p.away.Swap(false) {
				p.log.Info("the API server can be reached again")
			}
			return response, err
		}
		if err == nil {
			err = errors.New(response.Status)
			response.Body.Close()
		}
		if !p.away.Swap(true) {
			p.log.Warn("the API server cannot be reached; what is served stays as it is", "err", err)
		}
		select {
		case <-time.After(askAgain):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// unreachable reports whether nobody was there to answer, or only somebody on the way. Whatever the API server says itself
// is an answer, and so is a certificate that is not trusted.
func unreachable(response *http.Response, err error) bool {
	if err == nil {
		switch response.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
