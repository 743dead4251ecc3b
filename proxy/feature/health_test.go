package feature

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/proxy/upstream"
)

func statuses(t *testing.T, text string) upstream.Statuses {
	s, err := upstream.ParseStatuses(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHowEndpointsAreChecked(t *testing.T) {
	base := upstream.Check{
		Path: "/healthz", Interval: 10 * time.Second, Timeout: 5 * time.Second, Healthy: 2, Unhealthy: 3, Expected: statuses(t, "200-399"),
	}
	but := func(change func(*upstream.Check)) upstream.Check {
		c := base
		change(&c)
		return c
	}
	type set map[string]string
	for _, c := range []struct {
		annotations set
		want        upstream.Check
		problems    int
	}{
		{nil, upstream.Check{}, 0},
		{set{"health-check-interval": "5", "health-check-status": "200"}, upstream.Check{}, 0},
		{set{"health-check-path": "/healthz"}, base, 0},
		{set{"health-check-path": " /healthz?full=1 "}, but(func(c *upstream.Check) { c.Path = "/healthz?full=1" }), 0},
		{set{"health-check-path": "healthz"}, upstream.Check{}, 1},
		{set{"health-check-path": "/a b"}, upstream.Check{}, 1},
		{set{"health-check-path": "/a\r\nX: y"}, upstream.Check{}, 1},
		{set{"health-check-path": ""}, upstream.Check{}, 1},
		{set{
			"health-check-path": "/", "health-check-host": "app.internal:8080", "health-check-interval": "1", "health-check-timeout": "2",
			"health-check-healthy-threshold": "3", "health-check-unhealthy-threshold": "4", "health-check-status": "200, 204-206",
		}, upstream.Check{
			Path: "/", Host: "app.internal:8080", Interval: time.Second, Timeout: 2 * time.Second, Healthy: 3, Unhealthy: 4,
			Expected: statuses(t, "200,204,205,206"),
		}, 0},
		{set{"health-check-path": "/healthz", "backend-protocol": "HTTPS"}, but(func(c *upstream.Check) { c.Protocol = upstream.HTTPS }), 0},
		{set{"health-check-path": "/shop.Cart", "backend-protocol": "GRPC"}, but(func(c *upstream.Check) { c.Path, c.Protocol = "/shop.Cart", upstream.GRPC }), 0},
		{set{"health-check-path": "/healthz", "health-check-interval": "0"}, upstream.Check{}, 1},
		{set{"health-check-path": "/healthz", "health-check-interval": "10s"}, upstream.Check{}, 1},
		{set{"health-check-path": "/healthz", "health-check-status": "2xx"}, upstream.Check{}, 1},
		{set{"health-check-path": "/healthz", "health-check-status": "399-200"}, upstream.Check{}, 1},
		{set{"health-check-path": "/healthz", "health-check-host": "a b"}, upstream.Check{}, 1},
		{set{"health-check-path": "/healthz", "health-check-host": "a/b"}, upstream.Check{}, 1},
		{set{"health-check-path": "/healthz", "health-check-healthy-threshold": "0"}, upstream.Check{}, 1},
	} {
		p := passage{annotations: c.annotations, features: []func(*Annotations, *Draft){backendProtocol, healthChecks}}
		d := p.drafted()
		if d.Service.Check != c.want || len(p.problems) != c.problems || d.Denied() || len(d.layers) != 0 {
			t.Errorf("%q: %+v with %v, want %+v with %d problems", c.annotations, d.Service.Check, p.problems, c.want, c.problems)
		}
	}
}

// TestAnEndpointThatFailsItsChecksGetsNoRequests has one of two say that it is not well, until it says that it is.
func TestAnEndpointThatFailsItsChecksGetsNoRequests(t *testing.T) {
	var sick atomic.Bool
	var asked atomic.Int64
	sick.Store(true)
	checked := make(chan bool, 100)
	app := func(mine *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/healthz":
				if mine != nil {
					asked.Add(1)
				}
			case mine != nil && mine.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
				fallthrough
			case mine != nil:
				select {
				case checked <- true:
				default:
				}
			}
		}
	}
	p := (&passage{
		annotations: map[string]string{
			"health-check-path": "/healthz", "health-check-interval": "1", "health-check-unhealthy-threshold": "1", "health-check-healthy-threshold": "1",
		},
		features: []func(*Annotations, *Draft){healthChecks}, endpoints: []http.Handler{app(&sick), app(nil)},
	}).open(t)
	p.pool.Configure(p.drafted().Service)
	t.Cleanup(func() { p.pool.Configure(upstream.ServiceOptions{}) })
	<-checked
	for p.pool.Ejected() == 0 { // the verdict follows upon the answer
		<-time.After(time.Millisecond)
	}
	for range 6 {
		p.get(t, "/")
	}
	if asked.Load() != 0 {
		t.Errorf("an endpoint that is not well had %d of 6 requests", asked.Load())
	}
	sick.Store(false)
	for p.pool.Ejected() != 0 {
		<-time.After(time.Millisecond)
	}
	for range 6 {
		p.get(t, "/")
	}
	if asked.Load() != 3 {
		t.Errorf("once it is well it had %d of 6 requests, want 3", asked.Load())
	}
}
