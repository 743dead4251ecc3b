package config

import "strings"

// Foreign says what to do about a flag that ingress-nginx or a kubebuilder program has and Sallyport has not: which
// flag does its work, or why nothing needs to. It reports false for names it does not know.
func Foreign(name string) (advice string, ok bool) {
	advice, ok = foreign[name]
	if !ok && strings.HasPrefix(name, "maxmind-") {
		return "there are no GeoIP databases, leave it out", true
	}
	return advice, ok
}

const (
	useAdminPort  = "use --admin-port; health, metrics and routes share one listener"
	noNginx       = "there is no nginx behind it to steer, leave it out"
	noWebhook     = "there is no admission webhook; `sallyport check DIR` says the same of manifests before they are applied"
	fixedBuckets  = "the metrics' buckets and labels are fixed, leave it out"
	annotationsBe = "annotations are read under nginx.ingress.kubernetes.io/ and ingress.kubernetes.io/"
)

// foreign holds the flags of ingress-nginx and of kubebuilder programs that have no namesake here.
var foreign = map[string]string{
	"zap-log-level":                  "use --log-level",
	"zap-encoder":                    "use --log-format",
	"zap-devel":                      "use --log-format=text and --log-level=debug",
	"metrics-secure":                 "the admin port speaks plain HTTP, leave it out and keep the port inside the cluster",
	"alsologtostderr":                "the log always goes to standard error, leave it out",
	"logtostderr":                    "the log always goes to standard error, leave it out",
	"log-dir":                        "the log always goes to standard error, leave it out",
	"vmodule":                        "use --log-level",
	"apiserver-host":                 "use --kubeconfig",
	"certificate-authority":          "use --kubeconfig, the file names the authority",
	"annotations-prefix":             annotationsBe,
	"post-shutdown-grace-period":     "use --shutdown-grace-period",
	"default-server-port":            "the built-in 404 needs no port, leave it out",
	"health-check-path":              "use /livez for liveness and /readyz for readiness; /healthz is both",
	"profiler-port":                  "use --profiling and --admin-port",
	"profiler-address":               "use --profiling and --admin-address",
	"enable-metrics":                 "metrics are always served on the admin port, leave it out",
	"status-port":                    useAdminPort,
	"stream-port":                    noNginx,
	"status-update-interval":         "the status of Ingresses is written when it changes; leave it out",
	"sync-rate-limit":                "changes are applied as they come, bursts as one; leave it out",
	"sync-period":                    "the API server is watched, nothing is listed anew; leave it out",
	"dynamic-configuration-retries":  noNginx,
	"internal-logger-address":        noNginx,
	"nginx-binary":                   noNginx,
	"monitor-max-batch-size":         noNginx,
	"ssl-passthrough-proxy-port":     "what is passed through needs no port of its own, leave it out",
	"enable-ssl-chain-completion":    "intermediate certificates are not fetched; put the whole chain into tls.crt",
	"validating-webhook":             noWebhook,
	"validating-webhook-certificate": noWebhook,
	"validating-webhook-key":         noWebhook,
	"disable-full-test":              noWebhook,
	"deep-inspect":                   noWebhook,
	"enable-annotation-validation":   "annotations are always validated, leave it out",
	"metrics-per-host":               fixedBuckets,
	"metrics-per-undefined-host":     fixedBuckets,
	"exclude-socket-metrics":         fixedBuckets,
	"report-status-classes":          fixedBuckets,
	"time-buckets":                   fixedBuckets,
	"length-buckets":                 fixedBuckets,
	"size-buckets":                   fixedBuckets,
	"bucket-factor":                  fixedBuckets,
	"max-buckets":                    fixedBuckets,
	"namespace":                      "use --watch-namespace",
	"shutdown-delay":                 "use --drain-delay",
	"port":                           "use --http-port",
	"version":                        "use the command `sallyport version`",
}
