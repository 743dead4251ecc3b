package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Backends are three ports of one nginx, which costs the least of a machine that everybody shares. Its CPU is not counted.
//
// nginx would answer a POST of its own before it has read the body, which no application does; one that it proxies, to
// itself here, it reads first.
type backends struct {
	*process
	addresses []string
}

func startBackends(folder string) (*backends, error) {
	folder = filepath.Join(folder, "backends")
	for _, f := range []struct {
		name string
		size int
	}{{"64k", 64 * kibibyte}, {"1m", mebibyte}} {
		text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. 0123456789 abcdefg\n", f.size/64))
		for _, path := range []string{f.name, "buffered/" + f.name} {
			path = filepath.Join(folder, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, err
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return nil, err
			}
		}
	}
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	var listen strings.Builder
	for _, address := range addresses {
		fmt.Fprintf(&listen, "listen %s backlog=4096; ", address)
	}
	p, err := startNginx(folder, "backends", 1, `
		access_log off;
		etag off;
		server {
			`+listen.String()+`
			root .;
			location = / {
				default_type application/json;
				add_header Cache-Control "private, max-age=0";
				add_header Vary Accept-Encoding;
				return 200 '`+smallAnswer+`';
			}
			location = /post {
				client_body_buffer_size 32k;
				proxy_pass http://unix:sink.sock:/;
			}
			location / { default_type text/plain; }
		}
		server {
			listen unix:sink.sock;
			location / { return 200 "thank you\n"; }
		}`)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if err := p.await(func() error { return serves(http.DefaultClient, "http://"+address+"/64k") }); err != nil {
			p.stop()
			return nil, err
		}
	}
	return &backends{p, addresses}, nil
}
