package feature

import (
	"net/http"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/upstream"
)

func TestLimitsOfEndpoints(t *testing.T) {
	type set map[string]string
	for _, c := range []struct {
		annotations set
		want        upstream.ServiceOptions
		problems    int
	}{
		{nil, upstream.ServiceOptions{}, 0},
		{set{"endpoint-max-connections": "0"}, upstream.ServiceOptions{}, 0},
		{set{"endpoint-max-pending": "3", "endpoint-pending-timeout": "3"}, upstream.ServiceOptions{}, 0},
		{set{"endpoint-max-connections": "8"}, upstream.ServiceOptions{EndpointConnections: 8, Pending: 100, PendingTimeout: 5 * time.Second}, 0},
		{set{"endpoint-max-connections": "8", "endpoint-max-pending": "0", "endpoint-pending-timeout": "1"},
			upstream.ServiceOptions{EndpointConnections: 8, PendingTimeout: time.Second}, 0},
		{set{"endpoint-max-connections": "-1"}, upstream.ServiceOptions{}, 1},
		{set{"endpoint-max-connections": "many"}, upstream.ServiceOptions{}, 1},
		{set{"endpoint-max-connections": "8", "endpoint-max-pending": "-1"}, upstream.ServiceOptions{}, 1},
		{set{"endpoint-max-connections": "8", "endpoint-pending-timeout": "0"}, upstream.ServiceOptions{}, 1},
	} {
		p := passage{annotations: c.annotations, features: []func(*Annotations, *Draft){endpointLimits}}
		d := p.drafted()
		if d.Service != c.want || len(p.problems) != c.problems || d.Denied() || len(d.layers) != 0 {
			t.Errorf("%q: %+v with %v, want %+v with %d problems", c.annotations, d.Service, p.problems, c.want, c.problems)
		}
	}
}

func TestAnEndpointThatIsFullIsA503ThatSaysWhy(t *testing.T) {
	began, end := make(chan bool), make(chan bool)
	p := (&passage{
		annotations: map[string]string{"endpoint-max-connections": "1", "endpoint-max-pending": "0"},
		features:    []func(*Annotations, *Draft){endpointLimits},
		endpoints: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began <- true
			<-end
		})},
	}).open(t)
	p.pool.Configure(p.drafted().Service)
	first := make(chan int, 1)
	go func() {
		answer, err := p.client.Get("http://" + p.plain)
		if err != nil {
			first <- 0
			return
		}
		answer.Body.Close()
		first <- answer.StatusCode
	}()
	<-began
	answer, _ := p.get(t, "/")
	if e := p.became(t); answer.StatusCode != 503 || e.Reason != proxy.Overloaded || answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s, reason %q, Retry-After %q; want 503", answer.Status, e.Reason, answer.Header.Get("Retry-After"))
	}
	end <- true
	if status := <-first; status != 200 {
		t.Errorf("who was first got %d, want 200", status)
	}
}
