package feature

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/proxy/upstream"
)

// TestHowRequestsAreSent holds what annotations and the ConfigMap say against what becomes of it; times and tries are
// upstream's to keep.
func TestHowRequestsAreSent(t *testing.T) {
	type set map[string]string
	const usual = upstream.RetryOnError | upstream.RetryOnTimeout
	base := upstream.Options{ConnectTimeout: 5 * time.Second, SendTimeout: time.Minute, ReadTimeout: time.Minute, Retry: usual, Tries: 3}
	but := func(change func(*upstream.Options)) upstream.Options {
		o := base
		change(&o)
		return o
	}
	for _, c := range []struct {
		annotations, config set
		want                upstream.Options
		problems            int
	}{
		{nil, nil, base, 0},
		{set{"proxy-connect-timeout": "7"}, nil, but(func(o *upstream.Options) { o.ConnectTimeout = 7 * time.Second }), 0},
		{set{"proxy-connect-timeout": "0"}, set{"proxy-connect-timeout": "7"}, but(func(o *upstream.Options) { o.ConnectTimeout = -1 }), 0},
		{set{"proxy-read-timeout": "3600"}, nil, but(func(o *upstream.Options) { o.ReadTimeout, o.TunnelTimeout = time.Hour, time.Hour }), 0},
		{set{"proxy-send-timeout": "10"}, nil, but(func(o *upstream.Options) { o.SendTimeout, o.TunnelTimeout = 10*time.Second, time.Minute }), 0},
		{set{"proxy-send-timeout": "10"}, set{"proxy-read-timeout": "20"}, but(func(o *upstream.Options) {
			o.SendTimeout, o.ReadTimeout, o.TunnelTimeout = 10*time.Second, 20*time.Second, 20*time.Second
		}), 0},
		{set{"proxy-send-timeout": "0"}, nil, but(func(o *upstream.Options) { o.SendTimeout, o.TunnelTimeout = -1, -1 }), 0},
		{set{"proxy-read-timeout": "60s"}, set{"proxy-read-timeout": "20"}, but(func(o *upstream.Options) { o.ReadTimeout, o.TunnelTimeout = 20*time.Second, time.Minute }), 1},
		{set{"proxy-next-upstream": "error  http_502 http_503"}, nil, but(func(o *upstream.Options) { o.Retry = upstream.RetryOnError | upstream.RetryOn502 | upstream.RetryOn503 }), 0},
		{set{"proxy-next-upstream": "off"}, set{"proxy-next-upstream": "http_500"}, but(func(o *upstream.Options) { o.Retry = upstream.RetryOff }), 0},
		{nil, set{"proxy-next-upstream": "http_500"}, but(func(o *upstream.Options) { o.Retry = upstream.RetryOn500 }), 0},
		{set{"proxy-next-upstream": "error http_501"}, nil, base, 1},
		{set{"proxy-next-upstream": " "}, nil, base, 1},
		{set{"proxy-next-upstream": "error,timeout"}, nil, base, 1},
		{nil, set{"retry-non-idempotent": "true"}, but(func(o *upstream.Options) { o.Retry = usual | upstream.RetryNonIdempotent }), 0},
		{set{"proxy-next-upstream-tries": "5", "proxy-next-upstream-timeout": "9"}, nil, but(func(o *upstream.Options) { o.Tries, o.RetryTimeout = 5, 9*time.Second }), 0},
		{set{"proxy-next-upstream-tries": "0"}, nil, but(func(o *upstream.Options) { o.Tries = -1 }), 0},
		{set{"proxy-next-upstream-tries": "-1"}, nil, base, 1},
		{set{"retry-budget": "50"}, nil, but(func(o *upstream.Options) { o.RetryBudget = 50 }), 0},
		{set{"retry-budget": "0"}, set{"retry-budget": "50"}, but(func(o *upstream.Options) { o.RetryBudget = -1 }), 0},
		{nil, set{"retry-budget": "50"}, but(func(o *upstream.Options) { o.RetryBudget = 50 }), 0},
		{set{"retry-budget": "20%"}, nil, base, 1},
		{set{"retry-budget": "101"}, nil, base, 1},
		{set{"backend-protocol": "HTTPS"}, nil, but(func(o *upstream.Options) { o.Protocol = upstream.HTTPS }), 0},
		{set{"backend-protocol": "grpc"}, nil, but(func(o *upstream.Options) { o.Protocol = upstream.GRPC }), 0},
		{set{"backend-protocol": "GRPCS"}, nil, but(func(o *upstream.Options) { o.Protocol = upstream.GRPCS }), 0},
		{set{"backend-protocol": "Auto_Http"}, nil, but(func(o *upstream.Options) { o.Protocol = upstream.AutoHTTP }), 0},
		{set{"backend-protocol": "FCGI"}, nil, base, 1},
		{set{"connection-proxy-header": "close"}, nil, but(func(o *upstream.Options) { o.Connection = "close" }), 0},
		{set{"connection-proxy-header": "keep-alive"}, nil, but(func(o *upstream.Options) { o.Connection = "keep-alive" }), 0},
		{set{"connection-proxy-header": "upgrade"}, nil, base, 1},
		{set{"proxy-http-version": "1.0"}, nil, but(func(o *upstream.Options) { o.HTTP10 = true }), 0},
		{set{"proxy-http-version": "1.1"}, set{"proxy-http-version": "1.0"}, base, 0},
		{set{"proxy-http-version": "2"}, nil, base, 1},
		{set{"proxy-buffering": "on", "proxy-buffer-size": "16k", "proxy-buffers-number": "8", "proxy-busy-buffers-size": "32k",
			"proxy-max-temp-file-size": "0", "http2-push-preload": "true", "enable-rewrite-log": "true"},
			set{"ssl-buffer-size": "4k", "grpc-buffer-size-kb": "8"}, base, 0},
	} {
		p := passage{annotations: c.annotations, config: c.config, features: []func(*Annotations, *Draft){timeouts, retries, backendProtocol, withoutEffect}}
		d := p.drafted()
		if diff := cmp.Diff(c.want, d.Upstream); diff != "" || len(d.layers) != 0 {
			t.Errorf("%q, %q (-want +got):\n%s with %d layers", c.annotations, c.config, diff, len(d.layers))
		}
		if len(p.problems) != c.problems {
			t.Errorf("%q, %q: problems %v, want %d", c.annotations, c.config, p.problems, c.problems)
		}
	}
}

func TestTheProcessSaysWhatIsUsual(t *testing.T) {
	a := reads(map[string]string{NginxPrefix + "proxy-send-timeout": "ten"})
	d := &Draft{Upstream: upstream.Options{ConnectTimeout: time.Second, SendTimeout: 2 * time.Second, ReadTimeout: -1, TunnelTimeout: time.Minute, Tries: 7, Retry: upstream.RetryOff}}
	want := d.Upstream
	want.TunnelTimeout = -1 // somebody wrote proxy-send-timeout, and reading has no limit
	a.run(d, []func(*Annotations, *Draft){timeouts, retries})
	if diff := cmp.Diff(want, d.Upstream); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHostAtTheEndpoints(t *testing.T) {
	for _, c := range []struct {
		vhost, field, want string
		status             int
	}{
		{"", "", "h.test", 200},
		{"u.test", "", "u.test", 200},
		{"u.test:8080", "", "u.test:8080", 200},
		{"$http_x_tenant.u.test", "a", "a.u.test", 200},
		{"$http_x_tenant.u.test", "", "", 400},
		{"$http_x_tenant", "", "h.test", 200},
		{"$http_x_tenant", "a b", "", 400},
		{"$http_x_tenant", "a/b", "", 400},
		{"www.$host", "", "www.h.test", 200},
	} {
		annotations := map[string]string{}
		if c.vhost != "" {
			annotations["upstream-vhost"] = c.vhost
		}
		var host, forwarded string
		p := (&passage{
			annotations: annotations, features: []func(*Annotations, *Draft){upstreamVhost},
			endpoints: []http.Handler{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				host, forwarded = r.Host, r.Header.Get("X-Forwarded-Host")
			})},
		}).open(t)
		answer, _ := p.get(t, "/", "X-Tenant: "+c.field)
		p.became(t)
		if answer.StatusCode != c.status || host != c.want || host != "" && forwarded != "h.test" {
			t.Errorf("%q with %q: %s, host %q, X-Forwarded-Host %q; want %d and host %q", c.vhost, c.field, answer.Status, host, forwarded, c.status, c.want)
		}
	}
}

func TestHostsThatAreRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		"u.test": true, "[::1]:80": true, "$host": true, "": false, "a b": false, "u.test/x": false, "$nothing": false, "u.test\r\nX: y": false, "$1": false,
	} {
		p := passage{annotations: map[string]string{"upstream-vhost": text}, features: []func(*Annotations, *Draft){upstreamVhost}}
		if d := p.drafted(); (len(p.problems) == 0) != ok || (len(d.layers) > 0) != ok {
			t.Errorf("%q: %v, %d layers; want it taken: %v", text, p.problems, len(d.layers), ok)
		}
	}
}

func TestAccessLog(t *testing.T) {
	for _, c := range []struct {
		annotation, key, other string
		none                   bool
	}{
		{"", "", "", false}, {"true", "", "", false}, {"false", "", "", true}, {"no", "", "", false},
		{"", "true", "", true}, {"true", "true", "", true}, {"", "false", "", false}, {"", "", "true", true},
	} {
		annotations := map[string]string{}
		if c.annotation != "" {
			annotations["enable-access-log"] = c.annotation
		}
		p := passage{
			annotations: annotations, config: map[string]string{"disable-access-log": c.key, "disable-http-access-log": c.other},
			features: []func(*Annotations, *Draft){accessLog},
		}
		if d := p.drafted(); d.NoLog != c.none {
			t.Errorf("%+v: no log %v, want %v", c, d.NoLog, c.none)
		}
	}
}
