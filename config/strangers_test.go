package config

import (
	"slices"
	"testing"
)

func TestStrangersAreToldWithTheNearestVariable(t *testing.T) {
	flags, _ := flagSet()
	for _, test := range []struct{ variable, want string }{
		{"SALLYPORT_HTPP_PORT=80", "SALLYPORT_HTPP_PORT: no flag has this variable, did you mean SALLYPORT_HTTP_PORT?"},
		{"SALLYPORT_MANIFEST=m", "SALLYPORT_MANIFEST: no flag has this variable, did you mean SALLYPORT_MANIFESTS?"},
		{"SALLYPORT_HEALTHZ_PORT=1", "SALLYPORT_HEALTHZ_PORT: a second name of a flag has no variable, use SALLYPORT_ADMIN_PORT"},
		{"SALLYPORT_STATUS_PORT=1", "SALLYPORT_STATUS_PORT: there is no flag --status-port here: " + useAdminPort},
		{"SALLYPORT_COLOUR_OF_THE_SKY=blue", "SALLYPORT_COLOUR_OF_THE_SKY: no flag has this variable"},
		// Known ones, other people's, and what a cluster says of a Service called sallyport.
		{"SALLYPORT_HTTP_PORT=80", ""},
		{"HTPP_PORT=80", ""},
		{"SALLYPORT_SERVICE_HOST=10.0.0.1", ""},
		{"SALLYPORT_SERVICE_PORT=80", ""},
		{"SALLYPORT_SERVICE_PORT_HTTP=80", ""},
		{"SALLYPORT_PORT=tcp://10.0.0.1:80", ""},
		{"SALLYPORT_PORT_80_TCP=tcp://10.0.0.1:80", ""},
		{"SALLYPORT_PORT_80_TCP_ADDR=10.0.0.1", ""},
		{"SALLYPORT_METRICS_PORT=tcp://10.0.0.1:80", ""},
	} {
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		if got := Strangers([]string{test.variable}, visible(flags)); !slices.Equal(got, want) {
			t.Errorf("of %s is said %q, want %q", test.variable, got, want)
		}
	}
}
