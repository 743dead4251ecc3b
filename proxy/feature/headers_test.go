package feature

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
)

// speaks answers with fields that say who made it.
var speaks = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "secret/1.0")
	w.Header().Set("X-Powered-By", "secret")
	w.Header().Set("X-Frame-Options", "ALLOW")
	fmt.Fprintf(w, "%s %v", r.Host, r.Header)
})

var headerFeatures = []func(*Annotations, *Draft){responseHeaders, hideHeaders, upstreamVhost, proxySetHeaders}

// configMaps are those that the tests name.
var configMaps = objects{configMaps: map[string]map[string]string{
	"shop/mine":   {"X-Frame-Options": "DENY", "X-Mine": " a b \n", "X-Powered-By": ""},
	"shop/bad":    {"X-Mine": "yes", "X-Not-Allowed": "no", "Content-Length": "5", "a b": "no", "X-Bad": "a\r\nSet-Cookie: x=y"},
	"ops/add":     {"X-Everywhere": "yes", "X-Mine": "the operator's"},
	"ops/request": {"X-Plain": "a b", "X-Of": "$request_method $http_x_name ${host}", "X-Forwarded-Proto": "", "X-Empty": "$arg_none", "Host": "u.test", "Te": "gzip", "X-Unknown": "$nothing"},
}}

func TestFieldsOfAnswers(t *testing.T) {
	type set map[string]string
	for _, c := range []struct {
		claim               string
		annotations, config set
		features            []func(*Annotations, *Draft)
		want                set
		problems            []string
	}{
		{"by themselves answers keep theirs, Server aside", nil, nil, headerFeatures, set{"X-Frame-Options": "ALLOW", "X-Powered-By": "secret", "Server": ""}, nil},
		{"custom-headers sets, replaces and removes", set{"custom-headers": "mine"}, set{"global-allowed-response-headers": "x-frame-options, X-Mine, X-Powered-By"}, headerFeatures,
			set{"X-Frame-Options": "DENY", "X-Mine": "a b", "X-Powered-By": ""}, nil},
		{"on errors of the proxy's own too", set{"custom-headers": "mine"}, set{"global-allowed-response-headers": "X-Mine,X-Frame-Options,X-Powered-By"}, append(slices.Clone(headerFeatures), refusing(403, proxy.AddressDenied)),
			set{"X-Mine": "a b", "X-Frame-Options": "DENY"}, nil},
		{"what may not be set closes the routes", set{"custom-headers": "shop/bad"}, set{"global-allowed-response-headers": "X-Mine,X-Bad,Content-Length"}, headerFeatures,
			set{"X-Mine": "", "X-Not-Allowed": "", "Set-Cookie": "", "X-Bad": ""},
			[]string{`"Content-Length" says how`, `"a\r\nSet-Cookie: x=y" cannot be the value`, `"a b" is no name`, `"X-Not-Allowed" is not among`}},
		{"nothing is allowed by itself", set{"custom-headers": "mine"}, nil, headerFeatures, set{"X-Frame-Options": "", "X-Mine": ""},
			[]string{`"X-Frame-Options" is not`, `"X-Mine" is not`, `"X-Powered-By" is not`}},
		{"a ConfigMap that is not there", set{"custom-headers": "none"}, nil, headerFeatures, set{"X-Frame-Options": ""}, []string{`no ConfigMap is named "none"`}},
		{"one of another namespace", set{"custom-headers": "ops/add"}, set{"global-allowed-response-headers": "X-Mine"}, headerFeatures, set{"X-Mine": ""}, []string{"of another namespace"}},
		{"add-headers is for all", nil, set{"add-headers": "ops/add"}, headerFeatures, set{"X-Everywhere": "yes", "X-Mine": "the operator's"}, nil},
		{"and gives way to custom-headers", set{"custom-headers": "mine"}, set{"add-headers": "ops/add", "global-allowed-response-headers": "X-Mine,X-Powered-By,X-Frame-Options"}, headerFeatures,
			set{"X-Everywhere": "yes", "X-Mine": "a b"}, nil},
		{"hide-headers hides endpoints'", nil, set{"hide-headers": "x-powered-by, X-Frame-Options"}, headerFeatures, set{"X-Powered-By": "", "X-Frame-Options": ""}, nil},
		{"but not ours", set{"custom-headers": "mine"}, set{"hide-headers": "X-Frame-Options,X-Mine", "global-allowed-response-headers": "X-Mine,X-Frame-Options,X-Powered-By"}, headerFeatures,
			set{"X-Frame-Options": "DENY", "X-Mine": "a b"}, nil},
		{"and never what frames the answer", nil, set{"hide-headers": "Transfer-Encoding, Content-Length"}, headerFeatures, set{"X-Powered-By": "secret"}, nil},
		{"server-tokens says who we are", nil, set{"server-tokens": "true"}, headerFeatures, set{"Server": "sallyport"}, nil},
	} {
		p := (&passage{annotations: c.annotations, config: c.config, objects: configMaps, features: c.features, endpoints: []http.Handler{speaks}}).open(t)
		answer, body := p.get(t, "/")
		for name, want := range c.want {
			if got := strings.Join(answer.Header.Values(name), "|"); got != want {
				t.Errorf("%s: %s is %q, want %q", c.claim, name, got, want)
			}
		}
		if answer.ContentLength != int64(len(body)) {
			t.Errorf("%s: Content-Length is %d for %d bytes", c.claim, answer.ContentLength, len(body))
		}
		if len(p.problems) != len(c.problems) {
			t.Errorf("%s: problems %v, want %d", c.claim, p.problems, len(c.problems))
			continue
		}
		for i, problem := range p.problems {
			if !strings.Contains(problem.Message, c.problems[i]) || !problem.Denies || answer.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s: problem %+v, want one with %s that denies", c.claim, problem, c.problems[i])
			}
		}
	}
}

func TestFieldsOfAnswersCostNoAllocation(t *testing.T) {
	s := newFieldSetter(map[string]string{"X-A": "1", "X-B": ""})
	header := http.Header{"X-A": {"0"}, "X-B": {"0"}}
	if n := testing.AllocsPerRun(100, func() { s.SetHeader(nil, header) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if values := header["X-A"]; !slices.Equal(values, []string{"1"}) || cap(values) != 1 {
		t.Errorf("%q with room for %d: who adds to it would write into the next answer", values, cap(values))
	}
}

func TestWhatFramesAnAnswerCannotBeHidden(t *testing.T) {
	for names, layers := range map[string]int{"Content-Length, transfer-encoding": 0, "Content-Length, X-Powered-By": 1} {
		p := passage{config: map[string]string{"hide-headers": names}, features: []func(*Annotations, *Draft){hideHeaders}}
		if d := p.drafted(); len(d.layers) != layers {
			t.Errorf("%s: %d layers, want %d", names, len(d.layers), layers)
		}
	}
}

func TestFieldsOfRequests(t *testing.T) {
	seen := make(chan *http.Request, 1)
	endpoint := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	config := map[string]string{"proxy-set-headers": "ops/request"}
	for vhost, want := range map[string]string{"": "u.test", "v.test": "v.test"} {
		annotations := map[string]string{}
		if vhost != "" {
			annotations["upstream-vhost"] = vhost
		}
		p := (&passage{annotations: annotations, config: config, objects: configMaps, features: headerFeatures, endpoints: []http.Handler{endpoint}}).open(t)
		p.get(t, "/", "X-Name: it", "X-Plain: the client's", "X-Empty: the client's", "X-Unknown: the client's", "X-Of: 1", "X-Of: 2")
		r := <-seen
		if r.Host != want {
			t.Errorf("with upstream-vhost %q: Host is %q, want %q", vhost, r.Host, want)
		}
		for name, want := range map[string]string{"X-Plain": "a b", "X-Of": "GET it h.test", "X-Forwarded-Proto": "", "X-Empty": "", "X-Unknown": "the client's", "Te": ""} {
			if got := strings.Join(r.Header.Values(name), "|"); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if len(p.problems) != 2 || !strings.Contains(p.problems[0].Message, `"Te" says how`) || !strings.Contains(p.problems[1].Message, "X-Unknown: ") || !p.problems[0].Config {
			t.Errorf("problems %+v, want Te and X-Unknown refused", p.problems)
		}
	}
}

func TestAFieldThatIsTooLongIsNotLeftOut(t *testing.T) {
	p := (&passage{
		config: map[string]string{"proxy-set-headers": "ops/long"}, features: headerFeatures, endpoints: []http.Handler{speaks},
		objects: objects{configMaps: map[string]map[string]string{"ops/long": {"X-Long": strings.Repeat("$http_x_name", 10)}}},
	}).open(t)
	if answer, _ := p.get(t, "/", "X-Name: "+strings.Repeat("x", 10_000)); answer.StatusCode != 431 {
		t.Errorf("%s, want 431", answer.Status)
	}
	if answer, _ := p.get(t, "/", "X-Name: x"); answer.StatusCode != 200 {
		t.Errorf("a short one: %s, want 200", answer.Status)
	}
}
