package feature

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
)

var errorFeatures = []func(*Annotations, *Draft){errorPages, bodySize, liveEndpoints, requestBuffering, standIn}

// pageServer answers with a status of its own and what it was asked.
func pageServer(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Page", "yes")
		w.Header().Set("Content-Type", "text/x-page")
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s %s code %s body %q", r.Method, r.RequestURI, r.Header.Get("X-Code"), body)
	})
}

// fails answers with the status that the path says, and a field that no page has.
var fails = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	var status int
	fmt.Sscanf(r.URL.Path, "/%d", &status)
	w.Header().Set("X-Of-The-Application", "yes")
	w.WriteHeader(status)
	io.WriteString(w, "the application's")
})

// refusing is a feature that answers everything in the proxy's own name.
func refusing(status int, reason proxy.Reason) func(*Annotations, *Draft) {
	return func(_ *Annotations, d *Draft) {
		d.Guard(func(*http.Request) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxy.Fail(w, r, status, reason) })
		})
	}
}

func TestErrorPages(t *testing.T) {
	pages := backendOf(t, pageServer(200))
	type set map[string]string
	for _, c := range []struct {
		claim       string
		annotations set
		config      set
		target      string
		want        int
		page        bool
	}{
		{"a status of the list has a page", set{"custom-http-errors": "404,503"}, nil, "/404", 200, true},
		{"another has none", set{"custom-http-errors": "404,503"}, nil, "/500", 500, false},
		{"what is no error has none", set{"custom-http-errors": "404"}, nil, "/200", 200, false},
		{"without a list nothing has one", nil, nil, "/404", 404, false},
		{"the ConfigMap's list counts where there is no other", nil, set{"custom-http-errors": "404, 302"}, "/404", 200, true},
		{"it may hold what is no error", nil, set{"custom-http-errors": "404, 302"}, "/302", 200, true},
		{"an Ingress's list takes its place", set{"custom-http-errors": "418"}, set{"custom-http-errors": "404"}, "/404", 404, false},
		{"a sign-in page takes it away", set{"auth-url": "http://a.test", "auth-signin": "https://s.test"}, set{"custom-http-errors": "404"}, "/404", 404, false},
		{"one that nobody is sent to does not", set{"auth-signin": "https://s.test"}, set{"custom-http-errors": "404"}, "/404", 200, true},
		{"but not the list of the Ingress", set{"auth-url": "http://a.test", "auth-signin": "https://s.test", "custom-http-errors": "404"}, nil, "/404", 200, true},
		{"endpoints may keep their errors", set{"custom-http-errors": "404", "disable-proxy-intercept-errors": "true"}, nil, "/404", 404, false},
		{"so may all of them", set{"custom-http-errors": "404"}, set{"disable-proxy-intercept-errors": "true"}, "/404", 404, false},
		{"unless the Ingress wants otherwise", set{"custom-http-errors": "404", "disable-proxy-intercept-errors": "false"}, set{"disable-proxy-intercept-errors": "true"}, "/404", 200, true},
	} {
		annotations := map[string]string{"default-backend": "pages"}
		for name, text := range c.annotations {
			annotations[name] = text
		}
		p := (&passage{
			annotations: annotations, config: c.config, features: errorFeatures, endpoints: []http.Handler{fails},
			objects: objects{backends: map[string]*Backend{"pages": pages}},
		}).open(t)
		answer, body := p.get(t, c.target)
		if answer.StatusCode != c.want || (answer.Header.Get("X-Page") != "") != c.page {
			t.Errorf("%s: %s %v %q; want %d, from the default backend: %v", c.claim, answer.Status, answer.Header, body, c.want, c.page)
		}
		if c.page && (answer.Header.Get("X-Of-The-Application") != "" || answer.Header.Get("Content-Type") != "text/x-page" || body != "GET / code "+c.target[1:]+` body ""`) {
			t.Errorf("%s: %v %q; want nothing of the endpoint's answer", c.claim, answer.Header, body)
		}
	}
}

func TestThePageKeepsItsStatusAndTheMethod(t *testing.T) {
	p := (&passage{
		annotations: map[string]string{"default-backend": "pages", "custom-http-errors": "404"}, features: errorFeatures,
		endpoints: []http.Handler{fails}, objects: objects{backends: map[string]*Backend{"pages": backendOf(t, pageServer(410))}},
	}).open(t)
	for _, scheme := range []string{"http", "https"} {
		answer, body := p.do(t, request(t, "DELETE", scheme+"://h.test/404", sized(20_000)))
		if answer.StatusCode != 410 || body != `DELETE / code 404 body ""` {
			t.Errorf("%s: %s %q; want 410, the method, and no body", scheme, answer.Status, body)
		}
		if e := p.became(t); e.Status != 410 || e.Reason != "" || len(e.Attempts) != 2 {
			t.Errorf("%s: told as %d, %q after %d tries; want 410 and no reason after 2", scheme, e.Status, e.Reason, len(e.Attempts))
		}
	}
	if answer, body := p.do(t, request(t, "HEAD", "http://h.test/404", nil)); answer.StatusCode != 410 || body != "" {
		t.Errorf("HEAD: %s %q", answer.Status, body)
	}
}

// TestWhatADefaultBackendIsTold looks at the request for a page.
func TestWhatADefaultBackendIsTold(t *testing.T) {
	var seen http.Header
	var host string
	pages := backendOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen, host = r.Header, r.Host }))
	p := (&passage{
		annotations: map[string]string{"default-backend": "pages", "custom-http-errors": "404", "upstream-vhost": "u.test"},
		features:    append(slices.Clone(errorFeatures), upstreamVhost),
		endpoints:   []http.Handler{fails}, objects: objects{backends: map[string]*Backend{"pages": pages}},
	}).open(t)
	p.get(t, "/404?x=1", "Accept: text/html", "X-Code: 200", "X-Format: mine", "X-Request-Id: me-1", "User-Agent: it",
		"Authorization: Basic secret", "Cookie: session=secret", "If-None-Match: \"x\"", "Range: bytes=0-1")
	for name, want := range map[string]string{
		"X-Code": "404", "X-Format": "text/html", "X-Original-Uri": "/404?x=1", "X-Namespace": "shop", "X-Ingress-Name": "web",
		"X-Service-Name": "app", "X-Service-Port": "80", "X-Request-Id": "me-1", "X-Forwarded-For": "127.0.0.1", "User-Agent": "it",
		"Authorization": "", "Cookie": "", "If-None-Match": "", "Range": "",
	} {
		if got := strings.Join(seen.Values(name), ", "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if host != "h.test" {
		t.Errorf("asked for host %q, want h.test", host)
	}
}

func TestErrorsOfTheProxyHavePages(t *testing.T) {
	for _, intercepts := range []string{"true", "false"} {
		p := (&passage{
			annotations: map[string]string{
				"default-backend": "pages", "custom-http-errors": "413,502", "proxy-body-size": "1k", "disable-proxy-intercept-errors": intercepts,
			},
			features: errorFeatures, objects: objects{backends: map[string]*Backend{"pages": backendOf(t, pageServer(200))}},
			endpoints: []http.Handler{http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
		}).open(t)
		for want, body := range map[string]io.Reader{"413": sized(2000), "502": sized(10)} {
			answer, text := p.do(t, request(t, "POST", "http://h.test/", body))
			if e := p.became(t); answer.StatusCode != 200 || text != "POST / code "+want+` body ""` || e.Reason == "" {
				t.Errorf("%s: %s %q, reason %q; want the page, and the reason kept", want, answer.Status, text, e.Reason)
			}
		}
	}
}

// TestARefusalStaysOne is CVE-2026-24513: a page that says 200 to whoever may not get in.
func TestARefusalStaysOne(t *testing.T) {
	for _, c := range []struct {
		status int
		reason proxy.Reason
		want   int
	}{
		{401, proxy.Unauthenticated, 401}, {403, proxy.AuthForbidden, 403}, {403, proxy.AddressDenied, 403}, {403, proxy.Blocked, 403},
		{500, proxy.AuthFailed, 500}, {503, proxy.RateLimited, 200},
	} {
		p := (&passage{
			annotations: map[string]string{"default-backend": "pages", "custom-http-errors": "401,403,500,503"},
			features:    []func(*Annotations, *Draft){errorPages, refusing(c.status, c.reason)},
			endpoints:   []http.Handler{fails}, objects: objects{backends: map[string]*Backend{"pages": backendOf(t, pageServer(200))}},
		}).open(t)
		answer, body := p.get(t, "/200")
		if e := p.became(t); answer.StatusCode != c.want || body != fmt.Sprintf("GET / code %d body \"\"", c.status) || e.Reason != c.reason {
			t.Errorf("%d %s: %s %q, reason %q; want the page with status %d", c.status, c.reason, answer.Status, body, e.Reason, c.want)
		}
	}
}

func TestAnEndpointsRefusalIsThePagesToWord(t *testing.T) {
	p := (&passage{
		annotations: map[string]string{"default-backend": "pages", "custom-http-errors": "403"}, features: errorFeatures,
		endpoints: []http.Handler{fails}, objects: objects{backends: map[string]*Backend{"pages": backendOf(t, pageServer(200))}},
	}).open(t)
	if answer, body := p.get(t, "/403"); answer.StatusCode != 200 || body != `GET / code 403 body ""` {
		t.Errorf("%s %q, want the page as it is", answer.Status, body)
	}
}

// TestAPageThatCannotBeHadLeavesTheError has default backends that break off, refuse, or have no endpoints.
func TestAPageThatCannotBeHadLeavesTheError(t *testing.T) {
	aborts := backendOf(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for name, pages := range map[string]*Backend{"one that breaks off": aborts, "one without endpoints": backendOf(t), "none": nil} {
		backends := map[string]*Backend{}
		if pages != nil {
			backends["pages"] = pages
		}
		open := func(features ...func(*Annotations, *Draft)) *passage {
			return (&passage{
				annotations: map[string]string{"default-backend": "pages", "custom-http-errors": "401,404"}, features: features,
				endpoints: []http.Handler{fails}, objects: objects{backends: backends},
			}).open(t)
		}
		p := open(errorPages, refusing(401, proxy.Unauthenticated))
		answer, body := p.get(t, "/404")
		if e := p.became(t); answer.StatusCode != 401 || !strings.HasPrefix(body, "401 Unauthorized\nreason: unauthenticated\n") || e.Reason != proxy.Unauthenticated {
			t.Errorf("%s: %s %q, reason %q; want the proxy's own 401", name, answer.Status, body, e.Reason)
		}
		p = open(errorFeatures...)
		answer, body = p.get(t, "/404")
		if answer.StatusCode != 404 {
			t.Errorf("%s: %s, want the endpoint's status", name, answer.Status)
		}
		if name == "one that breaks off" {
			if e := p.became(t); e.Status != 404 || e.Reason != proxy.UpstreamReset || !strings.HasPrefix(body, "404 Not Found\n") {
				t.Errorf("%s: %q, told as %d %q; want a 404 of the proxy's that says why", name, body, e.Status, e.Reason)
			}
		} else if body != "the application's" {
			t.Errorf("%s: %q, want the endpoint's answer", name, body)
		}
	}
}

func TestStatusesThatCannotHavePagesAreRefused(t *testing.T) {
	for _, c := range []struct {
		text, config string
		want         []int
		bad          bool
	}{
		{"404", "", []int{404}, false}, {" 404 , 503 ,", "", []int{404, 503}, false}, {"400,599", "", []int{400, 599}, false},
		{"600", "500", []int{500}, true}, {"404,x", "500", []int{500}, true}, {"", "500", []int{500}, true},
		{"399", "", nil, true}, {"302,404", "", nil, true}, {"-404", "", nil, true}, {"4.4", "", nil, true},
	} {
		a := newAnnotations(Input{
			Annotations: prefixed(map[string]string{"custom-http-errors": c.text}), Config: &Config{values: map[string]string{"custom-http-errors": c.config}},
		})
		got := a.Shared().statuses("custom-http-errors", "which")
		if !slices.Equal(got, c.want) || (len(a.problems) == 1) != c.bad {
			t.Errorf("%q with %q in the ConfigMap: %v, %v; want %v, bad: %v", c.text, c.config, got, a.problems, c.want, c.bad)
		}
	}
	a := newAnnotations(Input{Config: &Config{values: map[string]string{"custom-http-errors": "300,299"}}})
	if got := a.Shared().statuses("custom-http-errors", "which"); got != nil || len(a.problems) != 1 || !a.problems[0].Config {
		t.Errorf("299 in the ConfigMap: %v, %v", got, a.problems)
	}
}

func TestNobodyThere(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(404)
		fmt.Fprintf(w, "%s %s code %s format %s of %s/%s %s:%s body %s", r.Method, r.RequestURI, r.Header.Get("X-Code"), r.Header.Get("X-Format"),
			r.Header.Get("X-Namespace"), r.Header.Get("X-Ingress-Name"), r.Header.Get("X-Service-Name"), r.Header.Get("X-Service-Port"), body)
	})
	rewritten := func(_ *Annotations, d *Draft) {
		d.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proxy.From(r).UpstreamTarget = "/rewritten"
				next.ServeHTTP(w, r)
			})
		})
	}
	guarded := []func(*Annotations, *Draft){errorPages, liveEndpoints, refusing(401, proxy.Unauthenticated), standIn}
	open := []func(*Annotations, *Draft){errorPages, rewritten, liveEndpoints, standIn}
	for _, c := range []struct {
		claim     string
		features  []func(*Annotations, *Draft)
		endpoints []http.Handler
		backend   *Backend
		errors    string
		status    int
		reason    proxy.Reason
		body      string
	}{
		{"without endpoints that is said", open, nil, nil, "", 503, proxy.NoEndpoints, "503 Service Unavailable\nreason: no_endpoints\n"},
		{"before anyone is asked who they are", guarded, nil, nil, "", 503, proxy.NoEndpoints, "503"},
		{"also where the default backend has none", guarded, nil, backendOf(t), "", 503, proxy.NoEndpoints, "503"},
		{"the default backend stands in, and its answer counts", open, nil, backendOf(t, echo), "404", 404, "", "POST /x?y=1 code 503 format text/html of shop/web app:80 body word"},
		{"for those who may be let in", guarded, nil, backendOf(t, echo), "", 401, proxy.Unauthenticated, "401"},
		{"the page for 503 comes of it as well", open, nil, backendOf(t, echo), "503", 404, "", "POST /x?y=1 code 503 "},
		{"with endpoints it is not asked", open, []http.Handler{measure}, backendOf(t, echo), "", 200, "", "announced 4, got 4"},
	} {
		p := (&passage{features: c.features, endpoints: c.endpoints, annotations: map[string]string{}}).with(c.backend, c.errors).open(t)
		answer, body := p.do(t, request(t, "POST", "http://h.test/x?y=1", strings.NewReader("word"), "Accept: text/html", "X-Code: 1", "X-Service-Name: mine"))
		if e := p.became(t); answer.StatusCode != c.status || !strings.HasPrefix(body, c.body) || e.Reason != c.reason {
			t.Errorf("%s: %s %q, reason %q; want %d %q and %q", c.claim, answer.Status, body, e.Reason, c.status, c.body, c.reason)
		}
	}
}

// with gives the passage a default backend, nil for none, and statuses with error pages.
func (p *passage) with(backend *Backend, statuses string) *passage {
	if backend != nil {
		p.annotations["default-backend"] = "pages"
		p.objects.backends = map[string]*Backend{"pages": backend}
	}
	if statuses != "" {
		p.annotations["custom-http-errors"] = statuses
	}
	return p
}

func TestARouteWithoutAServiceAnswersForItself(t *testing.T) {
	for _, c := range []struct {
		claim  string
		at     Place
		status int
		reason proxy.Reason
	}{
		{"one that leads to no Service", Place{Info: &proxy.RouteInfo{}}, 200, ""},
		{"one of which nothing is known", Place{}, 200, ""},
		{"one to a Service that does not exist", Place{Info: &proxy.RouteInfo{Service: "gone"}}, 503, proxy.NoService},
	} {
		d := (&passage{features: errorFeatures}).drafted()
		e := new(proxy.Exchange)
		if answer, _ := ask(t, d.Handler(c.at, say("served")), e); answer.StatusCode != c.status || e.Reason != c.reason {
			t.Errorf("%s: %d, reason %q; want %d, %q", c.claim, answer.StatusCode, e.Reason, c.status, c.reason)
		}
	}
}

func TestTheDefaultBackendOfTheProcessIsAskedAfterThatOfTheRoute(t *testing.T) {
	live, empty, other := backendOf(t, pageServer(200)), backendOf(t), backendOf(t, pageServer(200))
	for _, c := range []struct{ own, process, want *Backend }{
		{live, other, live}, {empty, other, other}, {nil, other, other}, {empty, empty, nil}, {nil, nil, nil}, {empty, nil, nil},
	} {
		p := &pages{own: c.own, process: func() *Backend { return c.process }}
		p.statuses[404-leastStatus] = true
		if got := p.backend(); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.own, c.process, got, c.want)
		}
		if takes := p.Takes(404, true); takes != (c.want != nil) {
			t.Errorf("%v and %v: takes a 404: %v", c.own, c.process, takes)
		}
	}
}
