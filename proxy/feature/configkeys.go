package feature

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"sallyport/spelling"
)

// The keys of the ConfigMap of ingress-nginx that no feature reads (reference C1).

// idleKeys mean nothing here: they tune nginx itself, and are taken in silence.
var idleKeys = []string{
	"proxy-buffer-size", "proxy-buffers-number", "proxy-busy-buffers-size", "proxy-max-temp-file-size", "ssl-buffer-size", "grpc-buffer-size-kb",
	"ssl-ecdh-curve", "ssl-session-cache", "ssl-session-cache-size", "ssl-session-timeout", "ssl-session-tickets", "ssl-session-ticket-key", "ssl-early-data", "ssl-dh-param",
	"worker-processes", "worker-cpu-affinity", "worker-shutdown-timeout", "max-worker-connections", "max-worker-open-files", "enable-multi-accept", "enable-aio-write",
	"server-name-hash-max-size", "server-name-hash-bucket-size", "map-hash-bucket-size", "proxy-headers-hash-max-size", "proxy-headers-hash-bucket-size",
	"variables-hash-bucket-size", "variables-hash-max-size", "lua-shared-dicts", "debug-connections", "nginx-status-ipv4-whitelist", "nginx-status-ipv6-whitelist",
	"enable-serial-reloads", "reuse-port", "annotations-risk-level", "strict-validate-path-type", "error-log-level", "forwarded-for-proxy-protocol-header",
	"default-type", // of answers that nginx makes of files: it adds none to those of endpoints
}

// refusedKeys ask for what is not done, and why. A switch among them that is off asks for nothing.
var refusedKeys = map[string]string{
	"main-snippet": snippetsRefused, "http-snippet": snippetsRefused, "server-snippet": snippetsRefused, "location-snippet": snippetsRefused,
	"stream-snippet": snippetsRefused, "global-auth-snippet": snippetsRefused, "modsecurity-snippet": snippetsRefused, "allow-snippet-annotations": snippetsRefused,
	"use-geoip": "it was removed from ingress-nginx", "use-geoip2": "there is no database of places here", "plugins": "there are no plugins here",
}

// laterKeys are known and not supported yet.
var laterKeys = []string{
	"client-header-buffer-size", "large-client-header-buffers",
	"use-http2", "http2-max-concurrent-streams", "http2-max-field-size", "http2-max-header-size", "http2-max-requests",
	"upstream-keepalive-connections", "upstream-keepalive-time", "upstream-keepalive-timeout", "upstream-keepalive-requests",
	"use-gzip", "gzip-level", "gzip-min-length", "gzip-types", "gzip-disable",
	"enable-brotli", "brotli-level", "brotli-min-length", "brotli-types",
	"log-format-upstream", "log-format-escape-json", "log-format-escape-none", "access-log-path", "http-access-log-path", "stream-access-log-path", "access-log-params",
	"disable-stream-access-log", "enable-access-log-for-default-backend", "enable-auth-access-log", "enable-syslog", "syslog-host", "syslog-port",
	"enable-opentelemetry", "opentelemetry-trust-incoming-span", "opentelemetry-operation-name", "opentelemetry-config",
	"otlp-collector-host", "otlp-collector-port", "otel-service-name", "otel-sampler", "otel-sampler-ratio", "otel-sampler-parent-based",
	"bind-address", "disable-ipv6", "disable-ipv6-dns",
	"enable-modsecurity", "enable-owasp-modsecurity-crs", "geoip2-autoreload-in-minutes",
}

// goneKeys begin the names of keys that ingress-nginx has no more.
var goneKeys = []string{"jaeger-", "zipkin-", "datadog-", "global-rate-limit-"}

// explainKey says why nothing reads a key; "" where nothing needs to be said.
func (a *Annotations) explainKey(key, value string) (why Reason, message string) {
	switch instead, refused := refusedKeys[key]; {
	case slices.Contains(idleKeys, key), refused && value == "false":
		return Unsupported, ""
	case refused:
		return Unsupported, instead
	case slices.Contains(laterKeys, key):
		return Unsupported, "this key of ingress-nginx is not supported yet"
	case slices.ContainsFunc(goneKeys, func(prefix string) bool { return strings.HasPrefix(key, prefix) }):
		return Unsupported, "ingress-nginx has this key no more, and nothing is in its place"
	}
	if near := spelling.Nearest(key, a.keys()); near != "" {
		return UnknownName, fmt.Sprintf("no key of the ConfigMap has this name (did you mean %s?)", near)
	}
	return UnknownName, "no key of the ConfigMap has this name"
}

// configKeys are the keys that features read, and those that ingress-nginx reads.
var configKeys = sync.OnceValue(func() map[string]bool {
	keys := make(map[string]bool)
	for _, d := range Declarations() {
		if d.Key {
			keys[d.Name] = true
		}
	}
	for key := range refusedKeys {
		keys[key] = true
	}
	for _, key := range slices.Concat(idleKeys, laterKeys) {
		keys[key] = true
	}
	return keys
})

// keys are the keys that somebody may have meant.
func (a *Annotations) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range a.declared {
			if d.Key && !yield(d.Name) {
				return
			}
		}
		for _, key := range laterKeys {
			if !yield(key) {
				return
			}
		}
	}
}
