package feature

import (
	"testing"
	"time"

	"sallyport/proxy/upstream"
)

func TestKeysOfStreams(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       upstream.StreamOptions
		bad        bool
	}{
		{"proxy-stream-timeout", "90s", upstream.StreamOptions{Idle: 90 * time.Second}, false},
		{"proxy-stream-timeout", "15", upstream.StreamOptions{Idle: 15 * time.Second}, false},
		{"proxy-stream-timeout", "0", upstream.StreamOptions{}, true},
		{"proxy-stream-timeout", "soon", upstream.StreamOptions{}, true},
		{"proxy-stream-timeout", "-5s", upstream.StreamOptions{}, true},
		{"proxy-stream-timeout", "99999999999999999", upstream.StreamOptions{Idle: 365 * 24 * time.Hour}, false},
		{"proxy-stream-next-upstream", "false", upstream.StreamOptions{NoRetry: true}, false},
		{"proxy-stream-next-upstream-timeout", "5m", upstream.StreamOptions{RetryTimeout: 5 * time.Minute}, false},
		{"proxy-stream-next-upstream-timeout", "0", upstream.StreamOptions{RetryTimeout: -1}, false},
		{"proxy-stream-next-upstream-tries", "0", upstream.StreamOptions{Tries: -1}, false},
		{"proxy-stream-next-upstream-tries", "7", upstream.StreamOptions{Tries: 7}, false},
		{"proxy-stream-responses", "0", upstream.StreamOptions{Responses: -1}, false},
		{"proxy-stream-responses", "4", upstream.StreamOptions{Responses: 4}, false},
		{"proxy-stream-responses", "many", upstream.StreamOptions{}, true},
	} {
		if c.want.Tries == 0 {
			c.want.Tries = 3
		}
		if c.want.Responses == 0 {
			c.want.Responses = 1
		}
		config, problems := NewConfig(map[string]string{c.key: c.value}, Input{})
		if got := config.Streams(); got != c.want || (len(problems) > 0) != c.bad {
			t.Errorf("%s: %q gives %+v and %+v; want %+v, a problem: %v", c.key, c.value, got, problems, c.want, c.bad)
		}
	}
}
