package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nginx as a good operator has it before HTTP services: connections to the backends are kept, and the endpoint is told
// what ingress-nginx and Sallyport tell it. Like Sallyport it sends a body on once it has all of it, and is given memory for one of the size
// that is measured: by default both would write it to a file. Its log has the line of ingress-nginx, which is ours, and is written as ours
// is, by many lines at once, which it does not do unless told.
func nginx() contender {
	return contender{name: "nginx", version: versionOf("nginx", "-v"), start: func(s setting) (*process, error) {
		log := "access_log off;"
		if s.logging {
			log = "access_log access.log upstreaminfo buffer=64k flush=1s;"
		}
		large := "proxy_buffering off;"
		if s.buffered {
			large = ""
		}
		var servers strings.Builder
		for _, backend := range s.backends {
			fmt.Fprintf(&servers, "server %s; ", backend)
		}
		return startNginx(s.folder, "nginx", s.workers, `
			log_format upstreaminfo '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_host] [] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $request_id';
			`+log+`
			upstream backends {
				`+servers.String()+`
				keepalive 1024;
				keepalive_requests 1000000000;
			}
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_set_header X-Request-ID $request_id;
			proxy_set_header X-Real-IP $remote_addr;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Host $http_host;
			proxy_set_header X-Forwarded-Port $server_port;
			proxy_set_header X-Forwarded-Proto $scheme;
			proxy_set_header X-Forwarded-Scheme $scheme;
			proxy_set_header X-Scheme $scheme;
			client_body_buffer_size 32k;
			ssl_certificate `+s.cert+`;
			ssl_certificate_key `+s.key+`;
			ssl_protocols TLSv1.2 TLSv1.3;
			ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
			ssl_session_cache shared:SSL:10m;
			server {
				listen `+s.http+` reuseport backlog=4096;
				listen `+s.https+` ssl http2 reuseport backlog=4096;
				server_name `+host+`;
				location / { proxy_pass http://backends; }
				location /64k { `+large+` proxy_pass http://backends; }
				location /1m { `+large+` proxy_pass http://backends; }
				location /buffered/ { proxy_pass http://backends; }
			}`)
	}}
}

// startNginx starts one with a body for its http block, and with folder for all its files.
func startNginx(folder, name string, workers int, http string) (*process, error) {
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // its workers read and write the folder, which is ours alone
	}
	text := user + fmt.Sprintf(`
		daemon off;
		worker_processes %d;
		worker_rlimit_nofile 65536;
		pid nginx.pid;
		error_log error.log error;
		events { worker_connections 16384; multi_accept on; }
		http {
			client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
			sendfile on;
			tcp_nopush on;
			keepalive_timeout 75s;
			keepalive_requests 1000000000;
			server_tokens off;
			%s
		}
	`, workers, http)
	path := filepath.Join(folder, name+".conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return startProcess(folder, name, "nginx", "-p", folder, "-e", "error.log", "-c", path)
}
