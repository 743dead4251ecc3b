package proxy

import (
	"net/http"
	"strings"
)

// isGRPC reports whether r is a gRPC call, by its content type. gRPC-Web is not: its clients understand HTTP statuses.
func isGRPC(r *http.Request) bool {
	const plain = "application/grpc"
	t := r.Header.Get("Content-Type")
	return strings.HasPrefix(t, plain) && (len(t) == len(plain) || t[len(plain)] == '+' || t[len(plain)] == ';')
}

// grpcCode is the code of gRPC for a status, as clients that get only the status would read it (gRPC's "HTTP to gRPC Status
// Code Mapping"), or better: a timeout and a body that is too large have codes of their own.
func grpcCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "13" // INTERNAL
	case http.StatusUnauthorized:
		return "16" // UNAUTHENTICATED
	case http.StatusForbidden:
		return "7" // PERMISSION_DENIED
	case http.StatusNotFound:
		return "12" // UNIMPLEMENTED
	case http.StatusGatewayTimeout:
		return "4" // DEADLINE_EXCEEDED
	case http.StatusRequestEntityTooLarge:
		return "8" // RESOURCE_EXHAUSTED
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return "14" // UNAVAILABLE
	}
	return "2" // UNKNOWN
}

// failGRPC answers a gRPC call in the proxy's own name, in the form that is called "trailers only": without a body the
// fields of the trailer stand in the head. A client that got an HTTP status instead would have to guess (reference A13).
func failGRPC(w http.ResponseWriter, e *Exchange, status int) {
	header := w.Header()
	header.Set("Content-Type", "application/grpc")
	header.Set("Grpc-Status", grpcCode(status))
	header.Set("Grpc-Message", itoa(status)+" "+string(e.Reason))
	header.Set("X-Request-Id", e.ID)
	w.WriteHeader(http.StatusOK)
}
