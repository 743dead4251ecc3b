package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// haproxy with what a good operator gives it: connections to the backends are kept and shared, bodies are spliced, and the
// endpoint is told the same as by the others. Its counters are always on. Its log goes to its standard output, a file.
func haproxy() contender {
	return contender{name: "HAProxy", version: versionOf("haproxy", "-v"), start: func(s setting) (*process, error) {
		global, defaults := "", ""
		if s.logging {
			global, defaults = "log stdout len 4096 format raw local0 info", "log global\n\toption httplog"
		}
		var servers strings.Builder
		for i, backend := range s.backends {
			fmt.Fprintf(&servers, "\tserver backend%d %s\n", i, backend)
		}
		text := fmt.Sprintf(`
global
	%s
	nbthread %d
	maxconn 16384
	no strict-limits
	ssl-default-bind-options ssl-min-ver TLSv1.2
	ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256

defaults
	mode http
	%s
	timeout connect 5s
	timeout client 60s
	timeout server 60s
	timeout http-keep-alive 75s
	http-reuse always
	option http-ignore-probes
	option splice-auto

frontend front
	bind %s backlog 4096
	bind %s ssl crt %s alpn h2,http/1.1 backlog 4096
	http-request deny unless { hdr(host),host_only -i %s }
	http-request set-header X-Request-ID %%[uuid()]
	http-request set-header X-Real-IP %%[src]
	http-request set-header X-Forwarded-For %%[src]
	http-request set-header X-Forwarded-Host %%[req.hdr(host)]
	http-request set-header X-Forwarded-Port %%[dst_port]
	http-request set-header X-Forwarded-Proto %%[ssl_fc,iif(https,http)]
	http-request set-header X-Forwarded-Scheme %%[ssl_fc,iif(https,http)]
	http-request set-header X-Scheme %%[ssl_fc,iif(https,http)]
	default_backend backends

backend backends
	balance roundrobin
%s`, global, s.workers, defaults, s.http, s.https, s.both, host, servers.String())
		path := filepath.Join(s.folder, "haproxy.cfg")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
		return startProcess(s.folder, "haproxy", "haproxy", "-db", "-f", path)
	}}
}
