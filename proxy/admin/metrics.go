package admin

import (
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"sallyport/proxy"
)

// Metrics are the numbers of a process. Those of requests have the names and labels of ingress-nginx (reference C3), so
// that dashboards go on working; their values come from Ingresses, never from anything a client chooses: `path` is the
// rule's path, `host` the rule's host, and a method that is not a usual one is "OTHER".
type Metrics struct {
	registry *prometheus.Registry
	leading  *prometheus.GaugeVec

	requests                                                           *prometheus.CounterVec
	requestDuration, responseDuration, headerDuration, connectDuration *prometheus.HistogramVec
	requestSize, responseSize, bytesSent                               *prometheus.HistogramVec

	builds builds

	mu     sync.Mutex // guards all below
	series map[routeLabels]*series
}

// An Identity is what the constant labels say of a process.
type Identity struct {
	Namespace string // of its Pod
	Class     string // IngressClass that it serves
	Pod       string
	Version   string // of the product
}

const nginxPrefix = "nginx_ingress_controller_"

// The labels of a request. The first two are the exchange's, the others the route's.
var requestLabels = []string{"method", "status", "namespace", "ingress", "service", "canary", "host", "path"}

// NewMetrics returns metrics with a registry of their own.
func NewMetrics(identity Identity) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), series: make(map[routeLabels]*series)}
	constant := prometheus.Labels{
		"controller_namespace": identity.Namespace, "controller_class": identity.Class, "controller_pod": identity.Pod,
	}
	nginx := prometheus.WrapRegistererWith(constant, prometheus.WrapRegistererWithPrefix(nginxPrefix, m.registry))
	m.registerRequests(nginx)
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "build_info", Help: "Always 1; the labels say which build this is.",
	}, []string{"release", "build", "repository"})
	info.WithLabelValues(identity.Version, revision(), "sallyport").Set(1)
	nginx.MustRegister(info)
	m.leading = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_status", Help: "1 when this replica writes to the cluster, 0 when another does.",
	}, []string{"name"})
	nginx.MustRegister(m.leading)
	m.builds.describe(constant)
	m.registry.MustRegister(&m.builds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// revision is the commit that the binary was built of, as far as the build knew it.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return ""
}

func (m *Metrics) registerRequests(r prometheus.Registerer) {
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "requests", Help: "Requests that were answered, or that the client gave up.",
	}, requestLabels)
	r.MustRegister(m.requests)
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, requestLabels)
		r.MustRegister(h)
		return h
	}
	times := prometheus.DefBuckets
	sizes := prometheus.ExponentialBuckets(10, 10, 7)
	m.requestDuration = histogram("request_duration_seconds", "From the head of the request to the end of the answer.", times)
	m.responseDuration = histogram("response_duration_seconds", "From the start of the last attempt at an endpoint to the end of its answer.", times)
	m.headerDuration = histogram("header_duration_seconds", "From the start of the last attempt at an endpoint to the first byte of its answer.", times)
	m.connectDuration = histogram("connect_duration_seconds", "To connect to an endpoint, for attempts that made a connection.", times)
	m.requestSize = histogram("request_size", "Bytes of the request, head and body.", sizes)
	m.responseSize = histogram("response_size", "Bytes of the answer's body.", sizes)
	m.bytesSent = histogram("bytes_sent", "Bytes of the answer's body; the older name of response_size.", sizes)
}

// Lead returns what sets whether this replica leads, by the name of the election. It does not yet.
func (m *Metrics) Lead(election string) func(bool) {
	gauge := m.leading.WithLabelValues(election)
	return func(yes bool) {
		if yes {
			gauge.Set(1)
		} else {
			gauge.Set(0)
		}
	}
}

// CountLines has the lines that the access log lost under sallyport_access_log_dropped_total.
func (m *Metrics) CountLines(log *proxy.AccessLog) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sallyport_access_log_dropped_total", Help: "Lines of the access log that were lost because nobody took them in time.",
	}, func() float64 { return float64(log.Dropped()) }))
}

// CountFloods has the connections that the front closed for what they sent under sallyport_http2_floods_total.
func (m *Metrics) CountFloods(front *proxy.Server) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sallyport_http2_floods_total", Help: "Connections of HTTP/2 that were closed because what they sent did no work.",
	}, func() float64 { return float64(front.Floods()) }))
}

// CountConnections has the connections of clients under sallyport_connections, and those that were one too many under
// sallyport_connections_refused_total.
func (m *Metrics) CountConnections(front *proxy.Server) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sallyport_connections", Help: "Connections that clients of HTTP and HTTPS have open, tunnels among them.",
	}, func() float64 { return float64(front.Connections().Open) }))
	refused := func(limit string, n func(proxy.Connections) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sallyport_connections_refused_total", Help: "Connections that were reset because there were too many, by the limit.",
			ConstLabels: prometheus.Labels{"limit": limit},
		}, func() float64 { return float64(n(front.Connections())) }))
	}
	refused("max-connections", func(c proxy.Connections) uint64 { return c.Refused })
	refused("max-connections-per-address", func(c proxy.Connections) uint64 { return c.RefusedPerAddress })
}

// CountMirrored has what became of the copies of requests under sallyport_mirrored_requests_total. Copies is asked whenever
// somebody gathers; it calls yield for each outcome.
func (m *Metrics) CountMirrored(copies func(yield func(outcome string, n uint64))) {
	m.registry.MustRegister(mirroredCollector(copies))
}

type mirroredCollector func(yield func(outcome string, n uint64))

var mirroredDesc = prometheus.NewDesc("sallyport_mirrored_requests_total", "Copies of requests for a mirror-target, by what became of them.", []string{"outcome"}, nil)

func (mirroredCollector) Describe(descs chan<- *prometheus.Desc) { descs <- mirroredDesc }

func (c mirroredCollector) Collect(metrics chan<- prometheus.Metric) {
	c(func(outcome string, n uint64) {
		metrics <- prometheus.MustNewConstMetric(mirroredDesc, prometheus.CounterValue, float64(n), outcome)
	})
}

// CountEndpoints has the endpoints of every pool under sallyport_endpoints. Pools is asked whenever somebody gathers; it
// calls yield for each Service port.
func (m *Metrics) CountEndpoints(pools func(yield func(namespace, service, port string, endpoints int))) {
	m.registry.MustRegister(endpointCollector(pools))
}

type endpointCollector func(yield func(namespace, service, port string, endpoints int))

var endpointsDesc = prometheus.NewDesc("sallyport_endpoints", "Endpoints that requests may go to.", []string{"namespace", "service", "port"}, nil)

func (endpointCollector) Describe(descs chan<- *prometheus.Desc) { descs <- endpointsDesc }

func (c endpointCollector) Collect(metrics chan<- prometheus.Metric) {
	c(func(namespace, service, port string, endpoints int) {
		metrics <- prometheus.MustNewConstMetric(endpointsDesc, prometheus.GaugeValue, float64(endpoints), namespace, service, port)
	})
}

// CountOrders has what became of orders for certificates under sallyport_acme_orders_total, sallyport_acme_certificates_total
// and sallyport_acme_failures_total, and the hosts for which there is none under sallyport_acme_host_failures. Both are asked
// whenever somebody gathers; failing calls yield for each such host.
func (m *Metrics) CountOrders(counts func() (orders, issued, failed uint64), failing func(yield func(host string, failures int))) {
	m.registry.MustRegister(orderCollector{counts, failing})
}

type orderCollector struct {
	counts  func() (orders, issued, failed uint64)
	failing func(yield func(host string, failures int))
}

var (
	ordersDesc   = prometheus.NewDesc("sallyport_acme_orders_total", "Orders for certificates that were made at the authority.", nil, nil)
	issuedDesc   = prometheus.NewDesc("sallyport_acme_certificates_total", "Certificates that the authority issued.", nil, nil)
	failedDesc   = prometheus.NewDesc("sallyport_acme_failures_total", "Failures to have a certificate.", nil, nil)
	failuresDesc = prometheus.NewDesc("sallyport_acme_host_failures", "Hosts whose certificate is due and cannot be had: the failures one after the other; 0 where the authority cannot be asked.", []string{"host"}, nil)
)

func (orderCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ordersDesc, issuedDesc, failedDesc, failuresDesc} {
		descs <- d
	}
}

func (c orderCollector) Collect(metrics chan<- prometheus.Metric) {
	orders, issued, failed := c.counts()
	metrics <- prometheus.MustNewConstMetric(ordersDesc, prometheus.CounterValue, float64(orders))
	metrics <- prometheus.MustNewConstMetric(issuedDesc, prometheus.CounterValue, float64(issued))
	metrics <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(failed))
	c.failing(func(host string, failures int) {
		metrics <- prometheus.MustNewConstMetric(failuresDesc, prometheus.GaugeValue, float64(failures), host)
	})
}

// CountStreams has what passed through the ports of TCP and UDP under sallyport_stream_... Counts is asked whenever somebody
// gathers.
func (m *Metrics) CountStreams(counts func() StreamCounts) {
	m.registry.MustRegister(streamCollector(counts))
}

// StreamCounts are numbers of TCP and UDP. A connection of UDP is a flow: what one client sends from one port.
type StreamCounts struct {
	TCP, UDP StreamCount
	Refused  int64
}

// A StreamCount is of one protocol.
type StreamCount struct{ Connections, Open, Sent, Received int64 }

type streamCollector func() StreamCounts

var (
	streamConnectionsDesc = prometheus.NewDesc("sallyport_stream_connections_total", "Connections of TCP and flows of UDP that were passed on.", []string{"protocol"}, nil)
	streamOpenDesc        = prometheus.NewDesc("sallyport_stream_connections_open", "Connections of TCP and flows of UDP that are open.", []string{"protocol"}, nil)
	streamBytesDesc       = prometheus.NewDesc("sallyport_stream_bytes_total", "Bytes that were passed on.", []string{"protocol", "direction"}, nil)
	streamRefusedDesc     = prometheus.NewDesc("sallyport_stream_refused_total", "Connections and datagrams that were turned away.", nil, nil)
)

func (streamCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{streamConnectionsDesc, streamOpenDesc, streamBytesDesc, streamRefusedDesc} {
		descs <- desc
	}
}

func (c streamCollector) Collect(metrics chan<- prometheus.Metric) {
	tell := func(desc *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, float64(n), labels...)
	}
	now := c()
	for protocol, count := range map[string]StreamCount{"tcp": now.TCP, "udp": now.UDP} {
		tell(streamConnectionsDesc, prometheus.CounterValue, count.Connections, protocol)
		tell(streamOpenDesc, prometheus.GaugeValue, count.Open, protocol)
		tell(streamBytesDesc, prometheus.CounterValue, count.Sent, protocol, "to_endpoint")
		tell(streamBytesDesc, prometheus.CounterValue, count.Received, protocol, "from_endpoint")
	}
	tell(streamRefusedDesc, prometheus.CounterValue, now.Refused)
}
