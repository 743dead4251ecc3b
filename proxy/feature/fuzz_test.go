package feature

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"sallyport/proxy"
	"sallyport/router"
)

// FuzzAnnotations gives one Ingress three annotations of any value, and a ConfigMap with the same keys, and serves a
// request with what comes of it. Nothing may panic, and what keeps clients out may not be open because it was misread.
func FuzzAnnotations(f *testing.F) {
	names := make([]string, 0, 200)
	for _, d := range Declarations() {
		names = append(names, d.Name)
	}
	for i, value := range []string{"", "true", "1", "off", "a\r\nb", "\x00", "/$1$9${", "10.0.0.0/8,::/0", "https://$host/x", "200 202 5m", "name/other",
		strings.Repeat("(a*)*", 20), strings.Repeat("x", 70<<10), "~^(", "*.a.test", "ü", "-1", "99999999999999999999", "1k", "$http_x"} {
		f.Add(uint16(i), uint16(2*i), uint16(3*i), value, "true", "1", "/a/b?c")
	}
	f.Fuzz(func(t *testing.T, i, j, k uint16, a, b, c, target string) {
		values := make(map[string]string)
		keys := make(map[string]string)
		for at, value := range map[uint16]string{i: a, j: b, k: c} {
			name := names[int(at)%len(names)]
			values[NginxPrefix+name], keys[name] = value, value
		}
		config, _ := NewConfig(keys, Input{Objects: anything{}})
		for _, config := range []*Config{nil, config} {
			in := Input{Namespace: "default", Name: "a", Annotations: values, Config: config, Objects: anything{}}
			draft, problems := Parse(in)
			for _, p := range problems {
				if len(p.Message) > 16<<10 {
					t.Errorf("a message of %d bytes", len(p.Message))
				}
			}
			for _, kind := range []router.PathType{router.Prefix, router.Regex} {
				at := Place{Match: router.Match{Host: "a.test", Path: "/a", Type: kind}, Info: &proxy.RouteInfo{Namespace: "default", Ingress: "a", Service: "s", Port: "80"}}
				served := false
				handler := draft.Host.Handler(at, draft.Handler(at, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })))
				r := httptest.NewRequest("GET", "/a", nil)
				if !strings.HasPrefix(target, "/") {
					target = "/" + target
				}
				e := &proxy.Exchange{Method: "GET", Host: "a.test", Path: "/a", Target: target, Scheme: "http", Client: netip.MustParseAddr("192.0.2.1"), Info: at.Info}
				handler.ServeHTTP(httptest.NewRecorder(), proxy.With(r, e))
				if served && draft.Denied() {
					t.Errorf("a denied route is open with %q", values)
				}
			}
		}
	})
}

// anything has every object, empty.
type anything struct{}

func (anything) Secret(string, string) (map[string][]byte, bool)    { return nil, true }
func (anything) ConfigMap(string, string) (map[string]string, bool) { return nil, true }
func (anything) Backend(string, string) *Backend                    { return nil }
