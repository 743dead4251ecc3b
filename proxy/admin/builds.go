package admin

import (
	"crypto/x509"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Build is what there is to count of a build of the table.
type Build struct {
	Generation               uint64
	Took                     time.Duration
	Routes, Hosts, Ingresses int
	Problems                 map[ProblemKind]int
	Certificates             map[CertificateKind]*x509.Certificate
}

// A ProblemKind tells problems apart.
type ProblemKind struct{ Severity, Reason string }

// A CertificateKind tells certificates apart: by host and by the Secret they come from.
type CertificateKind struct{ Host, Namespace, Secret string }

// Built counts a build. It keeps b, and what stands in it, until the next.
func (m *Metrics) Built(b Build) {
	m.builds.last.Store(&built{Build: b, number: m.builds.count.Add(1), at: time.Now()})
}

// builds is the metrics of the last build. They are made when somebody gathers, not when the table is built: a change of
// one Ingress must not cost a sample for each of ten thousand certificates, and nobody may see a set of problems that is
// half the old one and half the new.
type builds struct {
	class string
	count atomic.Uint64
	last  atomic.Pointer[built]

	succeeded, failed, reloaded, reloadedAt, expiry, info   *prometheus.Desc
	generation, routes, hosts, ingresses, seconds, problems *prometheus.Desc
}

type built struct {
	Build
	number uint64
	at     time.Time
}

// describe names the metrics; constant are the labels of the process.
func (c *builds) describe(constant prometheus.Labels) {
	nginx := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(nginxPrefix+name, help, nil, constant)
	}
	ours := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sallyport_"+name, help, labels, nil)
	}
	c.class = constant["controller_class"]
	c.succeeded = nginx("success", "Builds of the table.")
	c.failed = nginx("errors", "Builds of the table that failed. Always 0: what is wrong with an object is set aside with it, as a problem.")
	c.reloaded = nginx("config_last_reload_successful", "1 when the last build of the table was put in place, 0 before the first.")
	c.reloadedAt = nginx("config_last_reload_successful_timestamp_seconds", "When the last table was built.")
	c.expiry = prometheus.NewDesc(nginxPrefix+"ssl_expire_time_seconds", "When a certificate ends, in seconds since 1970.",
		certificateLabels, nil)
	c.info = prometheus.NewDesc(nginxPrefix+"ssl_certificate_info", "What a certificate says of itself; always 1.",
		append(slices.Clip(certificateLabels), "issuer_organization", "issuer_common_name", "serial_number", "public_key_algorithm"), nil)
	c.generation = ours("table_generation", "Counts the tables that were put in place.")
	c.routes = ours("table_routes", "Routes of the table.")
	c.hosts = ours("table_hosts", "Hosts of the table.")
	c.ingresses = ours("table_ingresses", "Ingresses that are served, in part at least.")
	c.seconds = ours("table_build_seconds", "How long the last build took.")
	c.problems = ours("problems", "Problems with users' objects.", "severity", "reason")
}

// Describe is for [prometheus.Collector].
func (c *builds) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.succeeded, c.failed, c.reloaded, c.reloadedAt, c.expiry, c.info, c.generation, c.routes, c.hosts, c.ingresses, c.seconds, c.problems,
	} {
		descs <- d
	}
}

// Collect is for [prometheus.Collector].
func (c *builds) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	metrics <- prometheus.MustNewConstMetric(c.failed, prometheus.CounterValue, 0)
	b := c.last.Load()
	if b == nil {
		metrics <- prometheus.MustNewConstMetric(c.succeeded, prometheus.CounterValue, 0)
		gauge(c.reloaded, 0)
		return
	}
	metrics <- prometheus.MustNewConstMetric(c.succeeded, prometheus.CounterValue, float64(b.number))
	gauge(c.reloaded, 1)
	gauge(c.reloadedAt, float64(b.at.UnixMilli())/1000)
	gauge(c.generation, float64(b.Generation))
	gauge(c.routes, float64(b.Routes))
	gauge(c.hosts, float64(b.Hosts))
	gauge(c.ingresses, float64(b.Ingresses))
	gauge(c.seconds, b.Took.Seconds())
	for kind, n := range b.Problems {
		gauge(c.problems, float64(n), kind.Severity, kind.Reason)
	}
	for kind, certificate := range b.Certificates {
		labels := []string{kind.Namespace, c.class, kind.Host, kind.Secret, identifier(certificate)}
		gauge(c.expiry, float64(certificate.NotAfter.Unix()), labels...)
		organization, name := "", valid(certificate.Issuer.CommonName)
		if all := certificate.Issuer.Organization; len(all) > 0 {
			organization = valid(all[0])
		}
		gauge(c.info, 1, append(labels, organization, name, certificate.SerialNumber.String(), certificate.PublicKeyAlgorithm.String())...)
	}
}

// certificateLabels are what tells certificates apart; class is that of the process.
var certificateLabels = []string{"namespace", "class", "host", "secret_name", "identifier"}

// identifier is what ingress-nginx calls a certificate: the serial number of its issuer's name, which few have, and its own.
func identifier(c *x509.Certificate) string {
	return valid(c.Issuer.SerialNumber) + "-" + c.SerialNumber.String()
}

// valid is text that may be a label: certificates hold what somebody wrote into them.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
