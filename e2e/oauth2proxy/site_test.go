package oauth2proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// The two ways to name oauth2-proxy that its documentation and ingress-nginx's have: the service itself, and the host of
// the application, which asks sallyport's own front again.
const (
	serviceURL = "http://127.0.0.1:4180/oauth2/auth"
	hostURL    = "https://$host/oauth2/auth"
)

// manifests are the documented ones: the application, guarded, and oauth2-proxy under /oauth2 of the same host, which
// is not. The host is one that resolves everywhere. %s is the auth-url.
//
// The documentation adds a configuration-snippet in Lua for sessions that do not fit in one cookie, because nginx copies
// only the first Set-Cookie of an authentication. There is none here: these tests show that none is needed.
const manifests = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  annotations:
    nginx.ingress.kubernetes.io/auth-url: "%s"
    nginx.ingress.kubernetes.io/auth-signin: "https://$host/oauth2/start?rd=$escaped_request_uri"
    nginx.ingress.kubernetes.io/auth-response-headers: X-Auth-Request-User, X-Auth-Request-Email, X-Auth-Request-Groups, X-Auth-Request-Access-Token, Authorization
  name: external-auth-oauth2
spec:
  ingressClassName: nginx
  rules:
  - host: localhost
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: application
            port:
              number: 80
  tls:
  - hosts:
    - localhost
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: oauth2-proxy
spec:
  ingressClassName: nginx
  rules:
  - host: localhost
    http:
      paths:
      - path: /oauth2
        pathType: Prefix
        backend:
          service:
            name: oauth2-proxy
            port:
              number: 4180
  tls:
  - hosts:
    - localhost
---
apiVersion: v1
kind: Service
metadata: {name: application}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: oauth2-proxy}
spec: {ports: [{port: 4180}]}
`

// A site is an application behind sallyport, which asks oauth2-proxy, which asks a provider.
type site struct {
	provider    *provider
	oauth2Proxy *process
	served      atomic.Int32 // requests that reached the application
}

// newSite starts everything; it ends with the test. At the provider, who is signed in.
func newSite(t *testing.T, authURL string, who person) *site {
	t.Helper()
	s := &site{provider: newProvider(t, who)}
	application := httptest.NewServer(http.HandlerFunc(s.application))
	t.Cleanup(application.Close)
	s.startOAuth2Proxy(t)
	folder := t.TempDir()
	writeFile(t, folder, "site.yaml", fmt.Sprintf(manifests, authURL))
	start(t, "http://127.0.0.1:10254/readyz", os.Getenv(sallyportVariable), "run",
		"--manifests="+folder, "--controller-class=k8s.io/ingress-nginx", "--http-port=80", "--https-port=443", "--admin-port=10254",
		"--map=default/application:80="+application.Listener.Addr().String(),
		"--map=default/oauth2-proxy:4180=127.0.0.1:4180")
	return s
}

// startOAuth2Proxy starts oauth2-proxy as its documentation says for this use. The redirect URL is left to what the
// request says about host and scheme, and with it to sallyport.
func (s *site) startOAuth2Proxy(t *testing.T) {
	t.Helper()
	s.oauth2Proxy = start(t, "http://127.0.0.1:4180/ping", os.Getenv(oauth2ProxyVariable),
		"--http-address=127.0.0.1:4180", "--reverse-proxy", "--trusted-proxy-ip=127.0.0.1/32", "--upstream=file:///dev/null",
		"--provider=oidc", "--oidc-issuer-url="+s.provider.URL, "--client-id="+clientID, "--client-secret="+clientSecret,
		"--email-domain=*", "--set-xauthrequest", "--set-authorization-header", "--pass-access-token",
		"--cookie-secret="+cookieSecret, "--cookie-refresh="+cookieRefresh.String(), "--cookie-expire="+cookieExpire.String())
}

// application answers with what it got, and keeps a cookie of its own in the browser.
func (s *site) application(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the upload was cut: no answer may look like success
	}
	http.SetCookie(w, &http.Cookie{Name: "application", Value: "seen", Path: "/", Secure: true})
	writeJSON(w, http.StatusOK, seen{Target: r.RequestURI, Header: r.Header, Body: string(body)})
}

// seen is a request as the application got it.
type seen struct {
	Target string
	Header http.Header
	Body   string
}

// An answer is what the browser got.
type answer struct {
	*http.Response
	text string
}

// seen is the request that the application answered; the test ends when it did not.
func (a answer) seen(t *testing.T) seen {
	t.Helper()
	var s seen
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: got %s with Location %q, want 200 from the application\n%s",
			a.Request.Method, a.Request.URL, a.Status, a.Header.Get("Location"), a.text)
	}
	if err := json.Unmarshal([]byte(a.text), &s); err != nil {
		t.Fatalf("%s %s: %v, want the application's answer\n%s", a.Request.Method, a.Request.URL, err, a.text)
	}
	return s
}

// cookies are the cookies that the answer sets, by name.
func (a answer) cookies() map[string]*http.Cookie {
	cookies := map[string]*http.Cookie{}
	for _, c := range a.Cookies() {
		cookies[c.Name] = c
	}
	return cookies
}

// wantSignIn checks that the answer sends the browser to sign in, and to target afterwards.
func (a answer) wantSignIn(t *testing.T, target string) {
	t.Helper()
	want := "https://localhost/oauth2/start?rd=" + url.QueryEscape(target)
	if a.StatusCode != http.StatusFound || a.Header.Get("Location") != want {
		t.Fatalf("%s %s: got %s with Location %q, want 302 with %q\n%s",
			a.Request.Method, a.Request.URL, a.Status, a.Header.Get("Location"), want, strings.TrimSpace(a.text))
	}
}
