package feature

import (
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"sallyport/proxy/upstream"
)

// healthChecks have endpoints asked whether they are well. It must come after backendProtocol and endpointTLS, whose protocol they speak
// and whose certificate they show.
func healthChecks(a *Annotations, d *Draft) {
	a.Section("Health", ReachService, "Health is learned from requests without being asked for: an endpoint that fails in a row (3 times without a connection; 5 times with a "+
		"reset, a timeout, or an answer of 502, 503 or 504; a plain 500 is an application's word on a request, and counts for nothing) is left out for a second, then two, "+
		"up to a minute, and taken back by one request at a time. At most half of the endpoints are left out like that, and none for its answers while all answer alike. "+
		"An endpoint that owes several answers and gives none, while others do, is left alone within a second. With health-check-path endpoints are asked in between, too: "+
		"one that fails is left alone until it passes, unless all fail. Every replica asks for itself, and only once for all routes that lead to a Service port. Until "+
		"the first verdict an endpoint counts as well; Kubernetes has asked its readiness probe. Certificates are not checked. Checks speak what requests do. Where backend-protocol is GRPC or GRPCS, or appProtocol is grpc, the standard "+
		"health service is asked (grpc.health.v1), about the service that health-check-path names behind its slash, or about all. ingress-nginx has nothing of this.")
	path := a.checkPath()
	host := a.checkHost()
	interval := a.IntBetween("health-check-interval", 10, 1, 3600, "the seconds between two checks of an endpoint")
	timeout := a.IntBetween("health-check-timeout", 5, 1, 60, "the seconds that an answer to a check may take")
	healthy := a.IntBetween("health-check-healthy-threshold", 2, 1, 100, "how many checks in a row an endpoint must pass to be well again")
	unhealthy := a.IntBetween("health-check-unhealthy-threshold", 3, 1, 100, "how many checks in a row an endpoint must fail to be left alone")
	expected := a.checkStatus()
	if path == "" || a.Failed() {
		return
	}
	d.Service.Check = upstream.Check{
		Path: path, Host: host, Protocol: d.Upstream.Protocol, TLS: d.Upstream.TLS,
		Interval: time.Duration(interval) * time.Second, Timeout: time.Duration(timeout) * time.Second,
		Healthy: healthy, Unhealthy: unhealthy, Expected: expected,
	}
}

// maxCheckPath bounds what a check asks for.
const maxCheckPath = 127

// checkPath reads what checks ask for. Empty: there are none.
func (a *Annotations) checkPath() string {
	d := Declaration{
		Name: "health-check-path", Values: "a path, with or without a query",
		Usage: "what endpoints are asked for to see if they are well; no checks are made without it",
	}
	return read(a, d, "", func(value string) (string, string) {
		value = strings.TrimSpace(value)
		ok := strings.HasPrefix(value, "/") && len(value) <= maxCheckPath &&
			strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) < 0
		return value, unless(ok, `expected a path as in "/healthz", of ASCII without spaces, 127 bytes at most`)
	})
}

func (a *Annotations) checkHost() string {
	d := Declaration{Name: "health-check-host", Values: "a host, with or without a port", Usage: "the Host field of checks; the endpoint's address without it"}
	return read(a, d, "", func(value string) (string, string) {
		ok := value != "" && len(value) <= maxCheckPath && httpguts.ValidHostHeader(value) && !strings.ContainsAny(value, "/@?#")
		return value, unless(ok, `expected a host as in "app.internal"`)
	})
}

func (a *Annotations) checkStatus() upstream.Statuses {
	d := Declaration{
		Name: "health-check-status", Values: "statuses and ranges of them, separated by commas", Default: "200-399",
		Usage: "the answers to checks that are good",
	}
	usual, _ := upstream.ParseStatuses(d.Default)
	return read(a, d, usual, func(value string) (upstream.Statuses, string) {
		statuses, err := upstream.ParseStatuses(value)
		if err != nil {
			return statuses, "expected statuses and ranges of them, as in 200-299,404"
		}
		return statuses, ""
	})
}
