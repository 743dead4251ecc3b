// Package admin is what operators ask a process: is it alive, is it ready, what does it serve, what has it counted.
//
//	metrics := admin.NewMetrics(admin.Identity{Namespace: "sallyport", Pod: "sallyport-1"})
//	server := &admin.Server{
//		Ready:   []admin.Check{{Name: "table", Fails: noTable}},
//		Table:   front.Table,
//		Metrics: metrics,
//	}
//	server.Serve(listener)
//
// The pages:
//
//	/livez        the process runs; never depends on anything else
//	/readyz       send traffic here; false from the moment the process is told to end
//	/healthz      as ingress-nginx has it: the process runs and was not told to end
//	/metrics      in Prometheus's text format: the names of ingress-nginx, and ours under sallyport_
//	/routes       the table, a route a line in the order tried, and remarks and canaries behind it; JSON for `Accept: application/json`
//	/debug/pprof  with Server.Profiling only
//
// The probes take ?verbose, ?exclude=NAME and /readyz/NAME as those of the Kubernetes API server do
// (https://kubernetes.io/docs/reference/using-api/health-checks/).
//
// # What it does not do
//
// It changes nothing: every page is for reading. It shows no header, no Secret and no request of anybody. It asks nobody
// who they are, so its port belongs to the inside of the cluster.
package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sallyport/proxy"
	"sallyport/router"
)

// A Server answers on the admin port. Set its fields before Serve; nil ones leave their pages empty.
type Server struct {
	Live   []Check // of /livez
	Health []Check // of /healthz
	Ready  []Check // of /readyz

	Table func() *router.Table
	// Remark says what is wrong with a host; empty: nothing. Nil: nobody knows.
	Remark  func(host string) string
	Metrics *Metrics
	// Others are gathered with Metrics: registries of libraries.
	Others    []prometheus.Gatherer
	Profiling bool

	server http.Server
}

// Serve answers until Close is called, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	s.server.Handler = s.Handler()
	s.server.ReadHeaderTimeout = 10 * time.Second
	s.server.IdleTimeout = 75 * time.Second
	if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends Serve. Requests in flight have a moment to end.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		return s.server.Close()
	}
	return nil
}

// Handler is the pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string][]Check{"/livez": s.Live, "/healthz": s.Health, "/readyz": s.Ready} {
		mux.Handle("GET "+path, probe{path, checks})
		mux.Handle("GET "+path+"/{check}", probe{path, checks})
	}
	mux.HandleFunc("GET /routes", s.routes)
	if s.Metrics != nil {
		all := append(prometheus.Gatherers{s.Metrics.registry}, s.Others...)
		mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	}
	if s.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// A routeRow is a route of the JSON page.
type routeRow struct {
	Host      string      `json:"host"`
	Type      string      `json:"pathType"`
	Path      string      `json:"path"`
	Source    string      `json:"source"`
	Namespace string      `json:"namespace,omitempty"`
	Ingress   string      `json:"ingress,omitempty"`
	RegexBy   string      `json:"regexBy,omitempty"` // the Ingress that makes the host's paths regular expressions
	Service   string      `json:"service,omitempty"`
	Port      string      `json:"port,omitempty"`
	Canaries  []canaryRow `json:"canaries,omitempty"`
	Remark    string      `json:"remark,omitempty"` // what is wrong with the host
}

// A canaryRow is an Ingress that takes some of the requests of a route.
type canaryRow struct {
	Ingress string  `json:"ingress"` // namespace/name
	Service string  `json:"service"`
	Port    string  `json:"port"`
	Share   float64 `json:"share"` // of the requests that nothing else decides
}

func (s *Server) routes(w http.ResponseWriter, r *http.Request) {
	var table *router.Table
	if s.Table != nil {
		table = s.Table()
	}
	w.Header().Set("Vary", "Accept")
	if !proxy.WantsJSON(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, table.String())
		last := ""
		for route := range table.All() {
			if remark := s.remark(route.Host); remark != "" && route.Host != last {
				fmt.Fprintf(w, "# %s: %s\n", route.Host, remark)
			}
			last = route.Host
			if info := proxy.InfoOf(route.Handler); info != nil {
				for _, c := range info.Canaries {
					fmt.Fprintf(w, "# %s %s %q: canary %s takes %.4g%% for %s:%s\n", cmp.Or(route.Host, "*"), route.Type, route.Path, c.Ingress, 100*c.Share, c.Service, c.Port)
				}
			}
		}
		return
	}
	rows := []routeRow{}
	for route := range table.All() {
		row := routeRow{Host: route.Host, Type: route.Type.String(), Path: route.Path, Source: route.Source, Remark: s.remark(route.Host)}
		if info := proxy.InfoOf(route.Handler); info != nil {
			row.Namespace, row.Ingress, row.Service, row.Port = info.Namespace, info.Ingress, info.Service, info.Port
			row.RegexBy = info.RegexBy
			for _, c := range info.Canaries {
				row.Canaries = append(row.Canaries, canaryRow{c.Ingress, c.Service, c.Port, c.Share})
			}
		}
		rows = append(rows, row)
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.Encode(rows)
}

func (s *Server) remark(host string) string {
	if s.Remark == nil {
		return ""
	}
	return s.Remark(host)
}
