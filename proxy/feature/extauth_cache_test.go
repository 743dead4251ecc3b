package feature

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/proxy"
)

func TestRepliesAreRemembered(t *testing.T) {
	const anna, bert = "Authorization: Bearer anna", "Authorization: Bearer bert"
	for _, c := range []struct {
		claim    string
		key      string
		duration string
		service  http.HandlerFunc
		requests [2][]string
		targets  [2]string
		asked    int
	}{
		{claim: "the same once", key: "$remote_addr", service: says(200), asked: 1},
		{claim: "refusals too", key: "$remote_addr", service: says(401), asked: 1},
		{claim: "not by themselves those of other statuses", key: "$remote_addr", service: says(403), asked: 2},
		{claim: "nor failures", key: "$remote_addr", service: says(500), asked: 2},
		{claim: "unless it is wanted", key: "$remote_addr", duration: "403 500 1m", service: says(500), asked: 1},
		{claim: "for no time is not", key: "$remote_addr", duration: "200 0s", service: says(200), asked: 2},
		{claim: "a time alone is for 200", key: "$remote_addr", duration: "1m", service: says(200), asked: 1},
		{claim: "and not for 202", key: "$remote_addr", duration: "1m", service: says(202), asked: 2},
		{claim: "no key, nothing", duration: "200 1m", service: says(200), asked: 2},
		{claim: "clients share nothing that the key does not name", key: "$request_method", service: says(200), requests: [2][]string{{anna}, {bert}}, asked: 2},
		{claim: "nor cookies", key: "$request_method", service: says(200), requests: [2][]string{{"Cookie: a=1"}, {"Cookie: a=2"}}, asked: 2},
		{claim: "nor cookies beside a named Authorization", key: "$http_authorization", service: says(200), requests: [2][]string{{anna, "Cookie: a=1"}, {anna, "Cookie: a=2"}}, asked: 2},
		{claim: "nor what another cookie says beside a named one", key: "$cookie_a", service: says(200), requests: [2][]string{{"Cookie: a=1; b=1"}, {"Cookie: a=1; b=2"}}, asked: 2},
		{claim: "nor a session in parts with no session at all", key: "$cookie_a$http_authorization", service: says(200), requests: [2][]string{{"Cookie: a_0=1; a_1=2"}, nil}, asked: 2},
		{claim: "a field of a longer name is another", key: "$http_cookie_consent$http_authorization_x", service: says(200), requests: [2][]string{{anna}, {bert}}, asked: 2},
		{claim: "all cookies may be named", key: "$http_cookie", service: says(200), requests: [2][]string{{"Cookie: a=1"}, {"Cookie: a=1"}}, asked: 1},
		{claim: "and tells clients apart", key: "${cookie_a}", service: says(200), requests: [2][]string{{"Cookie: a=1"}, {"Cookie: a=2"}}, asked: 2},
		{claim: "another path is no other question", key: "$host", service: says(200), targets: [2]string{"/a", "/b"}, asked: 1},
		{claim: "unless the key says so", key: "$request_uri", service: says(200), targets: [2]string{"/a", "/b"}, asked: 2},
		{claim: "a cookie for one client is not", key: "$host", service: says(200, "Set-Cookie: a=1"), asked: 2},
		{claim: "the service may forbid it", key: "$host", service: says(200, "Cache-Control: public, no-store"), asked: 2},
		{claim: "as private", key: "$host", service: says(200, "Cache-Control: private"), asked: 2},
		{claim: "as too old", key: "$host", service: says(200, "Cache-Control: max-age=0"), asked: 2},
		{claim: "as expired", key: "$host", service: says(200, "Expires: 0"), asked: 2},
		{claim: "as different each time", key: "$host", service: says(200, "Vary: *"), asked: 2},
		{claim: "as depending on what differs", key: "$host", service: says(200, "Vary: Accept, X-Tenant"), requests: [2][]string{{"X-Tenant: a"}, {"X-Tenant: b"}}, asked: 2},
		{claim: "but not on what is alike", key: "$host", service: says(200, "Vary: Accept, X-Tenant"), requests: [2][]string{{"X-Tenant: a", "X-Other: a"}, {"X-Tenant: a"}}, asked: 1},
		{claim: "and allow it", key: "$host", service: says(200, "Cache-Control: max-age=60"), asked: 1},
	} {
		v := newVerifier(t, c.service)
		annotations := map[string]string{"auth-url": v.url}
		if c.key != "" {
			annotations["auth-cache-key"] = c.key
		}
		if c.duration != "" {
			annotations["auth-cache-duration"] = c.duration
		}
		p := guarded(t, annotations)
		var statuses [2]int
		for i := range 2 {
			answer, _ := p.get(t, "/"+strings.TrimPrefix(c.targets[i], "/"), c.requests[i]...)
			statuses[i] = answer.StatusCode
		}
		if v.times() != c.asked || statuses[0] != statuses[1] {
			t.Errorf("%s: the service was asked %d times, answers %v; want %d, and both alike", c.claim, v.times(), statuses, c.asked)
		}
	}
}

func TestARememberedReplyIsWhole(t *testing.T) {
	v := newVerifier(t, says(200, "X-User: ada"))
	p := guarded(t, map[string]string{"auth-url": v.url, "auth-cache-key": "$host", "auth-response-headers": "X-User"})
	for range 2 {
		if answer, _ := p.get(t, "/", "X-User: mallory"); answer.Header.Get("Got-X-User") != "ada" {
			t.Errorf("the endpoint got X-User %q, want ada", answer.Header.Get("Got-X-User"))
		}
	}
	if v.answer = says(401, "WWW-Authenticate: Bearer"); v.times() != 1 {
		t.Errorf("asked %d times, want once", v.times())
	}
	for range 2 {
		if answer, _ := p.get(t, "/", "Authorization: Bearer x"); answer.StatusCode != 401 || answer.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s with WWW-Authenticate %q", answer.Status, answer.Header.Get("WWW-Authenticate"))
		}
	}
	if v.times() != 2 {
		t.Errorf("asked %d times, want twice", v.times())
	}
}

func TestAnEditForgetsRepliesOnlyWhereTheQuestionChanged(t *testing.T) {
	v := newVerifier(t, says(200))
	usual := map[string]string{"auth-url": v.url, "auth-cache-key": "$host"}
	d := new(Draft)
	asked := func(change map[string]string) int {
		before := v.times()
		annotations := maps.Clone(usual)
		maps.Copy(annotations, change)
		d = &Draft{memory: d.Memory().next()}
		reads(prefixed(annotations)).run(d, authFeatures)
		knock(d.Handler(Place{}, lets), "GET", "/", "")
		return v.times() - before
	}
	for _, c := range []struct {
		claim  string
		change map[string]string
		want   int
	}{
		{"the first", nil, 1},
		{"nothing changed", nil, 0},
		{"something else changed", map[string]string{"custom-http-errors": "404"}, 0},
		{"another address", map[string]string{"auth-url": v.url + "/other"}, 1},
		{"other fields", map[string]string{"auth-response-headers": "X-User"}, 1},
		{"other times", map[string]string{"auth-cache-duration": "200 1m"}, 1},
	} {
		if got := asked(c.change); got != c.want {
			t.Errorf("%s: asked %d times, want %d", c.claim, got, c.want)
		}
	}
}

func TestTheCacheForgets(t *testing.T) {
	c, now := newAuthCache(10*cachedOverhead), time.Now()
	key := func(i int) (k cacheKey) { k[0], k[1] = byte(i), byte(i>>8); return k }
	c.put(key(0), nil, &authReply{status: 200}, now, now.Add(time.Minute))
	if c.get(key(0), nil, now.Add(time.Minute-1)) == nil || c.get(key(0), nil, now.Add(time.Minute)) != nil || c.bytes != 0 {
		t.Errorf("an answer is remembered for another time than its own; %d bytes are left", c.bytes)
	}
	for i := range 1000 {
		c.put(key(i), nil, &authReply{status: 200, challenge: []string{strings.Repeat("x", 100)}}, now, now.Add(time.Hour))
		c.get(key(0), nil, now)
		if c.bytes > c.most || c.bytes < 0 {
			t.Fatalf("%d bytes after %d answers, the most are %d", c.bytes, i+1, c.most)
		}
	}
	if c.get(key(0), nil, now) == nil || c.get(key(999), nil, now) == nil || c.get(key(500), nil, now) != nil {
		t.Error("not those that were asked for longest ago were forgotten")
	}
	c.put(key(1), nil, &authReply{challenge: []string{strings.Repeat("x", maxCachedReply)}}, now, now.Add(time.Hour))
	if c.get(key(1), nil, now) != nil {
		t.Error("an answer without measure was kept")
	}
	for i := range 1000 {
		c.put(key(i), nil, &authReply{status: 200}, now, now.Add(time.Hour))
		c.put(key(i), nil, &authReply{status: 401}, now, now.Add(time.Hour))
	}
	if got := c.get(key(999), nil, now); got == nil || got.status != 401 || c.bytes != 10*cachedOverhead {
		t.Errorf("got %+v and %d bytes, want the later answer and %d", got, c.bytes, 10*cachedOverhead)
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"200 202 401 5m": "map[200:5m0s 202:5m0s 401:5m0s]", "30s": "map[200:30s 301:30s 302:30s]", "200 1h,401  10s": "map[200:1h0m0s 401:10s]",
		"200 1M": "map[200:720h0m0s]", "200 1m": "map[200:1m0s]", "200 250ms , ": "map[200:250ms]", "200 1d, 200 1w": "map[200:168h0m0s]", "200 1y": "map[200:8760h0m0s]",
		"": "", "200": "", "200 5": "", "5m 200": "", "200 1h30m": "", "20 5m": "", "600 5m": "", "200 m": "", "200 +5m": "", "200 999999999d": "", "any 5m": "",
	} {
		got, expected := parseDurations(text)
		if shown := fmt.Sprint(got); (expected != "") != (want == "") || want != "" && shown != want {
			t.Errorf("%q: %s, %q; want %s", text, shown, expected, want)
		}
	}
}

func TestAReplyLastsNoLongerThanTheServiceSays(t *testing.T) {
	now := time.Now()
	for field, want := range map[string]time.Duration{
		"": 5 * time.Minute, "Cache-Control: max-age=60": time.Minute, "Cache-Control: max-age=3600": 5 * time.Minute, "Cache-Control: MAX-AGE=\"10\", public": 10 * time.Second,
		"Cache-Control: max-age=x": 0, "Cache-Control: no-cache": 0, "Expires: " + now.Add(time.Minute+time.Second).UTC().Format(http.TimeFormat): time.Minute,
		"Expires: " + now.Add(-time.Hour).UTC().Format(http.TimeFormat): -time.Hour, "Vary: Accept": 5 * time.Minute,
	} {
		header := http.Header{}
		if name, text, ok := strings.Cut(field, ": "); ok {
			header.Set(name, text)
		}
		if got := lifetime(header, 5*time.Minute, now); got.Round(2*time.Second) != want.Round(2*time.Second) {
			t.Errorf("%q: %v, want %v", field, got, want)
		}
	}
}

func TestPiecesOfAKeyDoNotRunTogether(t *testing.T) {
	a := reads(prefixed(map[string]string{"auth-url": "http://a.test/", "auth-cache-key": "$http_x"}))
	g := &authGuard{mixes: credentials{true, true}}
	g.cacheKey = a.template("auth-cache-key", "text", "the key")
	seen := map[cacheKey]string{}
	for _, fields := range []string{"", "X=a", "Authorization=a", "Cookie=a", "X=a Cookie=b", "X=ab", "Cookie=ab", "Authorization=a Cookie=b", "Authorization=ab"} {
		r := request(t, "GET", "http://h.test/", nil)
		for field := range strings.FieldsSeq(fields) {
			name, text, _ := strings.Cut(field, "=")
			r.Header.Set(name, text)
		}
		key, err := g.key(r, new(proxy.Exchange), "http://a.test/")
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have one key", fields, other)
		}
		seen[key] = fields
	}
	key, err := g.key(request(t, "GET", "http://h.test/", nil), new(proxy.Exchange), "http://b.test/")
	if _, ok := seen[key]; ok || err != nil {
		t.Errorf("%v; another address has the same key", err)
	}
}
