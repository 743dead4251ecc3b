package spelling

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"serviceName", "servicePort", "path", "pathType", "ssl-redirect", "port", "http-port"}
	for word, want := range map[string]string{
		"serviceNmae":                "serviceName", // two neighbours swapped are one slip
		"SERVICEPORT":                "servicePort",
		"pathtype":                   "pathType",
		"pth":                        "path",
		"ssl-redirects":              "ssl-redirect",
		"htttp-port":                 "http-port",
		"x":                          "",
		"backend":                    "",
		"":                           "",
		strings.Repeat("path", 1000): "",
	} {
		if got := Nearest(word, slices.Values(known)); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "xbc", 1}, {"abc", "abcd", 1}, {"kitten", "sitting", 3}, {"flaw", "LAWN", 2}} {
		if got := Slips(c.a, c.b); got != c.want {
			t.Errorf("Slips(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
