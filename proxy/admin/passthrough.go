package admin

import "github.com/prometheus/client_golang/prometheus"

// Passthrough is how many TLS connections were passed on as they are.
type Passthrough struct {
	Connections, Refused int64 // of all time; those that were refused could not be passed on, once they had been taken or before
	Open                 int64 // now
}

// CountPassthrough has these numbers under sallyport_passthrough_... Count is asked whenever somebody gathers.
func (m *Metrics) CountPassthrough(count func() Passthrough) {
	m.registry.MustRegister(passthroughCollector(count))
}

type passthroughCollector func() Passthrough

var (
	passedDesc     = prometheus.NewDesc("sallyport_passthrough_connections_total", "TLS connections that were taken to be passed on as they are.", nil, nil)
	passedOpenDesc = prometheus.NewDesc("sallyport_passthrough_connections_open", "TLS connections that are being passed on.", nil, nil)
	unpassedDesc   = prometheus.NewDesc("sallyport_passthrough_refused_total", "TLS connections that could not be passed on and were closed.", nil, nil)
)

func (passthroughCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- passedDesc
	descs <- passedOpenDesc
	descs <- unpassedDesc
}

func (c passthroughCollector) Collect(metrics chan<- prometheus.Metric) {
	now := c()
	metrics <- prometheus.MustNewConstMetric(passedDesc, prometheus.CounterValue, float64(now.Connections))
	metrics <- prometheus.MustNewConstMetric(passedOpenDesc, prometheus.GaugeValue, float64(now.Open))
	metrics <- prometheus.MustNewConstMetric(unpassedDesc, prometheus.CounterValue, float64(now.Refused))
}
