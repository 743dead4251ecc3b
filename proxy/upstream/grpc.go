package upstream

import (
	"net/http"
	"strconv"
	"strings"
)

// isGRPC reports whether r is a gRPC call, by its content type. gRPC-Web is not: its clients understand HTTP statuses.
func isGRPC(r *http.Request) bool {
	const plain = "application/grpc"
	t := r.Header.Get("Content-Type")
	return strings.HasPrefix(t, plain) && (len(t) == len(plain) || t[len(plain)] == '+' || t[len(plain)] == ';')
}

// The codes of gRPC that a proxy can be at the end of.
const (
	grpcDeadlineExceeded  = 4
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

func grpcCode(status int) int {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return grpcUnavailable
	case http.StatusGatewayTimeout:
		return grpcDeadlineExceeded
	case http.StatusRequestEntityTooLarge:
		return grpcResourceExhausted
	}
	return grpcInternal
}

// failGRPC answers a gRPC call in the proxy's own name, in the form that is called "trailers only": without a body the
// fields of the trailer stand in the head. A client that got an HTTP status instead would have to guess.
func (x *trip) failGRPC(f *fault) {
	x.e.Reason = f.reason
	header := x.w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Range", "Etag", "Last-Modified", "Trailer"} {
		header.Del(name)
	}
	header.Set("Content-Type", "application/grpc")
	header.Set("Grpc-Status", strconv.Itoa(grpcCode(f.status)))
	header.Set("Grpc-Message", strconv.Itoa(f.status)+" "+string(f.reason))
	header.Set("X-Request-Id", x.e.ID)
	x.w.WriteHeader(http.StatusOK)
}
