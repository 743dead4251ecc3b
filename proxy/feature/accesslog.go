package feature

import (
	"net/http"

	"sallyport/proxy"
)

// accessLog keeps routes out of the access log (reference B14 #127).
func accessLog(a *Annotations, d *Draft) {
	a.Section("Access log", ReachPaths, "What is not logged is counted in the metrics all the same. An Ingress cannot turn on what the ConfigMap has turned off.")
	wanted := a.Bool("enable-access-log", true, "whether requests are in the access log")
	none := a.Config().Bool("disable-access-log", false, "whether nothing of any Ingress is in the access log")
	skipped := a.texts("skip-access-log-urls", "the paths of requests that are not in the access log, whoever answers them")
	noneHTTP := a.Config().Bool("disable-http-access-log", false, "the same as disable-access-log, which in ingress-nginx is about TCP too")
	if !wanted || none || noneHTTP {
		d.NoLog = true
	}
	if skipped != nil {
		d.Everywhere(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if e := proxy.From(r); skipped.take(e.Path) {
					e.NoLog = true
				}
				next.ServeHTTP(w, r)
			})
		})
	}
}
