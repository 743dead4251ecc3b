package admin

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/proxy"
	"sallyport/router"
)

// serve starts s and returns a function that gets a page: its status and its body.
func serve(t *testing.T, s *Server) func(path string, header ...string) (int, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return func(path string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

func TestProbesFollowTheirChecks(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	fine := Check{"listeners", func() error { return nil }}
	get := serve(t, &Server{Live: []Check{fine}, Ready: []Check{fine, {"table", func() error {
		if broken.Load() {
			return errors.New("there is none yet")
		}
		return nil
	}}}})
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/livez", 200, "ok\n"},
		{"/healthz", 200, "ok\n"},
		{"/readyz", 500, "[+]listeners ok\n[-]table failed: there is none yet\nreadyz check failed\n"},
		{"/readyz/listeners", 200, "ok\n"},
		{"/readyz/table", 500, "[-]table failed: there is none yet\nreadyz check failed\n"},
		{"/readyz?exclude=table", 200, "ok\n"},
		{"/readyz?exclude=table&verbose", 200, "[+]listeners ok\n[+]table excluded: ok\nreadyz check passed\n"},
		{"/readyz/nothing", 404, "/readyz has no check \"nothing\"\n"},
	} {
		if status, body := get(c.path); status != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, status, body, c.status, c.body)
		}
	}
	broken.Store(false)
	if status, body := get("/readyz"); status != 200 || body != "ok\n" {
		t.Errorf("/readyz: %d %q once all checks hold", status, body)
	}
}

func TestRoutesPageIsTheTable(t *testing.T) {
	info := &proxy.RouteInfo{Namespace: "default", Ingress: "web", Service: "app", Port: "http", RegexBy: "default/rx",
		Canaries: []proxy.CanaryInfo{{Ingress: "default/next", Service: "app-next", Port: "80", Share: 0.25}}}
	table := router.New([]router.Route{
		{Match: router.Match{Host: "a.test", Path: "/"}, Source: "default/web", Handler: proxy.Identify(info, http.NotFoundHandler())},
		{Match: router.Match{Path: "/x", Type: router.Exact}, Source: "default/any"},
	}, nil)
	get := serve(t, &Server{Table: func() *router.Table { return table }})
	text := table.String() + "# a.test Prefix \"/\": canary default/next takes 25% for app-next:80\n"
	if status, body := get("/routes"); status != 200 || body != text {
		t.Errorf("/routes: %d\n%s\nwant\n%s", status, body, text)
	}
	_, body := get("/routes", "Accept", "application/json")
	var rows []routeRow
	if err := json.Unmarshal([]byte(body), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("/routes as JSON: %v\n%s", err, body)
	}
	want := routeRow{"a.test", "Prefix", "/", "default/web", "default", "web", "default/rx", "app", "http", []canaryRow{{"default/next", "app-next", "80", 0.25}}, ""}
	if !reflect.DeepEqual(rows, []routeRow{want, {Type: "Exact", Path: "/x", Source: "default/any"}}) {
		t.Errorf("/routes as JSON is %+v, want %+v first", rows, want)
	}
}

func TestProfilesAreServedOnlyWhenAsked(t *testing.T) {
	if status, _ := serve(t, new(Server))("/debug/pprof/"); status != 404 {
		t.Errorf("/debug/pprof/ without Profiling: %d, want 404", status)
	}
	if status, _ := serve(t, &Server{Profiling: true})("/debug/pprof/"); status != 200 {
		t.Errorf("/debug/pprof/ with Profiling: %d, want 200", status)
	}
}

// finished is an exchange of a route that was answered by an endpoint.
func finished(method string, status int) *proxy.Exchange {
	e := &proxy.Exchange{Method: method, Status: status, Took: 20 * time.Millisecond, Received: 100, Sent: 1000}
	*e.Try(netip.MustParseAddrPort("10.0.0.1:80")) = proxy.Attempt{Status: status, Header: 10 * time.Millisecond, Total: 15 * time.Millisecond}
	return e
}

func TestRequestsAreCountedUnderTheirRoute(t *testing.T) {
	m := NewMetrics(Identity{Namespace: "ns", Class: "sallyport", Pod: "pod-1", Version: "v1"})
	observer := m.Retain(&proxy.RouteInfo{Namespace: "shop", Ingress: "web", Service: "app", Host: "a.test", Path: "/x"})
	observer.Observe(finished("GET", 200))
	observer.Observe(finished("GET", 200))
	observer.Observe(finished("BREW", 502))
	get := serve(t, &Server{Metrics: m})
	_, text := get("/metrics")
	const labels = `canary="",controller_class="sallyport",controller_namespace="ns",controller_pod="pod-1",host="a.test",ingress="web",`
	for _, want := range []string{
		`nginx_ingress_controller_requests{` + labels + `method="GET",namespace="shop",path="/x",service="app",status="200"} 2`,
		`nginx_ingress_controller_requests{` + labels + `method="OTHER",namespace="shop",path="/x",service="app",status="502"} 1`,
		`nginx_ingress_controller_request_duration_seconds_sum{` + labels + `method="GET",namespace="shop",path="/x",service="app",status="200"} 0.04`,
		`nginx_ingress_controller_header_duration_seconds_bucket{` + labels + `method="GET",namespace="shop",path="/x",service="app",status="200",le="0.01"} 2`,
		`nginx_ingress_controller_bytes_sent_sum{` + labels + `method="GET",namespace="shop",path="/x",service="app",status="200"} 2000`,
		`nginx_ingress_controller_build_info{build="`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestSeriesGoWithTheLastRouteThatSharesThem(t *testing.T) {
	m := NewMetrics(Identity{})
	info := &proxy.RouteInfo{Namespace: "shop", Ingress: "web", Service: "app", Path: "/"}
	before, after := m.Retain(info), m.Retain(&proxy.RouteInfo{Namespace: "shop", Ingress: "web", Service: "app", Path: "/"})
	before.Observe(finished("GET", 200))
	get := serve(t, &Server{Metrics: m})
	m.Release(info) // the old version of the route
	after.Observe(finished("GET", 200))
	if _, text := get("/metrics"); !strings.Contains(text, `service="app",status="200"} 2`) {
		t.Error("the new version of a route does not go on counting where the old one stopped")
	}
	m.Release(info)
	before.Observe(finished("GET", 200)) // a request that was in flight
	after.Observe(finished("POST", 500))
	if _, text := get("/metrics"); strings.Contains(text, `ingress="web"`) {
		t.Error("series are left after the last route has gone")
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	observer := NewMetrics(Identity{}).Retain(&proxy.RouteInfo{Ingress: "web"})
	e := finished("GET", 200)
	observer.Observe(e)
	if n := testing.AllocsPerRun(1000, func() { observer.Observe(e) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}

// process is the constant labels of a process in class "sallyport".
const process = `controller_class="sallyport",controller_namespace="",controller_pod=""`

func TestBuildsAreTold(t *testing.T) {
	m := NewMetrics(Identity{Class: "sallyport"})
	get := serve(t, &Server{Metrics: m})
	if _, text := get("/metrics"); !strings.Contains(text, "config_last_reload_successful{"+process+"} 0\n") || strings.Contains(text, "sallyport_table") {
		t.Error("before the first build a table is told")
	}
	m.Built(Build{
		Generation: 7, Routes: 3, Took: time.Second,
		Problems: map[ProblemKind]int{{"error", "PortNotFound"}: 2},
		Certificates: map[CertificateKind]*x509.Certificate{{"a.test", "default", "tls"}: {
			NotAfter: time.Unix(1_800_000_000, 0), SerialNumber: big.NewInt(100), PublicKeyAlgorithm: x509.ECDSA,
			Issuer: pkix.Name{SerialNumber: "abcd", CommonName: "root\xff", Organization: []string{"us", "them"}},
		}},
	})
	m.CountEndpoints(func(yield func(namespace, service, port string, endpoints int)) { yield("shop", "app", "http", 4) })
	_, text := get("/metrics")
	for _, want := range []string{
		"config_last_reload_successful{" + process + "} 1", "ingress_controller_success{" + process + "} 1", "ingress_controller_errors{" + process + "} 0",
		"sallyport_table_generation 7", "sallyport_table_routes 3", "sallyport_table_build_seconds 1",
		`sallyport_problems{reason="PortNotFound",severity="error"} 2`, `sallyport_endpoints{namespace="shop",port="http",service="app"} 4`,
		`nginx_ingress_controller_ssl_expire_time_seconds{class="sallyport",host="a.test",identifier="abcd-100",namespace="default",secret_name="tls"} 1.8e+09`,
		`nginx_ingress_controller_ssl_certificate_info{class="sallyport",host="a.test",identifier="abcd-100",issuer_common_name="root�",issuer_organization="us",namespace="default",public_key_algorithm="ECDSA",secret_name="tls",serial_number="100"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	m.Built(Build{Generation: 8})
	if _, text := get("/metrics"); strings.Contains(text, "PortNotFound") || strings.Contains(text, "a.test") {
		t.Error("problems and certificates that are gone are still told")
	}
}

func BenchmarkObserve(b *testing.B) {
	observer := NewMetrics(Identity{}).Retain(&proxy.RouteInfo{Ingress: "web"})
	e := finished("GET", 200)
	for b.Loop() {
		observer.Observe(e)
	}
}
