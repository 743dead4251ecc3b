package feature

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"sallyport/proxy"
)

func TestBlocks(t *testing.T) {
	const agent, referer = "User-Agent", "Referer"
	for _, c := range []struct {
		claim  string
		config pairs
		client string
		header http.Header
		want   int
	}{
		{"an address", pairs{"block-cidrs": "192.0.2.0/24,10.0.0.1"}, "10.0.0.1", nil, 403},
		{"another", pairs{"block-cidrs": "192.0.2.0/24,10.0.0.1"}, "10.0.0.2", nil, 200},
		{"an address that nobody knows", pairs{"block-cidrs": "10.0.0.1"}, "", nil, 403},
		{"nobody", nil, "10.0.0.1", nil, 200},
		{"a whole value", pairs{"block-user-agents": "curl/8.0, wget"}, "", http.Header{agent: {"wget"}}, 403},
		{"in any case", pairs{"block-user-agents": "curl/8.0, wget"}, "", http.Header{agent: {"WGet"}}, 403},
		{"not a part of one", pairs{"block-user-agents": "curl/8.0, wget"}, "", http.Header{agent: {"wget/1"}}, 200},
		{"a part by expression", pairs{"block-user-agents": "~bot, ~^curl/[0-9]"}, "", http.Header{agent: {"Googlebot/2"}}, 403},
		{"whose case counts", pairs{"block-user-agents": "~bot, ~^curl/[0-9]"}, "", http.Header{agent: {"GoogleBot/2"}}, 200},
		{"the second", pairs{"block-user-agents": "~bot, ~^curl/[0-9]"}, "", http.Header{agent: {"curl/8"}}, 403},
		{"unless it says otherwise", pairs{"block-user-agents": "~*bot|spider"}, "", http.Header{agent: {"BigSpider"}}, 403},
		{"quoted, with spaces", pairs{"block-user-agents": `"Mozilla/4.0 (old)", "~* very old"`}, "", http.Header{agent: {"a Very Old one"}}, 403},
		{"quoted, whole", pairs{"block-user-agents": `"Mozilla/4.0 (old)"`}, "", http.Header{agent: {"mozilla/4.0 (old)"}}, 403},
		{"a field sent twice", pairs{"block-user-agents": "wget"}, "", http.Header{agent: {"fine", "wget"}}, 403},
		{"one that is absent", pairs{"block-user-agents": "~^$"}, "", http.Header{}, 403},
		{"one that is there", pairs{"block-user-agents": "~^$"}, "", http.Header{agent: {"x"}}, 200},
		{"a referer", pairs{"block-referers": "~*evil\\.test"}, "", http.Header{referer: {"https://www.Evil.test/x"}}, 403},
		{"of another field", pairs{"block-referers": "~*evil\\.test"}, "", http.Header{agent: {"https://evil.test/x"}}, 200},
		{"one of several keys", pairs{"block-referers": "a", "block-user-agents": "b", "block-cidrs": "10.0.0.0/8"}, "10.0.0.1", nil, 403},
	} {
		d, problems := drafting(nil, c.config, blocks)
		e := new(proxy.Exchange)
		if c.client != "" {
			e.Client = netip.MustParseAddr(c.client)
		}
		answer, _ := asked(t, d.Around(d.Handler(Place{}, say("in"))), e, "GET", c.header)
		if answer.StatusCode != c.want || (c.want == 403) != (e.Reason == proxy.Blocked) || len(problems) > 0 {
			t.Errorf("%s: %v answers %s %v with %d %s, want %d; problems %v", c.claim, c.config, c.client, c.header, answer.StatusCode, e.Reason, c.want, problems)
		}
	}
}

// TestNothingOutweighsABlock: neither a list that lets the client in nor satisfy.
func TestNothingOutweighsABlock(t *testing.T) {
	for _, lists := range []pairs{
		{"allowlist-source-range": "10.0.0.0/8"}, {"denylist-source-range": "192.0.2.0/24"},
	} {
		d, _ := drafting(lists, pairs{"block-cidrs": "10.0.0.1"}, blocks, accessLists, func(_ *Annotations, d *Draft) {
			d.SatisfyAny()
			d.Guard(func(*http.Request) http.Handler { return nil })
		})
		if status, reason := answerTo(t, d, "10.0.0.1"); status != 403 || reason != proxy.Blocked {
			t.Errorf("%v: %d %s, want 403 %s", lists, status, reason, proxy.Blocked)
		}
	}
}

func TestABlockThatCannotBeReadLetsNobodyIn(t *testing.T) {
	for key, values := range map[string][]string{
		"block-cidrs":       {" ", ",", "10.0.0.0/33", "10.0.0.0/8,all", "~10"},
		"block-user-agents": {",", "~(", "~*[", "~(?!bot)", "good,~a{1001}", "~" + strings.Repeat("x", maxValue)},
		"block-referers":    {",", "~(", "~(?<=a)b"},
	} {
		for _, value := range values {
			for range 2 { // the second time nothing of the first is remembered
				d, problems := drafting(nil, pairs{key: value}, blocks)
				if status, _ := answerTo(t, d, "10.0.0.1"); status != 503 || len(problems) != 1 || !problems[0].Denies || !problems[0].Config {
					t.Errorf("%s: %.40q answers %d with %v, want 503 with one problem", key, value, status, problems)
				}
			}
		}
	}
}

func TestBlockingIsNoAnnotation(t *testing.T) {
	if d, _ := drafting(pairs{"block-cidrs": "10.0.0.0/8"}, nil, blocks); len(d.layers) > 0 {
		t.Error("an annotation blocks")
	}
}
