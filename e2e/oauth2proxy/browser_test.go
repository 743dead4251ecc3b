package oauth2proxy

import (
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/oauth2-proxy/v7/pkg/apis/options"
	"github.com/oauth2-proxy/oauth2-proxy/v7/pkg/apis/sessions"
	"github.com/oauth2-proxy/oauth2-proxy/v7/pkg/sessions/cookie"
)

// How oauth2-proxy keeps its sessions: in the browser, encrypted and signed.
const (
	cookieSecret  = "thirty-two bytes that nobody has"
	cookieName    = "_oauth2_proxy"
	cookieExpire  = 168 * time.Hour
	cookieRefresh = time.Hour
)

// home is where the cookies of the site belong.
var home = &url.URL{Scheme: "https", Host: "localhost", Path: "/"}

// A browser keeps cookies.
type browser struct {
	client *http.Client
	jar    *cookiejar.Jar
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{jar: jar, client: &http.Client{
		Transport: transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get asks for target on the site, follows nothing, and sends header, which may be nil.
func (b *browser) get(t *testing.T, target string, header http.Header) answer {
	t.Helper()
	return b.do(t, http.MethodGet, "https://localhost"+target, header, "")
}

func (b *browser) do(t *testing.T, method, url string, header http.Header, body string) answer {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := b.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer{response, string(text)}
}

// visit asks for target and follows redirects, as a person would see it; it returns the last answer.
func (b *browser) visit(t *testing.T, target string) answer {
	t.Helper()
	a := b.get(t, target, nil)
	var way []string
	for a.StatusCode == http.StatusFound {
		next, err := a.Location()
		if err != nil {
			t.Fatal(err)
		}
		way = append(way, next.String())
		if len(way) > 10 {
			t.Fatalf("visit %s: sent around and around:\n%s", target, strings.Join(way, "\n"))
		}
		a = b.do(t, http.MethodGet, next.String(), nil, "")
	}
	return a
}

// cookies are the cookies of the session that the browser keeps.
func (b *browser) cookies() map[string]string {
	cookies := map[string]string{}
	for _, c := range b.jar.Cookies(home) {
		if c.Name == cookieName || strings.HasPrefix(c.Name, cookieName+"_") {
			cookies[c.Name] = c.Value
		}
	}
	return cookies
}

// keep replaces the cookies of the session in the browser; an empty value removes one.
func (b *browser) keep(cookies map[string]string) {
	for name, value := range cookies {
		c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true}
		if value == "" {
			c.MaxAge = -1
		}
		b.jar.SetCookies(home, []*http.Cookie{c})
	}
}

// age makes the session in the browser older, as if it had been there unused, by rewriting it the way oauth2-proxy does:
// signed with secret. With a wrong secret it is a forgery.
func (b *browser) age(t *testing.T, by time.Duration, secret string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, home.String(), nil)
	for name, value := range b.cookies() {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	session, err := sessionStore(t, cookieSecret).Load(request)
	if err != nil {
		t.Fatalf("load the session of %v: %v", names(b.cookies()), err)
	}
	created := session.CreatedAt.Add(-by)
	session.CreatedAt = &created
	written := httptest.NewRecorder()
	if err := sessionStore(t, secret).Save(written, request, session); err != nil {
		t.Fatal(err)
	}
	b.jar.SetCookies(home, written.Result().Cookies())
}

func sessionStore(t *testing.T, secret string) sessions.SessionStore {
	t.Helper()
	store, err := cookie.NewCookieSessionStore(&options.SessionOptions{}, &options.Cookie{
		Name: cookieName, Secret: secret, Path: "/", Expire: cookieExpire, Secure: true, HTTPOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// names are the keys of a map, in order.
func names[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
