package feature

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/proxy"
	"sallyport/proxy/feature/value"
	"sallyport/router"
)

var authFeatures = []func(*Annotations, *Draft){errorPages, accessLists, externalAuth, basicAuth, satisfy}

// A verifier is a service that is asked whether requests may pass.
type verifier struct {
	url string

	mu     sync.Mutex // guards what follows
	asked  []*http.Request
	answer http.HandlerFunc
}

func newVerifier(t testing.TB, answer http.HandlerFunc) *verifier {
	t.Helper()
	v := &verifier{answer: answer}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.asked = append(v.asked, r)
		answer := v.answer
		v.mu.Unlock()
		answer(w, r)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(server.Close)
	v.url = server.URL
	return v
}

// says answers with a status, and fields as "Name: value".
func says(status int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, field := range fields {
			name, text, _ := strings.Cut(field, ": ")
			w.Header().Add(name, text)
		}
		w.WriteHeader(status)
	}
}

// times is how often it was asked.
func (v *verifier) times() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.asked)
}

// last is what it was asked last.
func (v *verifier) last(t testing.TB) *http.Request {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.asked) == 0 {
		t.Fatal("the service was not asked")
	}
	return v.asked[len(v.asked)-1]
}

// echoed answers with the fields it got.
var echoed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Reached", "yes")
	w.Header().Add("Set-Cookie", "application=1")
	for name, values := range r.Header {
		for _, text := range values {
			w.Header().Add("Got-"+name, text)
		}
	}
})

func guarded(t testing.TB, annotations map[string]string) *passage {
	t.Helper()
	return (&passage{annotations: annotations, features: authFeatures, endpoints: []http.Handler{echoed}}).open(t)
}

func TestTheServiceDecides(t *testing.T) {
	v := newVerifier(t, nil)
	p := guarded(t, map[string]string{"auth-url": v.url + "/verify"})
	for _, c := range []struct {
		says   int
		want   int
		reason proxy.Reason
	}{
		{200, 200, ""}, {202, 200, ""}, {204, 200, ""}, {299, 200, ""},
		{401, 401, proxy.Unauthenticated}, {403, 403, proxy.AuthForbidden},
		{302, 500, proxy.AuthFailed}, {304, 500, proxy.AuthFailed}, {400, 500, proxy.AuthFailed}, {404, 500, proxy.AuthFailed},
		{407, 500, proxy.AuthFailed}, {500, 500, proxy.AuthFailed}, {503, 500, proxy.AuthFailed},
	} {
		v.answer = says(c.says, "WWW-Authenticate: Bearer realm=x", "Location: /elsewhere", "X-Secret: s")
		for _, scheme := range []string{"http", "https"} {
			answer, body := p.do(t, request(t, "POST", scheme+"://h.test/a", strings.NewReader("words")))
			e := p.became(t)
			if answer.StatusCode != c.want || e.Reason != c.reason || (answer.Header.Get("X-Reached") != "") != (c.want == 200) {
				t.Errorf("%s: the service says %d: got %s %v %q, reason %q; want %d, reason %q", scheme, c.says, answer.Status, answer.Header, body, e.Reason, c.want, c.reason)
			}
			if got := answer.Header.Get("WWW-Authenticate"); (got == "Bearer realm=x") != (c.says == 401) || answer.Header.Get("X-Secret") != "" {
				t.Errorf("%s: the service says %d: got WWW-Authenticate %q and X-Secret %q", scheme, c.says, got, answer.Header.Get("X-Secret"))
			}
		}
	}
	if got := v.last(t).URL.Path; got != "/verify" {
		t.Errorf("a redirect of the service was followed to %s", got)
	}
}

func TestWhatTheServiceIsTold(t *testing.T) {
	v := newVerifier(t, says(200))
	p := (&passage{
		annotations: map[string]string{"auth-url": v.url + "/verify?x=$arg_b", "auth-proxy-set-headers": "fields"},
		features:    authFeatures, endpoints: []http.Handler{echoed},
		objects: objects{configMaps: map[string]map[string]string{"shop/fields": {"X-From": "$request_method $host", "X-Gone": "", "X-Sent-From": "here"}}},
	}).open(t)
	p.do(t, request(t, "POST", "http://h.test/a%2Fb/../c?b=1", strings.NewReader("words"), "Cookie: session=1", "Authorization: Bearer x", "User-Agent: it",
		"X-Own: mine", "X-Gone: not", "If-None-Match: x", "Range: bytes=0-1", "X-Original-Url: https://forged", "X-Forwarded-For: 9.9.9.9", "X-Request-Id: me-1",
		"X-Auth-Request-Redirect: forged", "Upgrade: x", "Connection: upgrade, X-Hop", "X-Hop: y", "Expect: 100-continue", "Te: trailers"))
	got := v.last(t)
	for name, want := range map[string]string{
		"Cookie": "session=1", "Authorization": "Bearer x", "User-Agent": "it", "X-Own": "mine", "X-Original-Url": "http://h.test/c?b=1",
		"X-Original-Method": "POST", "X-Sent-From": "here", "X-Real-Ip": "127.0.0.1", "X-Forwarded-For": "127.0.0.1", "X-Auth-Request-Redirect": "/c?b=1",
		"X-Request-Id": "me-1", "X-From": "POST h.test", "X-Gone": "", "If-None-Match": "", "Range": "", "Upgrade": "", "Connection": "", "X-Hop": "", "Expect": "",
		"Te": "", "X-Forwarded-Proto": "", "X-Original-Uri": "", "Content-Length": "",
	} {
		if text := strings.Join(got.Header.Values(name), ", "); text != want {
			t.Errorf("%s: %q, want %q", name, text, want)
		}
	}
	if got.Method != "GET" || got.RequestURI != "/verify?x=1" || got.ContentLength != 0 || "http://"+got.Host != v.url {
		t.Errorf("asked %s %s of %s with %d bytes", got.Method, got.RequestURI, got.Host, got.ContentLength)
	}
	p = guarded(t, map[string]string{"auth-url": v.url, "auth-method": "POST", "auth-request-redirect": "https://$host/x"})
	p.do(t, request(t, "GET", "http://h.test/a?b", nil, "User-Agent: "))
	got = v.last(t)
	if got.Method != "POST" || got.ContentLength != 0 || got.Header.Get("X-Original-Uri") != "/a?b" || got.Header.Get("X-Scheme") != "http" ||
		got.Header.Get("X-Auth-Request-Redirect") != "https://h.test/x" || len(got.Header["User-Agent"]) != 0 || got.Header.Get("X-Sent-From") != "nginx-ingress-controller" {
		t.Errorf("asked %s %v", got.Method, got.Header)
	}
}

func TestAServiceThatCannotBeAskedLetsNobodyIn(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	go func() {
		for {
			c, err := raw.Accept()
			if err != nil {
				return
			}
			bufio.NewReader(c).ReadString('\n')
			io.WriteString(c, "HTTP/1.1 200\rX: y\r\n???")
			c.Close()
		}
	}()
	breaks := newVerifier(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	long := newVerifier(t, says(200, "X-Long: "+strings.Repeat("x", maxAuthHead)))
	for claim, url := range map[string]string{
		"nobody listens": closed.URL, "it breaks off": breaks.url, "it speaks no HTTP": "http://" + raw.Addr().String(),
		"it speaks no TLS": strings.Replace(breaks.url, "http:", "https:", 1), "its head has no end": long.url,
	} {
		for _, more := range []map[string]string{{}, {"auth-signin": "https://s.test"}, {"satisfy": "any"}, {"auth-cache-key": "$remote_addr", "auth-cache-duration": "200 500 5m"}} {
			annotations := map[string]string{"auth-url": url}
			maps.Copy(annotations, more)
			p := guarded(t, annotations)
			for range 2 {
				answer, _ := p.get(t, "/")
				if e := p.became(t); answer.StatusCode != 500 || e.Reason != proxy.AuthFailed || len(e.Attempts) != 0 {
					t.Errorf("%s, %v: %s, reason %q; want 500", claim, more, answer.Status, e.Reason)
				}
			}
		}
	}
}

func TestASlowServiceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newAuthClient(0)
		client.transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				io.Copy(io.Discard, theirs)
				theirs.Close()
			}()
			return ours, nil
		}
		url, err := value.ParseURL("http://slow.test/")
		if err != nil {
			t.Fatal(err)
		}
		g := &authGuard{authSetting: authSetting{url: url, method: "GET"}, draft: new(Draft), client: client, trail: newTrail()}
		began := time.Now()
		answer, _ := ask(t, g.check(proxy.With(httptest.NewRequest("GET", "/", nil), new(proxy.Exchange))), new(proxy.Exchange))
		if took := time.Since(began); answer.StatusCode != 500 || took != authPatience {
			t.Errorf("%s after %v, want 500 after %v", answer.Status, took, authPatience)
		}
	})
}

func TestABodyOfTheServiceHoldsNobodyUp(t *testing.T) {
	released := make(chan struct{})
	v := newVerifier(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("some"))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(released)
	})
	p := guarded(t, map[string]string{"auth-url": v.url})
	if answer, _ := p.get(t, "/"); answer.StatusCode != 200 {
		t.Errorf("%s, want 200: the head of the answer says so", answer.Status)
	}
	<-released
}

func TestAClientThatLeavesEndsTheQuestion(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	v := newVerifier(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(ended)
	})
	p := guarded(t, map[string]string{"auth-url": v.url})
	c, _ := p.dial(t)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h.test\r\n\r\n")
	<-asked
	c.Close()
	<-ended
	if e := p.became(t); e.Reason != proxy.ClientClosed || len(e.Attempts) != 0 {
		t.Errorf("reason %q after %d tries, want %q", e.Reason, len(e.Attempts), proxy.ClientClosed)
	}
}

func TestMistakesInExternalAuthenticationNeverOpenARoute(t *testing.T) {
	const good = "http://127.0.0.1:1/"
	bad := map[string][]string{
		"auth-url":                   {"", " ", "nonsense", "/verify", "ftp://a.test/", "http://", "http://$arg_x/", "http://a..b/", "http://u:p@a.test/", "http://a.test/$nosuch", "http://a.test/\r\nX: y", "http://a.test/\x00"},
		"auth-method":                {"", "FETCH", "GET;", "GETx", "GET\nPOST"},
		"auth-signin":                {"", "nonsense", "//evil.test/in", "javascript:alert(1)", "https://$http_x/", "https://s.test/ x"},
		"auth-signin-redirect-param": {"", "a b", "a=b", "a&b", "a\nb"},
		"auth-response-headers":      {"", ",", "a b", "X-A,,X:", "Content-Length", "X-A, transfer-encoding", "Host"},
		"auth-request-redirect":      {"", "$nosuch", "a\nb"},
		"auth-cache-key":             {"", "$nosuch", "${host"},
		"auth-cache-duration":        {"", "soon", "200", "200 202", "200 5x", "200 five", "2000 5m", "99 5m", "200 5m,x", "200 -5m", "200 99999999999999y"},
		"auth-always-set-cookie":     {"", "yes", "on"},
		"auth-proxy-set-headers":     {"", "missing", "other/fields", "a/b/c", "bad"},
		"auth-keepalive":             {"", "-1", "many"},
		"auth-keepalive-share-vars":  {"", "maybe"},
		"auth-keepalive-requests":    {"", "x"},
		"auth-keepalive-timeout":     {"", "60s"},
		"enable-global-auth":         {"", "no"},
		"satisfy":                    {"", "some"},
	}
	known := objects{configMaps: map[string]map[string]string{"shop/bad": {"X Y": "z"}, "other/fields": {"X-A": "b"}}}
	for name, values := range bad {
		for _, text := range values {
			for claim, annotations := range map[string]map[string]string{
				"alone":               {NginxPrefix + name: text},
				"beside an auth-url":  {NginxPrefix + "auth-url": good, NginxPrefix + name: text},
				"under both prefixes": {NginxPrefix + "auth-url": good, NginxPrefix + name: good, OwnPrefix + name: text},
			} {
				a, d := newAnnotations(Input{Namespace: "shop", Annotations: annotations, Objects: known}), new(Draft)
				a.run(d, authFeatures)
				if !d.Denied() || len(a.problems) == 0 {
					t.Errorf("%s: %q %s: the routes are open, problems %v", name, text, claim, a.problems)
				}
			}
		}
	}
	// What wins is good, and what it wins over does not count.
	a, d := reads(map[string]string{OwnPrefix + "auth-url": good, NginxPrefix + "auth-url": ""}), new(Draft)
	a.run(d, authFeatures)
	if d.Denied() || d.guard == nil {
		t.Errorf("denied %v, guarded %v; want a guard", d.Denied(), d.guard != nil)
	}
}

func TestSignIn(t *testing.T) {
	v := newVerifier(t, says(401, "WWW-Authenticate: Bearer", "Set-Cookie: csrf=1; Path=/; HttpOnly", "Set-Cookie: old=; Max-Age=0"))
	for _, c := range []struct{ signIn, parameter, target, want string }{
		{"https://s.test/in", "", "/a?b=1", "https://s.test/in?rd=http://h.test%2Fa%3Fb%3D1"},
		{"https://s.test/in?x=1", "", "/", "https://s.test/in?x=1&rd=http://h.test%2F"},
		{"https://s.test/in?rd=fixed", "", "/", "https://s.test/in?rd=fixed"},
		{"https://s.test/in?rd=$escaped_request_uri", "", "/a?b=1&c=%20", "https://s.test/in?rd=%2Fa%3Fb%3D1%26c%3D%2520"},
		{"https://s.test/in", "back", "/a", "https://s.test/in?back=http://h.test%2Fa"},
		{"https://s.test/in?rd=x", "back", "/a", "https://s.test/in?rd=x&back=http://h.test%2Fa"},
		{"https://$host/oauth2/start?rd=$escaped_request_uri", "", "/a", "https://h.test/oauth2/start?rd=%2Fa"},
		{"https://s.test", "", "//evil.test/a", "https://s.test?rd=http://h.test%2F%2Fevil.test%2Fa"},
	} {
		annotations := map[string]string{"auth-url": v.url, "auth-signin": c.signIn}
		if c.parameter != "" {
			annotations["auth-signin-redirect-param"] = c.parameter
		}
		p := guarded(t, annotations)
		answer, _ := p.get(t, c.target)
		if e := p.became(t); answer.StatusCode != 302 || answer.Header.Get("Location") != c.want || e.Reason != proxy.Unauthenticated {
			t.Errorf("%s: %s to %q, reason %q; want 302 to %q", c.signIn, answer.Status, answer.Header.Get("Location"), e.Reason, c.want)
		}
		if got := answer.Header["Set-Cookie"]; !slices.Equal(got, []string{"csrf=1; Path=/; HttpOnly", "old=; Max-Age=0"}) || answer.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: cookies %q, WWW-Authenticate %q; want both cookies and nothing to log in with", c.signIn, got, answer.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestFieldsOfTheReplyReachTheEndpoint(t *testing.T) {
	big := strings.Repeat("g", 12<<10)
	v := newVerifier(t, says(200, "X-User: ada", "X-Group: a", "X-Group: b", "X-Big: "+big, "X-Other: not asked for", "Authorization: Bearer new"))
	p := guarded(t, map[string]string{"auth-url": v.url, "auth-response-headers": "x-user, X-Group ,X-Big,X-Absent, Authorization, X-User"})
	answer, _ := p.get(t, "/", "X-User: mallory", "X-Group: root", "X-Absent: forged", "Authorization: Bearer old", "X-Other: mine")
	for name, want := range map[string]string{
		"X-User": "ada", "X-Group": "a|b", "X-Big": big, "X-Absent": "", "Authorization": "Bearer new", "X-Other": "mine",
	} {
		if got := strings.Join(answer.Header["Got-"+name], "|"); got != want {
			t.Errorf("the endpoint got %s %q, want %q", name, got, want)
		}
	}
	if got := v.last(t).Header.Get("Authorization"); got != "Bearer old" {
		t.Errorf("the service got Authorization %q, want the client's", got)
	}
}

func TestCookiesOfTheServiceAreAdded(t *testing.T) {
	cookies := []string{"a=1; Path=/; Secure; SameSite=Lax", "b=2"}
	for _, c := range []struct {
		service, endpoint int
		always            string
		want              bool
	}{
		{200, 200, "", true}, {200, 201, "", true}, {200, 304, "", true}, {200, 302, "", true}, {200, 404, "", false}, {200, 404, "true", true},
		{200, 500, "", false}, {200, 500, "true", true}, {401, 0, "", false}, {401, 0, "true", true}, {403, 0, "true", true}, {403, 0, "false", false},
	} {
		v := newVerifier(t, says(c.service, "Set-Cookie: "+cookies[0], "Set-Cookie: "+cookies[1]))
		annotations := map[string]string{"auth-url": v.url}
		if c.always != "" {
			annotations["auth-always-set-cookie"] = c.always
		}
		endpoint := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Set-Cookie", "own=1")
			w.WriteHeader(c.endpoint)
		})
		p := (&passage{annotations: annotations, features: authFeatures, endpoints: []http.Handler{endpoint}}).open(t)
		var want []string
		if c.endpoint != 0 {
			want = append(want, "own=1")
		}
		if c.want {
			want = append(want, cookies...)
		}
		answer, _ := p.get(t, "/")
		if got := answer.Header["Set-Cookie"]; !slices.Equal(got, want) {
			t.Errorf("%+v: %s with cookies %q, want %q", c, answer.Status, got, want)
		}
	}
}

func TestErrorPagesChangeNoRefusal(t *testing.T) {
	pages := backendOf(t, pageServer(200))
	for service, want := range map[int]int{401: 401, 403: 403, 500: 500} {
		v := newVerifier(t, says(service))
		p := (&passage{
			annotations: map[string]string{"auth-url": v.url, "default-backend": "pages", "custom-http-errors": "401,403,500"},
			features:    authFeatures, endpoints: []http.Handler{echoed}, objects: objects{backends: map[string]*Backend{"pages": pages}},
		}).open(t)
		if answer, body := p.get(t, "/"); answer.StatusCode != want || answer.Header.Get("X-Page") == "" {
			t.Errorf("the service says %d: %s %q, want the page with %d", service, answer.Status, body, want)
		}
	}
}

func TestAGuardThatIsAskedOnItsOwnBehalfRefuses(t *testing.T) {
	var front string
	v := newVerifier(t, func(w http.ResponseWriter, r *http.Request) { // leads back to the front
		again, err := http.NewRequestWithContext(r.Context(), "GET", "http://"+front+"/", nil)
		if err != nil {
			panic(err)
		}
		again.Host, again.Header = "h.test", r.Header.Clone()
		answer, err := http.DefaultTransport.RoundTrip(again)
		if err != nil {
			panic(err)
		}
		answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
	})
	p := guarded(t, map[string]string{"auth-url": v.url})
	front = p.plain
	if answer, _ := p.get(t, "/"); answer.StatusCode != 500 || v.times() != 1 {
		t.Errorf("%s after %d questions, want 500 after one", answer.Status, v.times())
	}
	if answer, _ := p.get(t, "/", trailField+": anything"); answer.StatusCode != 500 || v.times() != 2 {
		t.Errorf("%s after %d questions, want a mark that is none of ours passed on", answer.Status, v.times())
	}
}

func TestNoClientChoosesWhomToAsk(t *testing.T) {
	for _, c := range []struct {
		url, rule, alias string
		host, asked      string // of the request
		want             bool
	}{
		{"http://fixed.test/", "", "", "evil.test", "evil.test", true},
		{"http://$host/v", "h.test", "", "h.test", "h.test:80", true},
		{"http://$host/v", "", "", "evil.test", "evil.test", false},
		{"http://$http_host/v", "", "", "evil.test", "evil.test", false},
		{"http://$http_host/v", "h.test", "", "h.test", "H.test:8080", true},
		{"http://$http_host/v", "h.test", "", "h.test", "evil.test", false},
		{"http://auth.$host/v", "", "", "evil.test", "evil.test", false},
		{"http://$host/v", "*.h.test", "", "a.h.test", "a.h.test", true},
		{"http://$host/v", "*.h.test", "", "a.b.h.test", "a.b.h.test", false},
		{"http://$host/v", "h.test", "www.h.test", "www.h.test", "www.h.test", true},
		{"http://$host/v", "h.test", "*.w.test", "a.w.test", "a.w.test", true},
		{"http://$host/v", "h.test", "~^a.*", "a.evil.test", "a.evil.test", false},
		{"http://a.$namespace.svc/$host", "", "", "evil.test", "evil.test", true},
		{"$scheme://a.test/$host", "", "", "evil.test", "evil.test", true},
	} {
		annotations := map[string]string{"auth-url": c.url}
		features := []func(*Annotations, *Draft){serverAlias, externalAuth}
		if c.alias != "" {
			annotations["server-alias"] = c.alias
		}
		a, d := reads(prefixed(annotations)), new(Draft)
		a.run(d, features)
		u, err := value.ParseURL(c.url)
		if err != nil || len(a.problems) > 0 {
			t.Fatal(c.url, err, a.problems)
		}
		g := &authGuard{authSetting: authSetting{url: u}, draft: d, chosen: chosenBy(u)}
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = c.asked
		e := &proxy.Exchange{Host: c.host, Route: &router.Route{Match: router.Match{Host: c.rule, Path: "/"}}}
		if err := g.checkHost(r, e); (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestARuleForAnyHostDoesNotAskTheHost(t *testing.T) {
	v := newVerifier(t, says(200))
	p := guarded(t, map[string]string{"auth-url": "http://$http_host/"})
	r := request(t, "GET", "http://h.test/", nil)
	r.Host = strings.TrimPrefix(v.url, "http://")
	if answer, _ := p.do(t, r); answer.StatusCode != 500 || v.times() != 0 {
		t.Errorf("%s after %d questions, want 500 after none", answer.Status, v.times())
	}
}

func TestGlobalAuthentication(t *testing.T) {
	global, own := newVerifier(t, says(401)), newVerifier(t, says(403))
	key := func(more map[string]string) map[string]string {
		config := map[string]string{"global-auth-url": global.url, "global-auth-signin": "https://s.test/in", "global-auth-signin-redirect-param": "back"}
		maps.Copy(config, more)
		return config
	}
	for _, c := range []struct {
		claim       string
		annotations map[string]string
		config      map[string]string
		want        int
	}{
		{"it holds where nothing else is said", nil, key(nil), 302},
		{"an own auth-url takes its place, whole", map[string]string{"auth-url": own.url}, key(nil), 403},
		{"it can be turned off", map[string]string{"enable-global-auth": "false"}, key(nil), 200},
		{"and only by false", map[string]string{"enable-global-auth": "no"}, key(nil), 503},
		{"a mistake denies", nil, map[string]string{"global-auth-url": "nonsense"}, 503},
		{"so does one beside it", nil, key(map[string]string{"global-auth-cache-duration": "soon"}), 503},
		{"but not who does without", map[string]string{"enable-global-auth": "false"}, map[string]string{"global-auth-url": "nonsense"}, 200},
		{"nor who has an own", map[string]string{"auth-url": own.url}, map[string]string{"global-auth-url": "nonsense"}, 403},
		{"a path may be exempt", nil, key(map[string]string{"no-auth-locations": "/x,/"}), 200},
		{"also from an own", map[string]string{"auth-url": own.url}, map[string]string{"no-auth-locations": "/"}, 200},
		{"where any check is enough there is none left", map[string]string{"satisfy": "any"}, key(map[string]string{"no-auth-locations": "/"}), 200},
		{"and a list alone decides", map[string]string{"satisfy": "any", "allowlist-source-range": "192.0.2.1"}, key(map[string]string{"no-auth-locations": "/"}), 403},
		{"no key, nothing", nil, map[string]string{"global-auth-method": "FETCH"}, 200},
	} {
		p := (&passage{annotations: c.annotations, config: c.config, features: authFeatures, endpoints: []http.Handler{echoed}}).open(t)
		if answer, _ := p.get(t, "/"); answer.StatusCode != c.want {
			t.Errorf("%s: %s, want %d; problems %v", c.claim, answer.Status, c.want, p.problems)
		}
	}
}

func TestAnExemptPathStillHidesWhatTheServiceWouldSay(t *testing.T) {
	p := (&passage{
		annotations: map[string]string{"auth-url": "http://127.0.0.1:1/", "auth-response-headers": "X-User,Authorization"},
		config:      map[string]string{"no-auth-locations": "/"}, features: authFeatures, endpoints: []http.Handler{echoed},
	}).open(t)
	answer, _ := p.get(t, "/", "X-User: forged", "Authorization: Bearer own")
	if answer.Header.Get("Got-X-User") != "" || answer.Header.Get("Got-Authorization") != "Bearer own" {
		t.Errorf("%s: the endpoint got X-User %q, Authorization %q", answer.Status, answer.Header.Get("Got-X-User"), answer.Header.Get("Got-Authorization"))
	}
}

func TestWebSocketsAreGuarded(t *testing.T) {
	v := newVerifier(t, says(401))
	p := guarded(t, map[string]string{"auth-url": v.url})
	c, read := p.dial(t)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	answer, err := http.ReadResponse(read, nil)
	if err != nil || answer.StatusCode != 401 {
		t.Fatalf("%v, %v; want 401", answer, err)
	}
	if got := v.last(t); got.Header.Get("Upgrade") != "" || got.Header.Get("Connection") != "" || got.Header.Get("Sec-Websocket-Key") == "" {
		t.Errorf("the service was asked with %v", got.Header)
	}
}

func TestAServiceOverTLSNeedsNoCertificateOfRenown(t *testing.T) {
	var name string
	service := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { name = r.TLS.ServerName }))
	t.Cleanup(service.Close)
	p := guarded(t, map[string]string{"auth-url": strings.Replace(service.URL, "127.0.0.1", "localhost", 1)})
	if answer, _ := p.get(t, "/"); answer.StatusCode != 200 || name != "localhost" {
		t.Errorf("%s, server name %q; want 200 and localhost", answer.Status, name)
	}
}

func TestOneOfSeveralChecksSeesTheClientsOwnWords(t *testing.T) {
	v := newVerifier(t, says(200, "Authorization: Bearer new"))
	annotations := map[string]string{"auth-url": v.url, "auth-response-headers": "Authorization", "auth-type": "basic", "auth-secret": "users"}
	h, problems := secured(t, annotations, vault{"shop/users": {"auth": []byte(plainUsers)}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	answer, body := knock(h, "GET", "/", basicOf("ada", "secret"))
	if answer.StatusCode != 200 || body != "Bearer new" {
		t.Errorf("%s, the endpoint got Authorization %q; want 200 and the service's", answer.Status, body)
	}
	if answer, _ := knock(h, "GET", "/", basicOf("ada", "wrong")); answer.StatusCode != 401 {
		t.Errorf("a wrong password: %s, want 401", answer.Status)
	}
	if v.times() != 2 {
		t.Errorf("the service was asked %d times, want 2", v.times())
	}
}

func TestSatisfy(t *testing.T) {
	for _, c := range []struct {
		satisfy  string
		service  int
		password string
		want     int
	}{
		{"any", 200, "wrong", 200}, {"any", 403, "secret", 200}, {"any", 500, "secret", 200}, {"any", 403, "wrong", 401}, {"any", 200, "secret", 200},
		{"all", 200, "wrong", 401}, {"all", 403, "secret", 403}, {"all", 500, "secret", 500}, {"all", 200, "secret", 200},
		{"", 403, "secret", 403}, {"some", 200, "secret", 503}, {"Any", 403, "secret", 200},
	} {
		v := newVerifier(t, says(c.service))
		annotations := map[string]string{"auth-url": v.url, "auth-type": "basic", "auth-secret": "users", "auth-response-headers": "X-User"}
		if c.satisfy != "" {
			annotations["satisfy"] = c.satisfy
		}
		h, _ := secured(t, annotations, vault{"shop/users": {"auth": []byte(plainUsers)}})
		r := basicOf("ada", c.password)
		answer, body := knock(h, "GET", "/", r)
		if answer.StatusCode != c.want || c.want == 200 && body != "" {
			t.Errorf("%+v: %s, the endpoint got Authorization %q; want %d and none", c, answer.Status, body, c.want)
		}
	}
}

func TestAFieldThatCouldEndAnotherIsNoReply(t *testing.T) {
	for text, want := range map[string]bool{"ada": true, "ad\u00e5": true, "a\rX: y": false, "a\nb": false, "a\x00b": false} {
		if _, err := pick(http.Header{"X-User": {"good", text}}, []string{"X-User"}); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
