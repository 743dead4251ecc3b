package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Check is one condition of a probe. Fails returns nil while the condition holds, else why it does not; it must answer
// at once.
type Check struct {
	Name  string
	Fails func() error
}

// A probe answers 200 while all its checks hold and 500 otherwise, as the API server does.
type probe struct {
	path   string
	checks []Check
}

func (p probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	checks, query := p.checks, r.URL.Query()
	if only := r.PathValue("check"); only != "" {
		i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == only })
		if i < 0 {
			http.Error(w, fmt.Sprintf("%s has no check %q", p.path, only), http.StatusNotFound)
			return
		}
		checks = checks[i : i+1]
	}
	var text strings.Builder
	failed := false
	for _, check := range checks {
		if slices.Contains(query["exclude"], check.Name) {
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := check.Fails(); err != nil {
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: %v\n", check.Name, err)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", check.Name)
	}
	name := strings.TrimPrefix(p.path, "/")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", text.String(), name)
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", text.String(), name)
	default:
		fmt.Fprint(w, "ok\n")
	}
}
