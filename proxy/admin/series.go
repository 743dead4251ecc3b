package admin

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/proxy"
)

// routeLabels are what a route gives to the series of its requests. Routes with equal ones share their series.
type routeLabels struct{ namespace, ingress, service, canary, host, path string }

// series are the numbers of routes with the same labels. What a request needs is found by its method and status in a map
// that is copied when it grows, which it does a few times in the life of a route; after that Observe takes no lock and
// allocates nothing.
type series struct {
	metrics *Metrics
	labels  routeLabels
	found   atomic.Pointer[map[outcome]*numbers]

	routes int // that share the series; guarded by Metrics.mu

	mu   sync.Mutex // guards the growth of found, and gone
	gone bool       // the last route has gone: nothing may come back to life
}

// An outcome is what tells the requests of a route apart.
type outcome struct {
	method string // folded
	status int
}

// numbers are the metrics of one outcome of one route.
type numbers struct {
	values                                                             []string // of requestLabels
	requests                                                           prometheus.Counter
	requestDuration, responseDuration, headerDuration, connectDuration prometheus.Observer
	requestSize, responseSize, bytesSent                               prometheus.Observer
}

// Retain returns the observer of a route that comes into service. The route must be given to Release when it goes.
func (m *Metrics) Retain(info *proxy.RouteInfo) proxy.Observer {
	labels := labelsOf(info)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.series[labels]
	if s == nil {
		s = &series{metrics: m, labels: labels}
		s.found.Store(new(map[outcome]*numbers))
		m.series[labels] = s
	}
	s.routes++
	return s
}

// Release drops the series of a route when no other route shares them.
func (m *Metrics) Release(info *proxy.RouteInfo) {
	labels := labelsOf(info)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.series[labels]
	if s == nil {
		return
	}
	if s.routes--; s.routes == 0 {
		delete(m.series, labels)
		s.drop()
	}
}

// Unrouted is the observer of exchanges that belong to no route.
func (m *Metrics) Unrouted() proxy.Observer { return m.Retain(new(proxy.RouteInfo)) }

func labelsOf(info *proxy.RouteInfo) routeLabels {
	return routeLabels{info.Namespace, info.Ingress, info.Service, info.Canary, info.Host, info.Path}
}

// Observe counts a finished exchange.
func (s *series) Observe(e *proxy.Exchange) {
	o := outcome{foldMethod(e.Method), e.Status}
	n := (*s.found.Load())[o]
	if n == nil {
		if n = s.add(o); n == nil {
			return
		}
	}
	n.requests.Inc()
	n.requestDuration.Observe(e.Took.Seconds())
	n.requestSize.Observe(float64(e.Received))
	n.responseSize.Observe(float64(e.Sent))
	n.bytesSent.Observe(float64(e.Sent))
	if len(e.Attempts) == 0 {
		return
	}
	last := &e.Attempts[len(e.Attempts)-1]
	n.responseDuration.Observe(last.Total.Seconds())
	if last.Status != 0 {
		n.headerDuration.Observe(last.Header.Seconds())
	}
	if !last.Reused {
		n.connectDuration.Observe(last.Connect.Seconds())
	}
}

// add makes the numbers of an outcome; nil when the series have gone.
func (s *series) add(o outcome) *numbers {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := *s.found.Load()
	if n := before[o]; n != nil || s.gone {
		return n
	}
	m, l := s.metrics, s.labels
	values := []string{o.method, strconv.Itoa(o.status), l.namespace, l.ingress, l.service, l.canary, l.host, l.path}
	n := &numbers{
		values:           values,
		requests:         m.requests.WithLabelValues(values...),
		requestDuration:  m.requestDuration.WithLabelValues(values...),
		responseDuration: m.responseDuration.WithLabelValues(values...),
		headerDuration:   m.headerDuration.WithLabelValues(values...),
		connectDuration:  m.connectDuration.WithLabelValues(values...),
		requestSize:      m.requestSize.WithLabelValues(values...),
		responseSize:     m.responseSize.WithLabelValues(values...),
		bytesSent:        m.bytesSent.WithLabelValues(values...),
	}
	after := maps.Clone(before)
	if after == nil {
		after = make(map[outcome]*numbers)
	}
	after[o] = n
	s.found.Store(&after)
	return n
}

// drop removes the series. Requests still in flight on the route are no longer counted.
func (s *series) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	m := s.metrics
	for _, n := range *s.found.Load() {
		m.requests.DeleteLabelValues(n.values...)
		for _, h := range []*prometheus.HistogramVec{
			m.requestDuration, m.responseDuration, m.headerDuration, m.connectDuration, m.requestSize, m.responseSize, m.bytesSent,
		} {
			h.DeleteLabelValues(n.values...)
		}
	}
	s.found.Store(new(map[outcome]*numbers))
}

// foldMethod keeps clients from making series: a method that is not a usual one is "OTHER".
func foldMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return method
	}
	return "OTHER"
}
