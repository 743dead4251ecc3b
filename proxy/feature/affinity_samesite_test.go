package feature

import (
	"strings"
	"testing"
)

func TestBrowsersThatDoNotKnowSameSiteNone(t *testing.T) {
	const (
		ios   = "Mozilla/5.0 (iPhone; CPU iPhone OS %s like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.0 Mobile/15E148 Safari/604.1"
		mac   = "Mozilla/5.0 (Macintosh; Intel Mac OS X %s) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1 Safari/605.1.15"
		linux = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%s Safari/537.36"
		uc    = "Mozilla/5.0 (Linux; U; Android 7.1; en-US; X) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/57.0.2987.108 UCBrowser/%s Mobile Safari/537.36"
	)
	for _, c := range []struct {
		form, version string
		knows         bool
	}{
		{ios, "12_0", false}, {ios, "12_4_9", false}, {ios, "11_4", true}, {ios, "13_0", true}, {ios, "120_1", true},
		{"Mozilla/5.0 (iPad; CPU OS %s like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/80.0 Mobile/15E148 Safari/605.1", "12_2", false},
		{mac, "10_14", false}, {mac, "10_14_6", false}, {mac, "10_13_6", true}, {mac, "10_15", true}, {mac, "11_0", true},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X %s) AppleWebKit/605.1.15 (KHTML, like Gecko)", "10_14_3", false},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X %s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/80.0 Safari/537.36", "10_14_3", true},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X %s; rv:70.0) Gecko/20100101 Firefox/70.0", "10.14", true},
		{linux, "50.0.1", true}, {linux, "51.0.1", false}, {linux, "66.0.1", false}, {linux, "67.0.1", true}, {linux, "120.0", true}, {linux, "9999999999999999999999", true},
		{"Mozilla/5.0 (X11; Linux) Chromium/%s", "60.0", false},
		{uc, "12.13.1.1", false}, {uc, "12.12.9.1", false}, {uc, "11.99.99", false}, {uc, "12.13.2.1", true}, {uc, "12.14.0", true}, {uc, "13.0.0", true},
		{"%s", "", true}, {"%s", "curl/8.5", true}, {"%s", strings.Repeat("(iPhone", 10_000), true},
	} {
		userAgent := strings.Replace(c.form, "%s", c.version, 1)
		if got := knowsSameSiteNone(userAgent); got != c.knows {
			t.Errorf("%.150q: %v, want %v", userAgent, got, c.knows)
		}
	}
}
